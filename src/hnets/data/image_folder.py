"""The user's own images, in a folder with one sub-folder per class."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeVar

import numpy as np

from hnets.data.image_file import SUFFIXES
from hnets.data.listing import Entry, Listing
from hnets.errors import InputError

_SEED = 0
_FEWEST = 3  # images per class: one for each split
_T = TypeVar("_T")


def list_folder(folder: Path, parts: list[str]) -> Listing:
    """The images of some splits of a folder, in an order that no file system changes.

    If the folder has the classes' folders within ``train``, ``val`` and ``test``, these are the
    splits. Otherwise a tenth of each class is for ``val``, a tenth for ``test`` and the rest for
    ``train``: the same images as long as their file names are the same. Labels follow the sorted
    names of the classes.
    """
    splits = [name for name in ("train", "val", "test") if _folders(folder / name)]
    classes = _folders(folder / splits[0] if splits else folder)
    images, others = list[Entry](), dict[str, None]()  # in order, each once
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
            files, rest = _files(place / name, label)
            images += files if splits else cut(files, part, place / name)
            others |= dict.fromkeys(rest)
    return Listing(folder, classes, images, others)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path, label: int) -> tuple[list[Entry], list[str]]:
    """The images of a folder, and the paths of its other files."""
    images, others = list[Entry](), list[str]()
    with os.scandir(folder) as files:
        visible = [file for file in files if file.is_file() and not file.name.startswith(".")]
    for file in sorted(visible, key=lambda file: file.name):
        if os.path.splitext(file.name)[1].lower() in SUFFIXES:
            facts = file.stat()
            images.append(Entry(file.name, label, str(folder), facts.st_size, facts.st_mtime_ns))
        else:
            others.append(file.path)
    return images, others


def cut(images: list[_T], part: str, folder: Path | str) -> list[_T]:
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
