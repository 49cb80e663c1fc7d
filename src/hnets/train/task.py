"""What is learned: what training asks of a set of examples, whatever they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Errors", "Task", "shuffled"]


@dataclass(frozen=True)
class Errors:
    """How a network does on a set: an error in percent, and its loss."""

    error: float
    loss: float


class Task(Protocol):
    """The examples of one split, on the device, and what a network is to do with them."""

    def __len__(self) -> int: ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of `hnets.create_model` that these examples need."""
        ...

    def check(self, model: nn.Module) -> None:
        """Raise an `InputError` for a network that is made for something else."""
        ...

    def draw(self, generator: torch.Generator) -> Tensor | None:
        """The random changes of an epoch, one row per example; None for none."""
        ...

    def loss(self, model: nn.Module, rows: Tensor, changes: Tensor | None) -> Tensor:
        """The sum of the losses of some of the examples."""
        ...

    def inputs(self) -> Iterator[Tensor]:
        """All examples as a network sees them, without random changes, in portions."""
        ...

    def evaluate(self, model: nn.Module, views: int = 1) -> Errors:
        """The errors of a network on all of them, in evaluation mode.

        With more views than one, those of predictions that are averaged over rotated copies.
        """
        ...


def shuffled(images: Tensor, most: int) -> Iterator[Tensor]:
    """All images, in portions of nearly equal size, each a random sample of them.

    Sets are often sorted by class, and statistics would miss the variance between portions.
    """
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    for rows in order.tensor_split(math.ceil(len(images) / most)):
        yield images[rows.to(images.device)]
