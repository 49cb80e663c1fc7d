"""Where data sets are on disk, and a checked cache of what is made from them."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hnets.data.dataset import Arrays, sha256
from hnets.errors import InputError
from hnets.files import replacing

log = logging.getLogger(__name__)

_in_memory: dict[tuple[Path, str], Arrays] = {}


def cache_folder() -> Path:
    """The folder for downloaded and generated files: ``HNETS_CACHE``, or the user's cache."""
    if chosen := os.environ.get("HNETS_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        parent = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    else:
        parent = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(parent).expanduser() / "hnets"


def data_folders(root: str | os.PathLike[str] | None) -> tuple[Path, ...]:
    """Where to look for files: ``root`` or ``HNETS_DATA``, which are only read, then the cache."""
    chosen = root or os.environ.get("HNETS_DATA")
    if not chosen:
        return (cache_folder(),)
    folder = Path(chosen).expanduser()
    if not os.path.isdir(folder):  # False, too, without permission to look
        what = "root" if root else "HNETS_DATA"
        raise InputError(
            f"{what} is {str(folder)!r}, which is not a folder; give the one with the data"
        )
    return folder, cache_folder()


def cached(name: str, source: str, make: Callable[[], Arrays]) -> Arrays:
    """What ``make`` returns, from the cache if it is there, undamaged, and made from ``source``.

    If the cache cannot be written, the arrays stay in memory until the process ends.
    """
    path = cache_folder() / f"{name}.npz"
    arrays = _in_memory.get((path, source)) or _read(path, source)
    if arrays is not None:
        return arrays
    images, labels = make()
    try:
        with replacing(path) as part, part.open("wb") as file:
            seal = np.frombuffer(_seal(source, images, labels), np.uint8)
            np.savez(file, images=images, labels=labels, seal=seal)
    except OSError as error:
        log.warning(
            "%s cannot be written (%s), so %s is kept in memory only; set HNETS_CACHE to a folder "
            "that can be written",
            path,
            error.strerror or error,
            name,
        )
        _in_memory[path, source] = images, labels
    return images, labels


def _seal(source: str, images: NDArray[Any], labels: NDArray[Any]) -> bytes:
    return hashlib.sha256(f"{source} {sha256([images, labels])}".encode()).digest()


def _read(path: Path, source: str) -> Arrays | None:
    """The arrays of a file, or None if it is missing, damaged or made from another source."""
    try:
        # Opened here, since NumPy leaves a file that it cannot read open.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            images, labels, seal = arrays["images"], arrays["labels"], arrays["seal"]
    except OSError:  # missing, or not readable
        return None
    except Exception as error:  # readers of damaged files raise anything
        log.warning("%s is damaged (%s) and is made again", path, error)
        return None
    if seal.tobytes() != _seal(source, images, labels):
        log.info("%s is damaged or out of date and is made again", path)
        return None
    return images, labels
