"""BSDS500: photographs, and the boundaries that several people drew in each of them.

The folder is the official one, `BSDS500/data`, with `images/{train,val,test}/NAME.jpg` and
`groundTruth/{train,val,test}/NAME.mat` (Arbelaez et al., 2011; for research).
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.cache import cached, find_data
from hnets.data.dataset import Arrays, EdgeSet, check_split
from hnets.data.image_file import read_image
from hnets.errors import InputError, MissingExtra, reason

SIZES = {"train": 200, "val": 100, "test": 200}
REACH = 2
"""Pixels within which two people mean the same edge: they seldom draw the same pixels."""
_SHAPE = (321, 481)
_AGAIN = "get BSDS500 again from its source"


@dataclass(frozen=True)
class Photo:
    """A photograph and the boundaries drawn in it; its files are read on demand."""

    name: str
    image_path: Path
    truth_path: Path

    @property
    def size(self) -> tuple[int, int]:
        """Height and width, from the head of the file."""
        try:
            with Image.open(self.image_path, formats=["JPEG"]) as opened:
                return opened.height, opened.width
        except OSError:
            raise InputError(f"{self.image_path} is not a JPEG image; {_AGAIN}") from None

    def image(self) -> NDArray[np.uint8]:
        """The colours, (height, width, 3)."""
        return np.array(read_image(self.image_path))

    def boundaries(self) -> NDArray[np.bool_]:
        """Where each person drew a boundary, (people, height, width)."""
        try:
            from scipy.io import loadmat
        except ImportError:
            raise MissingExtra("the boundaries of BSDS500", "scipy", "bench") from None
        try:
            people = loadmat(self.truth_path, variable_names=["groundTruth"])["groundTruth"]
            masks = np.stack([person["Boundaries"][0, 0] for person in people.ravel()])
            if masks.shape[1:] != self.size or masks.dtype.kind not in "bu":
                raise ValueError(f"Boundaries is {masks.dtype} of shape {masks.shape}")
        except Exception as error:  # readers of damaged files raise anything
            if isinstance(error, OSError) and error.strerror:
                raise  # the file cannot be opened, and the error says why
            raise InputError(
                f"{self.truth_path} does not hold the boundaries of {self.image_path.name} "
                f"({reason(error)}); {_AGAIN}"
            ) from error
        return masks != 0


def photos(split: str = "test", root: str | os.PathLike[str] | None = None) -> tuple[Photo, ...]:
    """The photographs of ``train``, ``val``, ``train+val`` or ``test``, sorted by name.

    They are looked for in ``root``, or in the folder named by the environment variable
    ``HNETS_DATA``, and then in the user's cache. An incomplete set is refused: scores on a part of
    it are not comparable.

    ```python
    for photo in photos("test"):
        photo.name, photo.image(), photo.boundaries()  # (h, w, 3) uint8, (people, h, w) bool
    ```
    """
    data = find_data("BSDS500", root, "BSDS500/data", "BSR/BSDS500/data")  # or as unpacked
    return tuple(photo for part in check_split(split).split("+") for photo in _list(data, part))


def _list(data: Path, split: str) -> list[Photo]:
    images = {path.stem: path for path in (data / "images" / split).glob("*.jpg")}
    truths = {path.stem: path for path in (data / "groundTruth" / split).glob("*.mat")}
    names = sorted(images.keys() & truths.keys())
    if alone := sorted(images.keys() ^ truths.keys()):
        what = "boundaries" if alone[0] in images else "photograph"
        raise InputError(f"BSDS500 {split} in {data} lacks the {what} of {alone[0]}; {_AGAIN}")
    if len(names) != SIZES[split]:
        raise InputError(
            f"BSDS500 {split} in {data} has {len(names)} photographs in place of {SIZES[split]}; "
            f"{_AGAIN}"
        )
    return [Photo(name, images[name], truths[name]) for name in names]


def load_edges(split: str = "train", root: str | os.PathLike[str] | None = None) -> EdgeSet:
    """A split as tensors to train on; what is read of the official files is cached."""
    parts = []
    for name in split.split("+"):
        chosen = photos(name, root)
        total = hashlib.sha256(f"near {REACH}".encode())
        for photo in chosen:
            total.update(photo.image_path.read_bytes())
            total.update(photo.truth_path.read_bytes())
        parts.append(cached(f"bsds500-{name}", total.hexdigest(), partial(_read, chosen)))
    planes, facts = (torch.from_numpy(np.concatenate(each)) for each in zip(*parts, strict=True))
    images, votes, near = planes[:, :3], planes[:, 3], planes[:, 4]
    return EdgeSet(images, votes, near, facts[:, 0], facts[:, 1].bool(), "bsds500", split)


def _read(chosen: Sequence[Photo]) -> Arrays:
    """Red, green, blue, votes and near, (n, 5, height, width); people and whether transposed."""
    planes = np.empty((len(chosen), 5, *_SHAPE), np.uint8)
    facts = np.empty((len(chosen), 2), np.uint8)
    for number, photo in enumerate(chosen):
        drawn = photo.boundaries()
        votes, near = (masks.sum(0, dtype=np.uint8) for masks in (drawn, _dilated(drawn)))
        values = np.concatenate([photo.image().transpose(2, 0, 1), votes[None], near[None]])
        portrait = values.shape[1:] == _SHAPE[::-1]
        values = values.transpose(0, 2, 1) if portrait else values
        if values.shape[1:] != _SHAPE:
            height, width = values.shape[1:]
            raise InputError(
                f"{photo.image_path} should have {_SHAPE[1]}×{_SHAPE[0]} pixels in landscape or "
                f"portrait format, got {width}×{height}; {_AGAIN}"
            )
        planes[number], facts[number] = values, (len(drawn), portrait)
    return planes, facts


def _dilated(masks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """All pixels within `REACH` of those that are set, (people, height, width)."""
    height, width = masks.shape[1:]
    padded = np.pad(masks, ((0, 0), (REACH, REACH), (REACH, REACH)))
    dilated = masks.copy()
    for down, right in itertools.product(range(2 * REACH + 1), repeat=2):
        if (down - REACH) ** 2 + (right - REACH) ** 2 <= REACH**2:
            dilated |= padded[:, down : down + height, right : right + width]
    return dilated
