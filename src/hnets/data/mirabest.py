"""MiraBest: 792 radio galaxies of Fanaroff and Riley's classes I and II, confidently labelled.

Images of 150×150 pixels in a folder `mirabest`; a name that begins with 100 is of class I, one with
200 of class II. Cite Porter and Scaife (2023).
"""

from __future__ import annotations

import os

import numpy as np

from hnets.data.cache import find_data
from hnets.data.dataset import Dataset, as_dataset, in_split
from hnets.data.image_file import read_image
from hnets.data.listing import fit
from hnets.errors import InputError

CLASSES = ("I", "II")
IMAGES = 792
SIZE = 150
"""Pixels along a side of the files."""


def load_galaxies(
    split: str, root: str | os.PathLike[str] | None = None, size: int = SIZE, fold: int = 0
) -> Dataset:
    """A split of one of ten folds, which depend on the names of the files alone.

    Of a galaxy the middle ``size`` × ``size`` pixels, never scaled: its two lobes may lie few
    pixels apart. Beyond the files there is black sky.
    """
    folder = find_data("MiraBest", root, "mirabest")
    paths = sorted(path for path in folder.glob("[12]00_*.png"))
    if len(paths) != IMAGES:
        raise InputError(
            f"{folder} has {len(paths)} files 100_*.png or 200_*.png in place of {IMAGES}; get "
            "MiraBest again from its source"
        )
    labels = [int(path.name[0]) - 1 for path in paths]
    rows = in_split([path.name for path in paths], labels, split, fold)
    margin = (SIZE - size) // 2
    middle = (margin, margin, margin + size, margin + size)
    images = np.stack([fit(read_image(paths[row]).crop(middle), size, 1)[0] for row in rows])
    return as_dataset(images, np.array(labels)[rows], CLASSES, "mirabest", split)
