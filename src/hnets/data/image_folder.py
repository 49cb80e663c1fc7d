"""The user's own pictures, in a folder with a sub-folder for each class."""

from __future__ import annotations

import functools
import logging
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.dataset import Dataset
from hnets.data.image_file import ImageError, read_image
from hnets.errors import InputError

__all__ = ["fit", "read_folder"]

log = logging.getLogger(__name__)

_SEED = 0
_FEWEST = 3  # pictures of a class: one for each split


def read_folder(folder: Path, split: str, size: int, channels: int) -> Dataset:
    """One split of a folder of pictures, each made ``size`` × ``size`` by `fit`.

    If the folder has folders of classes in ``train``, ``val`` and ``test``, these are the splits.
    Otherwise a tenth of each class is for ``val``, a tenth for ``test`` and the rest for ``train``:
    always the same pictures, as long as the names of the files are the same. Labels follow the
    sorted names of the classes. Files that are no pictures are left out, with one warning.
    """
    if channels not in (1, 3):
        raise InputError(f"pictures have 1 channel (grey) or 3 (colours), got channels={channels}")
    if size < 1:
        raise InputError(f"pictures are at least one pixel wide, got size={size}")
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give one with a sub-folder for each class")
    classes, pictures, others = _listing(folder, split.split("+"))
    images, labels, damaged = _read(pictures, size, channels)
    left_out = [f"{path} does not end as a picture does" for path in others] + damaged
    if not images:
        why = f" ({left_out[0]})" if left_out else ""
        raise InputError(f"{folder} has no pictures{why}; give a folder with PNG or JPEG files")
    if absent := sorted(set(range(len(classes))) - set(labels)):
        raise InputError(
            f"{folder} has no picture of {classes[absent[0]]!r} that can be read for {split}; add "
            "some, or take the class away"
        )
    if left_out:
        _warn(f"left out {len(left_out)} files of {folder}: {left_out[0]}")
    return Dataset(
        torch.from_numpy(np.stack(images)), torch.tensor(labels), classes, folder.name, split
    )


@functools.cache
def _warn(message: str) -> None:
    """Say it once, though a folder is read for every split."""
    log.warning(message)


def fit(picture: Image.Image, size: int, channels: int) -> NDArray[np.float32]:
    """A picture as (channels, size, size) in [0, 1], whole and in its proportions.

    What is left over at two sides takes the median colour of the border.

    >>> fit(Image.new("RGB", (60, 30), "red"), 20, 3).shape
    (3, 20, 20)
    """
    picture = picture.convert("L" if channels == 1 else "RGB")
    scale = size / max(picture.size)
    width, height = (max(1, round(side * scale)) for side in picture.size)
    pixels = np.asarray(picture).reshape(picture.height, picture.width, channels)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    square = np.empty((size, size, channels), np.uint8)
    square[:] = np.median(border, axis=0).round()
    resized = np.asarray(picture.resize((width, height), Image.Resampling.LANCZOS))
    top, left = (size - height) // 2, (size - width) // 2
    square[top : top + height, left : left + width] = resized.reshape(height, width, channels)
    return np.divide(square.transpose(2, 0, 1), 255, dtype=np.float32, order="C")


def _listing(
    folder: Path, parts: list[str]
) -> tuple[tuple[str, ...], list[tuple[Path, int]], list[Path]]:
    """The classes, the pictures of some splits with their labels, and files that are none."""
    made = [name for name in ("train", "val", "test") if _folders(folder / name)]
    classes = _classes(folder / made[0] if made else folder)
    pictures: list[tuple[Path, int]] = []
    others: dict[Path, None] = {}
    for part in parts:
        place = _made(folder, part, made, classes) if made else folder
        for label, name in enumerate(classes):
            found, rest = _files(place / name)
            chosen = found if made else _cut(found, part, place / name)
            pictures += [(path, label) for path in chosen]
            others |= dict.fromkeys(rest)
    return tuple(classes), pictures, list(others)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path) -> tuple[list[Path], list[Path]]:
    """The pictures of a folder and its other files, in an order that no file system changes."""
    endings = Image.registered_extensions()
    visible = [p for p in folder.iterdir() if p.is_file() and not p.name.startswith(".")]
    visible.sort(key=lambda path: path.name)
    pictures = [path for path in visible if path.suffix.lower() in endings]
    return pictures, [path for path in visible if path.suffix.lower() not in endings]


def _classes(folder: Path) -> list[str]:
    names = _folders(folder)
    if len(names) < 2:
        raise InputError(
            f"{folder} has {len(names)} sub-folders, and one for each of at least two classes is "
            "needed"
        )
    return names


def _made(folder: Path, part: str, made: list[str], classes: list[str]) -> Path:
    """The folder of a split that the user has made."""
    if part not in made:
        raise InputError(
            f"{folder} has folders for {', '.join(made)} but none for {part}; make one"
        )
    names = _folders(folder / part)
    if names != classes:
        raise InputError(
            f"{folder / part} has the classes {', '.join(names)} and {made[0]} has "
            f"{', '.join(classes)}; make them the same"
        )
    return folder / part


def _cut(files: list[Path], part: str, folder: Path) -> list[Path]:
    """The pictures of a class that belong to a split."""
    if len(files) < _FEWEST:
        raise InputError(
            f"{folder} has {len(files)} pictures, and at least {_FEWEST} are needed to train, "
            "choose and test with"
        )
    order = np.random.RandomState(_SEED).permutation(len(files))
    tenth = max(1, round(len(files) / 10))
    chosen = {"val": order[:tenth], "test": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    return [files[i] for i in sorted(chosen[part])]


def _read(
    pictures: list[tuple[Path, int]], size: int, channels: int
) -> tuple[list[NDArray[np.float32]], list[int], list[str]]:
    """The images and labels of those that can be read, and what is wrong with the others."""
    images, labels, damaged = [], [], []
    for path, label in pictures:
        try:
            images.append(fit(read_image(path), size, channels))
        except ImageError as error:
            damaged.append(str(error))
        else:
            labels.append(label)
    return images, labels, damaged
