"""Data sets in memory: images with labels, of the whole or of pixels, and photographs with edges.

All have ``images``, ``name``, ``split``, a length, ``digest``, ``to`` and ``subset``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hnets.errors import InputError, suggest

SPLITS = {"train": (0, 1), "val": (1, 2), "train+val": (0, 2), "test": (2, 3)}
"""The four splits, as ranges of train, val and test."""

Arrays: TypeAlias = tuple[NDArray[Any], NDArray[Any]]
"""Images (n, …) as uint8, or as float32 in [0, 1]; and labels or other facts (n, …) as uint8."""
OUTSIDE = 255
"""The label of a pixel that is neither learned from nor scored, as outside the field of view."""
Sizes: TypeAlias = tuple[int, int, int]
"""Images of train, val and test."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Tensors with one entry per image."""

    def _tensors(self) -> dict[str, Tensor]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def __len__(self) -> int:
        return len(next(iter(self._tensors().values())))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of all tensors: equal where the data are equal, bit for bit."""
        return sha256(tensor.numpy() for tensor in self._tensors().values())

    def to(self, device: torch.device | str) -> Self:
        """The same data set, on a device."""
        return self._map(lambda tensor: tensor.to(device))

    def subset(self, which: int | Sequence[int] | Tensor) -> Self:
        """The first ``which`` images, or those at indices or where a mask of booleans is true."""
        n, chosen = len(self), torch.as_tensor(which)
        if chosen.ndim == 0:
            if not 0 <= chosen <= n:
                raise InputError(f"a subset of {self!r} has 0 to {n} images, got {which}")
            return self._map(lambda tensor: tensor[: int(chosen)])
        if chosen.dtype == torch.bool:
            return self._map(lambda tensor: tensor[chosen])
        if chosen.numel() and not (-n <= chosen.min() and chosen.max() < n):
            low, high = int(chosen.min()), int(chosen.max())
            raise InputError(f"{self!r} has images 0 to {n - 1}, got indices from {low} to {high}")
        return self._map(lambda tensor: tensor[chosen.long()])

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{name: change(value) for name, value in self._tensors().items()})


@dataclass(frozen=True, eq=False)
class Dataset(Examples):
    """Images and labels, with the names of the classes.

    >>> data = Dataset(torch.rand(5, 1, 28, 28), torch.arange(5) % 2, ("cat", "dog"), "pets", "val")
    >>> data
    Dataset('pets', 'val': 5 images of 1×28×28, 2 classes)
    >>> images, labels = data
    >>> len(data.subset(3)), data.subset([4, 0]).labels
    (3, tensor([0, 0]))
    """

    images: Tensor
    """(n, channels, height, width), float32 in [0, 1], contiguous."""
    labels: Tensor
    """(n,), int64: the index of each image's class in `classes`."""
    classes: tuple[str, ...]
    name: str
    split: str

    def __iter__(self) -> Iterator[Tensor]:
        """Images, then labels: ``images, labels = data``."""
        return iter((self.images, self.labels))

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.images.shape[1:]))
        count = f"{len(self)} images of {shape}, {len(self.classes)} classes"
        return f"Dataset({self.name!r}, {self.split!r}: {count})"


@dataclass(frozen=True, eq=False)
class EdgeSet(Examples):
    """Photographs of one size, and how many people drew an edge at each pixel.

    Photographs in portrait format are transposed, and their edges with them.
    """

    images: Tensor
    """(n, 3, height, width), uint8."""
    votes: Tensor
    """(n, height, width), uint8: how many people drew an edge at this pixel."""
    near: Tensor
    """(n, height, width), uint8: how many drew one within `hnets.data.bsds.REACH` pixels."""
    people: Tensor
    """(n,), uint8: how many people drew edges in this photograph."""
    transposed: Tensor
    """(n,), bool."""
    name: str
    split: str

    def __repr__(self) -> str:
        height, width = self.images.shape[2:]
        count = f"{len(self)} photographs of {height}×{width}"
        return f"EdgeSet({self.name!r}, {self.split!r}: {count})"


