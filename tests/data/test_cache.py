"""The cache of what is made from data sets."""

import logging
import sys
from pathlib import Path

import numpy as np
import pytest

from hnets.data import cache
from hnets.data.dataset import Arrays


def make() -> Arrays:
    return np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.array([1, 0], np.uint8)


def unexpected() -> Arrays:
    raise AssertionError("it is in the cache already")


def test_what_is_cached_is_made_once_for_each_source(own_cache: Path) -> None:
    cache.cached("set", "a", make)
    images, labels = cache.cached("set", "a", unexpected)
    assert images.tolist() == make()[0].tolist()
    assert labels.tolist() == [1, 0]
    assert [path.name for path in own_cache.iterdir()] == ["set.npz"]
    with pytest.raises(AssertionError, match="already"):
        cache.cached("set", "b", unexpected)


def test_damage_anywhere_is_noticed_and_repaired(own_cache: Path) -> None:
    cache.cached("set", "a", make)
    path = own_cache / "set.npz"
    whole = path.read_bytes()
    spoilt = [b"", b"text", whole[:-1], whole[: len(whole) // 2]]
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 255
        spoilt.append(bytes(changed))
    for content in spoilt:
        path.write_bytes(content)
        images, labels = cache.cached("set", "a", make)
        assert images.tolist() == make()[0].tolist()
        assert labels.tolist() == [1, 0]


def test_a_cache_that_cannot_be_written_leaves_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "file"))
    made = cache.cached("set", "a", make)
    assert cache.cached("set", "a", unexpected)[0] is made[0]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "set HNETS_CACHE to a folder that can be written" in record.getMessage()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HNETS_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() == tmp_path / "hnets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.cache_folder() == Path("~/.cache/hnets").expanduser()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
    assert cache.cache_folder() == tmp_path / "Local" / "hnets"
