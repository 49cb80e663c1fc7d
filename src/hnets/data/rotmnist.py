"""Rotated MNIST: `rotmnist` as it was published, and two sets made from MNIST.

The protocol is that of Larochelle et al. (2007), "An empirical evaluation of deep architectures on
problems with many factors of variation": digits of MNIST, each rotated by its own angle. Which
digits they drew, their angles and their interpolation are unknown, so `rotmnist-r` is not their
set, and errors on the two are not comparable. `rotmnist-c` has the same digits at the same angles,
but rotated about their own centres of mass, so that no shift says which way was up.
"""

from __future__ import annotations

import hashlib
import logging
import os
import warnings
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hnets.data import mnist
from hnets.data.cache import cache_folder, cached, data_folders
from hnets.data.dataset import Arrays, sha256
from hnets.data.spline import rotate, to_bytes
from hnets.errors import InputError

SIZES = (10_000, 2_000, 50_000)
SHA256 = "9de67b6d43b5d1d6b82f1eff5755c95ddf6cedf4c2f63616c2b537a66d1fa5dc"
"""Of the images and labels of `rotmnist-r` as bytes, on every machine."""
SHA256_CENTRED = "478e08f925ee94208de0db184c46404f02bb7e9cb808d9fb36d7c0cb8472d7ee"
"""The same, of `rotmnist-c`."""
ARCHIVE = "mnist_rotation_new.zip"
MD5 = "0f9a947ff3d30e95cd685462cbf3b847"
MEMBERS = (
    "mnist_all_rotation_normalized_float_train_valid.amat",
    "mnist_all_rotation_normalized_float_test.amat",
)

log = logging.getLogger(__name__)

_SEED = 2007
_BLOCK = 2_000
_SLACK = 1e-6  # numbers in text are rounded
_AGAIN = "get it again from its source"


def regenerated(root: str | os.PathLike[str] | None = None) -> Arrays:
    """The images and labels of `rotmnist-r`: train, val, then test. The first call makes them."""
    return cached("rotmnist-r", SHA256, lambda: _make("rotmnist-r", SHA256, root))


def centred(root: str | os.PathLike[str] | None = None) -> Arrays:
    """The same of `rotmnist-c`, where each centre of mass comes to lie in the middle."""
    return cached("rotmnist-c", SHA256_CENTRED, lambda: _make("rotmnist-c", SHA256_CENTRED, root))


def draw() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The indices of the set's digits among MNIST's 70,000, and their rotations in degrees.

    >>> chosen, degrees = draw()
    >>> len(set(chosen)), chosen[:3], degrees[:3].round(2)
    (62000, array([33454, 45101,  2459]), array([317.38, 272.75, 138.57]))
    """
    # The old generator: its stream is frozen, whereas that of the new ones may change.
    random = np.random.RandomState(_SEED)
    chosen = random.permutation(sum(mnist.SIZES))[: sum(SIZES)]
    return chosen.astype(np.int64), random.random_sample(len(chosen)) * 360


def _make(name: str, checksum: str, root: str | os.PathLike[str] | None) -> Arrays:
    log.info("making %s from MNIST, which takes some seconds, once", name)
    images, labels = mnist.arrays(root)
    chosen, degrees = draw()
    rotated = np.empty((len(chosen), *images.shape[1:]), np.uint8)
    for i in range(0, len(chosen), _BLOCK):
        part = slice(i, i + _BLOCK)
        digits = images[chosen[part]]
        centres = mass_centres(digits) if name == "rotmnist-c" else None
        rotated[part] = to_bytes(rotate(digits / 255, degrees[part], centres))
    made = rotated, labels[chosen]
    if sha256(made) != checksum:
        log.warning("%s differs on this machine from what it is on others", name)
    return made


def mass_centres(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The centre of mass of each image (n, h, w), in pixels down and right of the first: (n, 2).

    >>> mass_centres(np.array([[[0, 0], [1, 3]]], np.uint8))
    array([[1.  , 0.75]])
    """
    # Sums of whole numbers are exact, so that the one division has the same bits everywhere.
    mass = images.astype(np.int64)
    down, right = (mass.sum(3 - axis) @ np.arange(mass.shape[axis]) for axis in (1, 2))
    return np.stack([down, right], 1) / mass.sum((1, 2))[:, None]


def published(root: str | os.PathLike[str] | None = None) -> Arrays:
    """The images, as float32, and labels of `rotmnist`: train, val, then test."""
    place, source = _find(root)

    def make() -> Arrays:
        rows = SIZES[0] + SIZES[1], SIZES[2]
        parts = [_read(place / name, count) for name, count in zip(MEMBERS, rows, strict=True)]
        images, labels = zip(*parts, strict=True)
        return np.concatenate(images), np.concatenate(labels)

    return cached("rotmnist", source, make)


def _find(root: str | os.PathLike[str] | None) -> tuple[Path | zipfile.Path, str]:
    """The archive or the folder that has the two files, and what tells it from others."""
    for folder in data_folders(root):
        for place in (folder / "rotmnist", folder):
            if os.path.isfile(archive := place / ARCHIVE):
                with archive.open("rb") as file:
                    checksum = hashlib.file_digest(file, "md5").hexdigest()
                if checksum != MD5:
                    raise InputError(
                        f"{archive} has the MD5 {checksum} in place of {MD5}; {_AGAIN}"
                    )
                return zipfile.Path(archive), checksum
            if all(os.path.isfile(place / name) for name in MEMBERS):
                stats = [(place / name).stat() for name in MEMBERS]
                return place, " ".join(f"{stat.st_size}@{stat.st_mtime_ns}" for stat in stats)
    raise InputError(
        f"the published rotated MNIST is not here, and it is not downloaded: put {ARCHIVE} or the "
        f"two .amat files in it into {cache_folder() / 'rotmnist'} or into rotmnist/ of "
        "HNETS_DATA; rotmnist-r is a set regenerated by the same protocol"
    )


def _read(path: Path | zipfile.Path, count: int) -> Arrays:
    """The ``count`` images (n, 28, 28) and labels of a text file with one image per line.

    A line has 784 numbers in [0, 1] that run down the columns of the image, then the label.
    """
    try:
        with path.open("rb") as file, warnings.catch_warnings(action="ignore"):  # of no rows
            table = np.loadtxt(file, np.float32, ndmin=2)
    except ValueError as error:
        reason = str(error).partition(";")[0]  # what follows is advice to programmers
        raise InputError(f"{path} cannot be read ({reason}); {_AGAIN}") from None
    if table.shape != (count, 785):
        raise InputError(
            f"{path} has {len(table):,} rows of {table.shape[1]} numbers in place of {count:,} "
            f"rows of 785; {_AGAIN}"
        )
    pixels, labels = table[:, :-1], table[:, -1]
    good = ((pixels >= -_SLACK) & (pixels <= 1 + _SLACK)).all(1) & np.isin(labels, np.arange(10))
    if not good.all():
        row = int(np.argmin(good))
        low, high, label = pixels[row].min(), pixels[row].max(), labels[row]
        raise InputError(
            f"{path}, row {row + 1}: expected 784 numbers in [0, 1] and a label from 0 to 9, got "
            f"numbers from {low:g} to {high:g} and the label {label:g}; {_AGAIN}"
        )
    images = pixels.clip(0, 1).reshape(-1, 28, 28).transpose(0, 2, 1)
    return np.ascontiguousarray(images), labels.astype(np.uint8)
