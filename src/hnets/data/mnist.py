"""MNIST: 70,000 handwritten digits, from the four files that their authors published."""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hnets.data.cache import Arrays, Progress, cache_folder, folders
from hnets.data.download import DownloadError, File, fetch
from hnets.errors import InputError

__all__ = ["CLASSES", "FILES", "MIRRORS", "SIZES", "arrays", "find", "read_idx"]

SIZES = (50_000, 10_000, 10_000)
"""Images of train, val and test: the training file is cut in two, the test file is the test set."""
CLASSES = tuple("0123456789")

FILES = (
    File("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    File("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    File("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    File("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
)
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)


def arrays(root: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> Arrays:
    """All images and labels, those of the training file first; downloaded if need be."""
    paths = find(root, progress)
    images = [read_idx(paths[i], FILES[i], dimensions=3) for i in (0, 2)]
    labels = [read_idx(paths[i], FILES[i], dimensions=1) for i in (1, 3)]
    return np.concatenate(images), np.concatenate(labels)


def find(
    root: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    mirrors: tuple[str, ...] = MIRRORS,
) -> list[Path]:
    """The four files, wherever they are; those that are missing are downloaded to the cache."""
    found = {file: _here(file, root) for file in FILES}
    missing = [file for file, path in found.items() if path is None]
    folder = cache_folder() / "mnist"
    try:
        for file in missing:
            found[file] = fetch(file, folder, mirrors, progress)
    except DownloadError as error:
        raise InputError(
            f"MNIST is not here and could not be downloaded ({error}); get "
            f"{', '.join(file.name for file in missing)} from {mirrors[0]} into {folder}, or set "
            "HNETS_DATA to a folder that has them in mnist/"
        ) from None
    return [path for path in found.values() if path is not None]


def _here(file: File, root: str | os.PathLike[str] | None) -> Path | None:
    places = (folder / "mnist" / file.name for folder in folders(root))
    return next((path for path in places if os.path.exists(path)), None)


def read_idx(path: Path, file: File, dimensions: int) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file, after checking that it is the file that was published."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); check its permissions"
        ) from None
    remedy = "delete it, and it is downloaded again"
    if len(packed) != file.size:
        raise InputError(
            f"{path} has {len(packed):,} bytes in place of {file.size:,}: it is cut short or "
            f"another file; {remedy}"
        )
    if (came := hashlib.md5(packed, usedforsecurity=False).hexdigest()) != file.md5:
        raise InputError(f"{path} has the md5 {came} in place of {file.md5}; {remedy}")
    try:
        data = gzip.decompress(packed)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} is no whole gzip file ({error}); {remedy}") from None
    return _parse(data, path, dimensions, remedy)


def _parse(data: bytes, path: Path, dimensions: int, remedy: str) -> NDArray[np.uint8]:
    header = 4 + 4 * dimensions
    magic = bytes([0, 0, 8, dimensions])  # 8 stands for bytes
    if data[:4] != magic or len(data) < header:
        raise InputError(
            f"{path} starts with {data[:4].hex() or 'nothing'} in place of {magic.hex()}: it is no "
            f"IDX file of bytes in {dimensions} dimensions; {remedy}"
        )
    shape = np.frombuffer(data, ">u4", dimensions, offset=4).tolist()
    values = np.frombuffer(data, np.uint8, offset=header)
    if values.size != np.prod(shape, dtype=np.int64):
        raise InputError(
            f"{path} has {values.size:,} values in place of {'×'.join(map(str, shape))}; {remedy}"
        )
    if dimensions == 1 and values.size and values.max() > 9:
        where = int(np.argmax(values > 9))
        raise InputError(
            f"{path} has the label {values[where]} at {where}, and labels are 0 to 9; {remedy}"
        )
    return values.reshape(shape)
