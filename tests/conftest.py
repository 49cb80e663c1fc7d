"""What every test stands on: fixed seeds, and a stated reason wherever a test is skipped."""

import os
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest
import torch

from commands import Command, Outcome
from hnets.cli import main

hypothesis.settings.register_profile(
    "repeatable", deadline=None, max_examples=25, derandomize=True, database=None
)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=500)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


class _TorchRandom:
    """Torch's generator as Hypothesis wants it, so that an example runs alike each time."""

    seed = staticmethod(torch.manual_seed)
    getstate = staticmethod(torch.get_rng_state)
    setstate = staticmethod(torch.set_rng_state)


_TORCH_RANDOM = _TorchRandom()  # Hypothesis keeps a weak reference
hypothesis.register_random(_TORCH_RANDOM)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 - for libraries that still draw from it


@pytest.fixture
def hnets_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:  # fmt: skip
    """Runs the hnets command in this process."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["hnets", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
        return Outcome(stopped.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def data_folder() -> Path:
    """The folder with data sets; tests that ask for it are skipped where there is none."""
    folder = os.environ.get("HNETS_DATA")
    if not folder:
        pytest.skip("needs data sets: set HNETS_DATA to the folder that holds them")
    if not Path(folder).is_dir():
        pytest.skip(f"needs data sets: HNETS_DATA names {folder!r}, which is no folder")
    return Path(folder)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run what takes minutes")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs a CUDA device, and torch finds none")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)
