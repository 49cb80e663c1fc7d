"""Vessels of the retina: DRIVE, to learn from, and CHASE_DB1, of another camera, to test on.

The vessels are those of the first observer. DRIVE has its official split, of whose training images
four are held back for validation. CHASE_DB1 is a test set as a whole, at the scale at which its
vessels are as wide as DRIVE's. Cite Staal et al. (2004) and Fraz et al. (2012).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.cache import find_data
from hnets.data.dataset import OUTSIDE, SegmentationSet
from hnets.data.image_file import read_image
from hnets.errors import InputError

VALIDATION = ("25", "30", "35", "40")
"""The training images of DRIVE that are held back, by their numbers, which are 21 to 40."""
SIZES = {"drive": (584, 565), "chase_db1": (509, 529)}
"""Height and width; those of CHASE_DB1 are 0.53 of the files': its vessels are 5.39 pixels wide,
and DRIVE's 2.86, measured as the area of all vessels over the length of their skeletons."""
COUNTS = {"drive": 20, "chase_db1": 28}
"""Images of DRIVE for training and as many for testing, and of CHASE_DB1 in all."""
FOLDERS = {"drive": "DRIVE", "chase_db1": "CHASE_DB1"}
DARK = 20
"""The red of CHASE_DB1 is at most this outside the field of view, and more inside."""
_GREEN = 1


class _Files(NamedTuple):
    name: str
    image: Path
    vessels: Path
    view: Path | None
    """The field of view, where the set has a file of it."""


def load_vessels(
    name: str,
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    channels: int = 3,
) -> SegmentationSet:
    """A split of ``drive``, or the whole of ``chase_db1``, which is its ``test``.

    With one channel the images are their green, in which vessels stand out most, and which differs
    least between cameras.
    """
    if channels not in (1, 3):
        raise InputError(f"images have 1 channel (green) or 3 (colour), got channels={channels}")
    known = FOLDERS[name]
    folder = find_data(known, root, f"retina/{known}", known)
    if name == "drive":
        files = [each for part in split.split("+") for each in _drive(folder, part)]
    elif split == "test":
        files = _chase_db1(folder)
    else:
        raise InputError(
            f"chase_db1 has the split test only, got {split!r}: it tests what drive taught"
        )
    height, width = SIZES[name]
    images = np.empty((len(files), 3, height, width), np.uint8)
    labels = np.empty((len(files), height, width), np.uint8)
    for row, each in enumerate(files):
        colours, vessels, inside = _read(each, name)
        images[row] = colours.transpose(2, 0, 1)
        labels[row] = np.where(inside, vessels, OUTSIDE)
    if not (labels == 1).any() or not (labels == 0).any():
        raise InputError(f"no vessels are drawn in {folder}; get {FOLDERS[name]} again")
    chosen = images if channels == 3 else images[:, _GREEN : _GREEN + 1].copy()
    return SegmentationSet(torch.from_numpy(chosen), torch.from_numpy(labels), name, split)


def _drive(folder: Path, split: str) -> list[_Files]:
    part = "test" if split == "test" else "training"
    images = _by_name((folder / part / "images").glob("*.tif"), f"_{part}.tif")
    vessels = _by_name((folder / part / "1st_manual").glob("*.gif"), "_manual1.gif")
    views = _by_name((folder / part / "mask").glob("*.gif"), f"_{part}_mask.gif")
    _complete(f"DRIVE {part}", folder, COUNTS["drive"], images, vessels, views)
    return [
        _Files(name, images[name], vessels[name], views[name])
        for name in sorted(images)
        if split == "test" or (name in VALIDATION) == (split == "val")
    ]


def _chase_db1(folder: Path) -> list[_Files]:
    images = _by_name(folder.rglob("Image_*.jpg"), ".jpg")
    vessels = _by_name(folder.rglob("Image_*.png"), "_1stHO.png")
    _complete("CHASE_DB1", folder, COUNTS["chase_db1"], images, vessels)
    return [_Files(name, images[name], vessels[name], None) for name in sorted(images)]


def _by_name(paths: Iterable[Path], ending: str) -> dict[str, Path]:
    return {p.name.removesuffix(ending): p for p in paths if p.name.endswith(ending)}


def _complete(what: str, folder: Path, count: int, *kinds: dict[str, Path]) -> None:
    """Refuse a set that is not whole: scores on a part of it are not comparable."""
    names = set().union(*kinds)
    lacking = sorted(name for name in names if not all(name in kind for kind in kinds))
    if lacking or len(names) != count:
        missing = f"lacks a file of {lacking[0]}" if lacking else f"has {len(names)} images"
        raise InputError(
            f"{what} in {folder} {missing} in place of {count} whole ones; get it again from its "
            "source"
        )


def _read(
    files: _Files, name: str
) -> tuple[NDArray[np.uint8], NDArray[np.bool_], NDArray[np.bool_]]:
    """The colours ``(height, width, 3)``, where vessels are, and where the field of view is."""
    image, vessels = read_image(files.image), read_image(files.vessels).convert("L")
    if files.view is None:
        view = image.getchannel(0).point([255 * (red > DARK) for red in range(256)])
    else:
        view = read_image(files.view).convert("L")
    height, width = SIZES[name]
    if image.size != vessels.size or image.size != view.size:
        raise InputError(
            f"{files.image} and {files.vessels.name} should be of one size, got {image.size} and "
            f"{vessels.size}; get them again from their source"
        )
    if name == "drive" and image.size != (width, height):
        raise InputError(
            f"{files.image} should have {width}×{height} pixels, got {image.width}×{image.height}"
        )
    # Means about a pixel, over as much as it covers; of a mask, the majority.
    small, drawn, seen = (
        np.asarray(each.resize((width, height), Image.Resampling.BILINEAR))
        for each in (image, vessels, view)
    )
    return small, drawn > 127, seen > 127
