"""MNIST: 70,000 handwritten digits, from the four files that their authors published."""

from __future__ import annotations

import gzip
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hnets.data.storage import Arrays, Progress, folders
from hnets.errors import InputError

__all__ = ["CLASSES", "FILES", "SIZES", "arrays", "read_idx"]

SIZES = (50_000, 10_000, 10_000)
"""Images of train, val and test: the training file is cut in two, the test file is the test set."""
CLASSES = tuple("0123456789")


@dataclass(frozen=True)
class File:
    """One published file."""

    name: str
    size: int
    md5: str


FILES = (
    File("train-images-idx3-ubyte.gz", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    File("train-labels-idx1-ubyte.gz", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
    File("t10k-images-idx3-ubyte.gz", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
    File("t10k-labels-idx1-ubyte.gz", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
)


def arrays(root: str | os.PathLike[str] | None = None, progress: Progress | None = None) -> Arrays:
    """All images and labels, those of the training file first."""
    parts = [read_idx(_find(file, root), file) for file in FILES]
    return np.concatenate(parts[0::2]), np.concatenate(parts[1::2])


def _find(file: File, root: str | os.PathLike[str] | None) -> Path:
    for folder in folders(root):
        if (path := folder / "mnist" / file.name).exists():
            return path
    raise InputError(f"{file.name} is missing")


def read_idx(path: Path, file: File) -> NDArray[np.uint8]:
    """The array in a gzipped IDX file, after checking that it is the file that was published."""
    data = path.read_bytes()
    md5 = hashlib.md5(data, usedforsecurity=False).hexdigest()
    if md5 != file.md5:
        raise InputError(f"{path} has the md5 {md5} in place of {file.md5}; delete it")
    data = gzip.decompress(data)
    dimensions = data[3]
    shape = np.frombuffer(data, ">u4", dimensions, 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
