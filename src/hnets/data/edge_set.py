"""Photographs with the boundaries that people drew in them, as tensors to train on."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hnets.data import bsds
from hnets.data.bsds import Photo
from hnets.data.cache import Arrays, Progress, sha256, stored
from hnets.data.dataset import check_split
from hnets.errors import InputError

__all__ = ["BSDS500", "EdgeSet", "load_edges"]

BSDS500 = "bsds500"
"""The name of the set in recipes."""
SIZE = (321, 481)
REACH = 2
"""Pixels. People who mean the same boundary seldom draw the same pixels."""


@dataclass(frozen=True, eq=False)
class EdgeSet:
    """Photographs and votes, of one size: those that stand upright are transposed.

    (Boundaries of a transposed photograph are the transposed boundaries.)
    """

    images: Tensor
    """(n, 3, height, width), uint8."""
    votes: Tensor
    """(n, height, width), uint8: how many people drew a boundary there."""
    near: Tensor
    """(n, height, width), uint8: how many drew one within `REACH` pixels."""
    people: Tensor
    """(n,), uint8: how many there were."""
    transposed: Tensor
    """(n,), bool."""
    name: str
    split: str

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        height, width = self.images.shape[2:]
        shape = f"{len(self)} photographs of {height}×{width}"
        return f"EdgeSet({self.name!r}, {self.split!r}: {shape})"

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of photographs and votes."""
        parts = (self.images, self.votes, self.near, self.people, self.transposed)
        return sha256([part.numpy() for part in parts])

    def to(self, device: torch.device | str) -> EdgeSet:
        """The same data set, on a device."""
        return self._each(lambda tensor: tensor.to(device))

    def subset(self, count: int) -> EdgeSet:
        """The first ``count`` photographs."""
        return self._each(lambda tensor: tensor[:count])

    def _each(self, change: Callable[[Tensor], Tensor]) -> EdgeSet:
        return replace(
            self,
            images=change(self.images),
            votes=change(self.votes),
            near=change(self.near),
            people=change(self.people),
            transposed=change(self.transposed),
        )


def load_edges(
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    *,
    progress: Progress | None = None,
) -> EdgeSet:
    """BSDS500 ``train``, ``val``, ``train+val`` or ``test``, found where `bsds.photos` finds it.

    What was read of the official files is kept in the cache as plain arrays.
    """
    parts = [_part(name, root, progress) for name in check_split(split).split("+")]
    pictures = np.concatenate([pictures for pictures, _ in parts])
    facts = torch.from_numpy(np.concatenate([facts for _, facts in parts]))
    planes = torch.from_numpy(pictures)
    people, transposed = facts[:, 0], facts[:, 1].bool()
    return EdgeSet(planes[:, :3], planes[:, 3], planes[:, 4], people, transposed, BSDS500, split)


def _part(split: str, root: str | os.PathLike[str] | None, progress: Progress | None) -> Arrays:
    photos = bsds.photos(split, root)
    return stored(f"{BSDS500}-{split}", _source(photos), lambda: _read(photos, split, progress))


def _source(photos: Sequence[Photo]) -> str:
    """A checksum of the official files, and of what is made of them."""
    total = hashlib.sha256(f"near {REACH}".encode())
    for photo in photos:
        total.update(photo.image_path.read_bytes())
        total.update(photo.truth_path.read_bytes())
    return total.hexdigest()


def _read(photos: Sequence[Photo], split: str, progress: Progress | None) -> Arrays:
    """Red, green, blue, votes and near, (n, 5, height, width); people and whether transposed."""
    pictures = np.empty((len(photos), 5, *SIZE), np.uint8)
    facts = np.empty((len(photos), 2), np.uint8)
    for number, photo in enumerate(photos):
        drawn = photo.boundaries()
        votes, near = (who.sum(0, dtype=np.uint8) for who in (drawn, _grown(drawn)))
        planes = np.concatenate([photo.image().transpose(2, 0, 1), votes[None], near[None]])
        upright = planes.shape[1:] == SIZE[::-1]
        if upright:
            planes = planes.transpose(0, 2, 1)
        if planes.shape[1:] != SIZE:
            height, width = planes.shape[1:]
            raise InputError(
                f"{photo.image_path} should have {SIZE[1]}×{SIZE[0]} pixels, lying or upright, got "
                f"{width}×{height}; get BSDS500 again from its source"
            )
        pictures[number], facts[number] = planes, (len(drawn), upright)
        if progress is not None:
            progress(f"reading BSDS500 {split}", number + 1, len(photos))
    return pictures, facts


def _grown(drawn: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Everything within `REACH` pixels of what is drawn, (people, height, width)."""
    height, width = drawn.shape[1:]
    wide = np.pad(drawn, ((0, 0), (REACH, REACH), (REACH, REACH)))
    grown = drawn.copy()
    for down, across in itertools.product(range(2 * REACH + 1), repeat=2):
        if (down - REACH) ** 2 + (across - REACH) ** 2 <= REACH**2:
            grown |= wide[:, down : down + height, across : across + width]
    return grown