@dataclass(frozen=True, eq=False)
class SegmentationSet(Examples):
    """Images of one size, and which of their pixels show what is looked for."""

    images: Tensor
    """(n, channels, height, width), uint8."""
    labels: Tensor
    """(n, height, width), uint8: 1 where it is, 0 where it is not, or `OUTSIDE`."""
    name: str
    split: str

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.images.shape[1:]))
        return f"SegmentationSet({self.name!r}, {self.split!r}: {len(self)} images of {shape})"


def from_arrays(
    arrays: Arrays, sizes: Sizes, classes: Iterable[str], name: str, split: str
) -> Dataset:
    """One split of arrays that hold ``sizes`` images of train, then of val, then of test."""
    start, stop = (sum(sizes[:part]) for part in SPLITS[split])
    images, labels = (array[start:stop] for array in arrays)
    return as_dataset(images, labels, classes, name, split)


def as_dataset(
    images: NDArray[Any], labels: NDArray[Any], classes: Iterable[str], name: str, split: str
) -> Dataset:
    """Grey images (n, height, width) as a data set."""
    scale = 255 if images.dtype == np.uint8 else 1
    values = np.divide(images[:, None], scale, dtype=np.float32)  # (n, 1, height, width)
    targets = torch.from_numpy(labels.astype(np.int64))
    return Dataset(torch.from_numpy(values), targets, tuple(classes), name, split)


def in_split(names: Sequence[str], labels: Sequence[int], split: str, fold: int = 0) -> list[int]:
    """The places of the images of a split, if the SHA-256 of their file names alone decides.

    In the order of these, every tenth image of a class goes to the same tenth of the set. That of
    the number of the fold is for ``test``, the next for ``val`` and the other eight for ``train``.

    >>> names = [f"{number}.png" for number in range(20)]
    >>> [in_split(names, [0] * 20, part) for part in ("val", "test")]
    [[0, 13], [6, 10]]
    >>> in_split(names, [0] * 20, "val", fold=9)
    [6, 10]
    """
    wanted, ranks = split.split("+"), dict[int, int]()
    chosen = []
    for place in sorted(
        range(len(names)), key=lambda i: hashlib.sha256(names[i].encode()).digest()
    ):
        rank = ranks[labels[place]] = ranks.get(labels[place], -1) + 1
        part = {0: "test", 1: "val"}.get((rank - fold) % 10, "train")
        if part in wanted:
            chosen.append(place)
    return sorted(chosen)


def stratified(labels: Tensor, share: float) -> Tensor:
    """The places of a fixed share of the images of each class, at least one of each, in order.

    A smaller share is part of every larger one.

    >>> stratified(torch.tensor([0, 0, 0, 0, 1, 1, 0, 0]), 0.5)
    tensor([1, 2, 4, 7])
    """
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique():
        places = (labels == label).nonzero()[:, 0].cpu()
        # The old generator: its stream is frozen, whereas that of the new ones may change.
        order = torch.from_numpy(np.random.RandomState(int(label)).permutation(len(places)))
        chosen[places[order[: max(1, round(share * len(places)))]]] = True
    return chosen.nonzero()[:, 0]


def sha256(arrays: Iterable[NDArray[Any]]) -> str:
    """A checksum of the values, one array after the other.

    >>> sha256([np.zeros(2, np.uint8)])[:16]
    '96a296d224f285c6'
    """
    total = hashlib.sha256()
    for array in arrays:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        total.update(np.ascontiguousarray(little).data)
    return total.hexdigest()


def check_split(split: str) -> str:
    """The name of a split, if it is one of the four."""
    if split not in SPLITS:
        raise InputError(f"there is no split {split!r}{suggest(split, SPLITS)}")
    return split
