"""Where data sets are on disk, and a checked cache of what is made from them."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import shutil
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hnets.data.dataset import Arrays, sha256
from hnets.errors import InputError
from hnets.files import replacing

log = logging.getLogger(__name__)

_LENGTH = 32  # bytes of a SHA-256
_MARGIN = 2**30  # bytes that a cache leaves free on its disk
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


def find_data(what: str, root: str | os.PathLike[str] | None, *names: str) -> Path:
    """The first file or folder of these names in `data_folders`; without one, an `InputError`."""
    folders = data_folders(root)
    for path in (folder / name for folder in folders for name in names):
        if os.path.exists(path):
            return path
    raise InputError(
        f"{what} is not here: put {names[0]} into {folders[0]}, or set "
        "HNETS_DATA to the folder that has it"
    )


def cached(name: str, source: str, make: Callable[[], Arrays]) -> Arrays:
    """What ``make`` returns, from the cache if it is there, undamaged, and made from ``source``."""
    arrays = recall(name, source)
    if arrays is None:
        arrays = make()
        keep(name, source, arrays)
    return arrays


def recall(name: str, source: str) -> Arrays | None:
    """What was kept under a name, if it is there, undamaged, and made from ``source``."""
    path = _path(name)
    return _in_memory.get((path, source)) or _read(path, source)


def keep(name: str, source: str, arrays: Arrays) -> bool:
    """Whether arrays could be written to the cache; if not, they stay in memory until the end."""
    path, (images, labels) = _path(name), arrays
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
        _in_memory[path, source] = arrays
        return False
    return True


def _path(name: str) -> Path:
    return cache_folder() / f"{name}.npz"


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


class PixelCache:
    """Decoded images of one set, in a file of the cache, each with the SHA-256 of its pixels.

    Any number of processes read and write it at the same time, and may be killed: an image is in it
    once its pixels have their checksum. Where there is no room for the pixels, checksums alone are
    kept, and where nothing can be written, nothing.

    Args:
        name: of the set.
        source: what the images are made from; those from another source are removed.
        count: how many images there are.
        size: bytes of each.
    """

    def __init__(self, name: str, source: str, count: int, size: int) -> None:
        self.arguments = name, source, count, size
        folder = cache_folder() / "pixels"
        path = folder / f"{name}-{source[:16]}"
        self._checksums = self._pixels = -1  # file descriptors
        if not hasattr(os, "pread"):
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob(f"{name}-*"):
                if old.stem != path.name:
                    old.unlink(missing_ok=True)
            self._checksums = self._open(path.with_suffix(".sha256"), count * _LENGTH)
            self._pixels = self._open(path.with_suffix(".pixels"), count * size)
        except OSError as error:
            log.warning(
                "%s cannot hold decoded images (%s), so they are decoded for each epoch; set "
                "HNETS_CACHE to a folder with %.1f GB of room",
                folder,
                error.strerror or error,
                count * size / 1e9,
            )

    def __reduce__(self) -> tuple[type[PixelCache], tuple[str, str, int, int]]:
        return PixelCache, self.arguments  # for processes that are not forked

    def _open(self, path: Path, size: int) -> int:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        weakref.finalize(self, os.close, file)
        facts = os.fstat(file)
        if facts.st_size != size:
            os.ftruncate(file, size)
        if size - 512 * facts.st_blocks > shutil.disk_usage(path.parent).free - _MARGIN:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return file

    def checksums(self) -> NDArray[np.uint8]:
        """The SHA-256 of each image, ``(count, 32)``; zeros for those that are not known."""
        _, _, count, _ = self.arguments
        if self._checksums < 0:
            return np.zeros((count, _LENGTH), np.uint8)
        stored = bytearray()
        while part := os.pread(self._checksums, 2**24, len(stored)):
            stored += part
        return np.frombuffer(stored, np.uint8).reshape(count, _LENGTH)

    def read(self, row: int) -> bytes | None:
        """The pixels of an image, if they are there."""
        size = self.arguments[3]
        if self._pixels < 0:
            return None
        seal = os.pread(self._checksums, _LENGTH, row * _LENGTH)
        pixels = os.pread(self._pixels, size, row * size) if any(seal) else b""
        return pixels if seal == hashlib.sha256(pixels).digest() else None

    def write(self, row: int, pixels: bytes) -> bytes:
        """Store the pixels of an image, as far as there is room; their SHA-256."""
        seal = hashlib.sha256(pixels).digest()
        try:
            if self._pixels >= 0 and os.pwrite(self._pixels, pixels, row * len(pixels)) < len(
                pixels
            ):
                return seal
            if self._checksums >= 0:
                os.pwrite(self._checksums, seal, row * _LENGTH)
        except OSError:  # the disk is full by now
            self._pixels = self._checksums = -1
        return seal
