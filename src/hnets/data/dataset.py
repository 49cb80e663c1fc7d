"""A data set: images and labels in memory, and what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from hnets.data.cache import Arrays, sha256
from hnets.errors import InputError, suggest

__all__ = ["SPLITS", "Dataset", "check_split", "from_arrays"]

SPLITS = ("train", "val", "train+val", "test")


@dataclass(frozen=True, eq=False)
class Dataset:
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
    """(n,), int64: the place of each image's class in `classes`."""
    classes: tuple[str, ...]
    name: str
    split: str

    def __iter__(self) -> Iterator[Tensor]:
        """Images, then labels: ``images, labels = data``."""
        return iter((self.images, self.labels))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.images.shape[1:]))
        return (
            f"Dataset({self.name!r}, {self.split!r}: {len(self)} images of {shape}, "
            f"{len(self.classes)} classes)"
        )

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the images and labels: equal where the data are equal, bit for bit."""
        return sha256([self.images.numpy(), self.labels.numpy()])

    def to(self, device: torch.device | str) -> Dataset:
        """The same data set, on a device."""
        return replace(self, images=self.images.to(device), labels=self.labels.to(device))

    def subset(self, which: int | Sequence[int] | Tensor) -> Dataset:
        """The first ``which`` images if it is a number, otherwise those at the given indices.

        A mask of booleans, one for each image, will do for indices.
        """
        n = len(self)
        if isinstance(which, int | np.integer):
            if not 0 <= which <= n:
                raise InputError(
                    f"a subset of {self.name} {self.split} has 0 to {n} images, got {which}"
                )
            images, labels = self.images[:which], self.labels[:which]
        else:
            indices = torch.as_tensor(which)
            indices = (indices.nonzero()[:, 0] if indices.dtype == torch.bool else indices).long()
            if indices.numel() and not (-n <= indices.min() and indices.max() < n):
                raise InputError(
                    f"{self.name} {self.split} has images 0 to {n - 1}, got indices from "
                    f"{int(indices.min())} to {int(indices.max())}"
                )
            images, labels = self.images[indices], self.labels[indices]
        return replace(self, images=images, labels=labels)


def from_arrays(
    arrays: Arrays, sizes: tuple[int, int, int], classes: Iterable[str], name: str, split: str
) -> Dataset:
    """One split of arrays that hold ``sizes`` images of train, then of val, then of test."""
    train, val, test = sizes
    start, stop = {
        "train": (0, train),
        "val": (train, train + val),
        "train+val": (0, train + val),
        "test": (train + val, train + val + test),
    }[check_split(split)]
    images, labels = (array[start:stop] for array in arrays)
    scale = 255 if images.dtype == np.uint8 else 1
    values = np.divide(images[:, None], scale, dtype=np.float32)  # (n, 1, 28, 28)
    return Dataset(
        torch.from_numpy(values),
        torch.from_numpy(labels.astype(np.int64)),
        tuple(classes),
        name,
        split,
    )


def check_split(split: str) -> str:
    """The name of a split, if it is one of the four."""
    if split not in SPLITS:
        raise InputError(f"there is no split {split!r}{suggest(split, SPLITS)}")
    return split
