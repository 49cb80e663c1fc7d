"""Caches for the tests of data sets."""

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:  # fmt: skip
    """One cache for the whole run, so that what takes seconds to make is made once."""
    base = tmp_path_factory.getbasetemp()
    # A worker of pytest-xdist has a folder of its own in that of the run.
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    monkeypatch.setenv("HNETS_CACHE", str(folder))
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one test alone, which it may spoil."""
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "own"))
    return tmp_path / "own"
