"""Data sets by name: ``images, labels = load("rotmnist-r", "train")``.

| name | train, val, test | what it holds |
|---|---|---|
| `mnist` | 50,000, 10,000, 10,000 | handwritten digits; downloaded if they are not on disk |
| `rotmnist` | 10,000, 2,000, 50,000 | rotated MNIST, from the published files on the user's disk |
| `rotmnist-r` | 10,000, 2,000, 50,000 | rotated MNIST, regenerated from MNIST |
| `rotmnist-c` | 10,000, 2,000, 50,000 | the same digits, rotated about their centres of mass |
| `digits` | 1,000, 297, 500 | the digits of scikit-learn, enlarged to 28×28: no download |
| `digits-r` | 1,000, 297, 500 | the same digits, each rotated by its own angle |
| `plankton` | 24,167, 3,080, 3,089 | plankton of 121 classes, light on black, by default 96×96 |
| `mirabest` | 632, 79, 81 | radio galaxies of two classes, 150×150; ten folds |
| `bsds500` | 200, 100, 200 | photographs and the edges that people drew in them |
| `drive` | 16, 4, 20 | images of the retina and their vessels |
| `chase_db1` | –, –, 28 | the same of another camera, at the scale of DRIVE |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hnets.data import mnist, rotmnist, sklearn_digits
from hnets.data.bsds import load_edges
from hnets.data.dataset import (
    Arrays,
    Dataset,
    EdgeSet,
    SegmentationSet,
    Sizes,
    check_split,
    from_arrays,
    stratified,
)
from hnets.data.image_file import read_image
from hnets.data.listing import fit, list_images
from hnets.data.masks import has_masks, load_masks
from hnets.data.mirabest import load_galaxies
from hnets.data.plankton import load_plankton
from hnets.data.retina import FOLDERS, load_vessels
from hnets.data.streamed import Streamed
from hnets.errors import InputError, suggest

__all__ = [
    "LARGEST_SIZE",
    "Dataset",
    "EdgeSet",
    "SegmentationSet",
    "Streamed",
    "available",
    "fit",
    "is_streamable",
    "load",
    "read_image",
    "stratified",
    "stream",
]

_PLANKTON, _MIRABEST, _BSDS500 = "plankton", "mirabest", "bsds500"
LARGEST_SIZE = 4096
"""Pixels along a side that images can be brought to: more of them only fill the memory."""


_DIGITS: dict[str, tuple[Callable[[str | os.PathLike[str] | None], Arrays], Sizes]] = {
    "mnist": (mnist.arrays, mnist.SIZES),
    "rotmnist": (rotmnist.published, rotmnist.SIZES),
    "rotmnist-r": (rotmnist.regenerated, rotmnist.SIZES),
    "rotmnist-c": (rotmnist.centred, rotmnist.SIZES),
    "digits": (lambda root: sklearn_digits.upright(), sklearn_digits.SIZES),
    "digits-r": (lambda root: sklearn_digits.rotated(), sklearn_digits.SIZES),
}


def available() -> tuple[str, ...]:
    """The names that `load` knows.

    >>> available()[:5]
    ('mnist', 'rotmnist', 'rotmnist-r', 'rotmnist-c', 'digits')
    """
    return (*_DIGITS, _PLANKTON, _MIRABEST, _BSDS500, *FOLDERS)


def load(
    name: str | os.PathLike[str],
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    *,
    size: int | None = None,
    channels: int | None = None,
    fold: int = 0,
) -> Dataset | Any:
    """One split of a data set: ``train``, ``val``, ``train+val`` or ``test``.

    It is a `Dataset`, for ``bsds500`` an `EdgeSet`, or for the retina a `SegmentationSet`, of three
    ``channels`` or of the green one alone. Files are looked for in ``root``, or in the
    folder named by the environment variable ``HNETS_DATA``, and then in the user's cache, where
    downloaded and generated files go too (``HNETS_CACHE`` names another folder).

    Instead of a name, give the path of a folder with one sub-folder of images per class (within
    ``train``, ``val`` and ``test`` to choose the splits yourself). Its images become ``size`` ×
    ``size``, by default 28, grey or with three ``channels``. Files that are not images are left
    out, with one warning. A folder with ``images`` and ``masks``, as `hnets.data.masks` says, is a
    `SegmentationSet`, by default of 256 × 256 in colour. ``plankton`` and ``mirabest`` have a
    ``size`` too, and ``mirabest`` has ten folds, 0 to 9: the tenth of that number is its ``test``,
    and the next its ``val``.

    >>> load("digits", "val")
    Dataset('digits', 'val': 297 images of 1×28×28, 10 classes)
    """
    check_split(split)
    if fold and (name != _MIRABEST or not 0 <= fold < 10):
        raise InputError(f"{_MIRABEST} has folds 0 to 9, and others have none; got fold={fold}")
    if name not in available():
        if not is_streamable(name):
            form = {"size": 256 if size is None else _check_size(size)}
            form["channels"] = 3 if channels is None else _check_channels(channels)
            return load_masks(Path(name).expanduser(), split, **form)
        return stream(name, split, size=size, channels=channels).read()
    sized, retina = name in (_PLANKTON, _MIRABEST), name in FOLDERS
    fixed = (28, 1) if name in _DIGITS else (None, 1) if sized else (None, None)
    if (size not in (None, fixed[0]) and not sized) or (
        channels not in (None, fixed[1]) and not retina
    ):
        raise InputError(
            f"the images of {name} have one {'number of channels' if sized else 'size'}, got "
            f"size={size} and channels={channels}; these are for a folder of images"
        )
    if sized:
        chosen = {} if size is None else {"size": _check_size(size)}
        if name == _PLANKTON:
            return load_plankton(split, root, **chosen)
        return load_galaxies(split, root, fold=fold, **chosen)
    if name == _BSDS500:
        return load_edges(split, root)
    if retina:
        return load_vessels(str(name), split, root, 3 if channels is None else channels)
    arrays, sizes = _DIGITS[str(name)]
    return from_arrays(arrays(root), sizes, mnist.CLASSES, str(name), split)


def stream(
    name: str | os.PathLike[str],
    split: str = "train",
    *,
    size: int | None = None,
    channels: int | None = None,
) -> Streamed:
    """One split of a folder, as `load` takes it, whose images are read when they are needed.

    Instead of folders of classes it may hold tar files in the layout of webdataset: images with
    the number of the class beside each, ``0001.jpg`` and ``0001.cls``.
    """
    check_split(split)
    size, channels = 28 if size is None else size, 1 if channels is None else channels
    folder = Path(name).expanduser()
    if name in available():
        raise InputError(f"{name} is held in memory; images of a folder can be streamed")
    path_like = isinstance(name, os.PathLike) or bool({"/", os.sep} & set(name))
    if not name or (not path_like and not os.path.isdir(folder)):
        raise InputError(
            f"there is no data set or folder {name!r}{suggest(str(name), available())}"
        )
    _check_channels(channels)
    _check_size(size)
    if not is_streamable(name):
        raise InputError(f"the images of {folder} have masks and are held in memory")
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give one with a sub-folder for each class")
    return Streamed.of(list_images(folder, split.split("+")), split, size, channels)


def is_streamable(name: str | os.PathLike[str]) -> bool:
    """Whether images can stay in their files: those of classes in a folder, not those with masks.

    >>> is_streamable("mnist")
    False
    """
    return name not in available() and not has_masks(Path(name).expanduser())


def _check_channels(channels: int) -> int:
    if channels not in (1, 3):
        raise InputError(f"images have 1 channel (grey) or 3 (colour), got channels={channels}")
    return channels


def _check_size(size: int) -> int:
    if not 1 <= size <= LARGEST_SIZE:
        raise InputError(f"images become 1 to {LARGEST_SIZE:,} pixels wide, got size={size}")
    return size
