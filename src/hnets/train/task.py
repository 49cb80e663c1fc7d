"""What is learned: what a training asks of its examples, whatever they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

__all__ = ["Errors", "Task"]


@dataclass(frozen=True)
class Errors:
    """How a network does on a set: an error in percent, and its loss."""

    error: float
    loss: float


class Task(Protocol):
    """The examples of one split, and what a network is to do with them."""

    def __len__(self) -> int: ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of `hnets.create_model` that these examples ask for."""
        ...

    def check(self, model: nn.Module) -> None:
        """Raise an `InputError` for a network that is made for something else."""
        ...

    def draw(self, generator: torch.Generator) -> Tensor | None:
        """What an epoch changes in each example, one row each; None for nothing."""
        ...

    def loss(self, model: nn.Module, rows: Tensor, changes: Tensor | None) -> Tensor:
        """The sum of the losses of some of the examples."""
        ...

    def inputs(self) -> Iterator[Tensor]:
        """All examples as a network sees them, unchanged, some at a time."""
        ...

    def evaluate(self, model: nn.Module, views: int = 1) -> Errors:
        """The errors of a network on all of them, in evaluation mode.

        With more views than one, those of answers that are averaged over turned copies.
        """
        ...
