"""The user's own images, in a folder with one sub-folder per class."""

from __future__ import annotations

import functools
import logging
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.dataset import Dataset
from hnets.data.image_file import SUFFIXES, ImageError, format_names, read_image
from hnets.errors import InputError

log = logging.getLogger(__name__)

_SEED = 0
_LARGEST = 4096  # pixels along a side: more of them only fill the memory
_FEWEST = 3  # images per class: one for each split


def read_folder(folder: Path, split: str, size: int = 28, channels: int = 1) -> Dataset:
    """One split of a folder of images, each made ``size`` × ``size`` by `fit`.

    If the folder has the classes' folders within ``train``, ``val`` and ``test``, these are the
    splits. Otherwise a tenth of each class is for ``val``, a tenth for ``test`` and the rest for
    ``train``: the same images as long as their file names are the same. Labels follow the sorted
    names of the classes. Files that are not images are left out, with one warning.
    """
    if channels not in (1, 3):
        raise InputError(f"images have 1 channel (grey) or 3 (colour), got channels={channels}")
    if not 1 <= size <= _LARGEST:
        raise InputError(f"images become 1 to {_LARGEST:,} pixels wide, got size={size}")
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give one with a sub-folder for each class")
    classes, files, others = _listing(folder, split.split("+"))
    left_out = [f"{path} does not have the suffix of an image" for path in others]
    images, labels = [], []
    for path, label in files:
        try:
            images.append(fit(read_image(path), size, channels))
            labels.append(label)
        except ImageError as error:
            left_out.append(str(error))
    if not images:
        why = f" ({left_out[0]})" if left_out else ""
        raise InputError(f"{folder} has no images{why}; give {format_names()} files")
    if absent := sorted(set(range(len(classes))) - set(labels)):
        raise InputError(
            f"{folder} has no image of {classes[absent[0]]!r} that can be read for {split}; add "
            "some, or remove the class"
        )
    if left_out:
        _warn(f"left out {len(left_out)} files of {folder}: {left_out[0]}")
    return Dataset(
        torch.from_numpy(np.stack(images)), torch.tensor(labels), classes, folder.name, split
    )


@functools.cache
def _warn(message: str) -> None:
    """Warn once, though a folder is read for every split."""
    log.warning(message)


def fit(image: Image.Image, size: int, channels: int) -> NDArray[np.float32]:
    """An image as (channels, size, size) in [0, 1], whole and in its proportions.

    The margins at two sides take the median colour of the border.

    >>> fit(Image.new("RGB", (60, 30), "red"), 20, 3).shape
    (3, 20, 20)
    """
    image = image.convert("L" if channels == 1 else "RGB")
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    pixels = np.asarray(image).reshape(image.height, image.width, channels)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    square = np.empty((size, size, channels), np.uint8)
    square[:] = np.median(border, axis=0).round()
    resized = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
    top, left = (size - height) // 2, (size - width) // 2
    square[top : top + height, left : left + width] = resized.reshape(height, width, channels)
    return np.divide(square.transpose(2, 0, 1), 255, dtype=np.float32, order="C")


def _listing(
    folder: Path, parts: list[str]
) -> tuple[tuple[str, ...], list[tuple[Path, int]], list[Path]]:
    """The classes, the images of some splits with their labels, and the other files."""
    splits = [name for name in ("train", "val", "test") if _folders(folder / name)]
    classes = _folders(folder / splits[0] if splits else folder)
    images: list[tuple[Path, int]] = []
    others: dict[Path, None] = {}  # in order, each once
    for part in parts:
        place = folder / part if splits else folder
        names = _folders(place)
        if len(names) < 2:
            raise InputError(
                f"{place} has {len(names)} sub-folders, and one for each of at least two classes "
                "is needed"
            )
        if names != classes:
            raise InputError(
                f"{place} has the classes {', '.join(names)} and {splits[0]} has "
                f"{', '.join(classes)}; make them the same"
            )
        for label, name in enumerate(classes):
            files, rest = _files(place / name)
            chosen = files if splits else _cut(files, part, place / name)
            images += [(path, label) for path in chosen]
            others |= dict.fromkeys(rest)
    return tuple(classes), images, list(others)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The images of a folder and its other files, in an order that no file system changes."""
    visible = [p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")]
    visible.sort(key=lambda path: path.name)
    images = [path for path in visible if path.suffix.lower() in SUFFIXES]
    return images, [path for path in visible if path.suffix.lower() not in SUFFIXES]


def _cut(images: list[Path], part: str, folder: Path) -> list[Path]:
    """The images of a class that belong to a split."""
    if len(images) < _FEWEST:
        raise InputError(
            f"{folder} has {len(images)} images, and at least {_FEWEST} are needed: one for each "
            "of train, val and test"
        )
    order = np.random.RandomState(_SEED).permutation(len(images))
    tenth = max(1, round(len(images) / 10))
    chosen = {"val": order[:tenth], "test": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    return [images[i] for i in sorted(chosen[part])]
