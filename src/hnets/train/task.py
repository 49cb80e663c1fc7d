"""What is learned: pictures and labels on the device, the loss of a batch, and the errors."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets import data
from hnets.data import Dataset
from hnets.errors import InputError
from hnets.train.augment import augment
from hnets.train.recipe import Data

__all__ = ["Classification", "Errors", "errors", "load", "place"]

PORTION = 1000
"""Pictures that are classified at a time."""


@dataclass(frozen=True)
class Classification:
    """The training pictures and labels, all on the device."""

    images: Tensor
    labels: Tensor
    label_smoothing: float = 0.0

    def __len__(self) -> int:
        return len(self.labels)

    def loss(self, model: nn.Module, rows: Tensor, matrices: Tensor | None) -> Tensor:
        """The sum of the cross-entropies of some of the pictures."""
        images = self.images.index_select(0, rows)
        if matrices is not None:
            images = augment(images, matrices.index_select(0, rows))
        logits = model(images)
        return F.cross_entropy(
            logits.float(),
            self.labels.index_select(0, rows),
            label_smoothing=self.label_smoothing,
            reduction="sum",
        )


@dataclass(frozen=True)
class Errors:
    """How a network does on a set: the share it gets wrong, in percent, and its cross-entropy."""

    error: float
    loss: float


@torch.no_grad()
def errors(model: nn.Module, images: Tensor, labels: Tensor) -> Errors:
    """Classify pictures in evaluation mode."""
    before = model.training
    model.eval()
    wrong, loss = torch.zeros((), device=labels.device), torch.zeros((), device=labels.device)
    for x, y in zip(images.split(PORTION), labels.split(PORTION), strict=True):
        logits = model(x).float()
        wrong += (logits.argmax(1) != y).sum()
        loss += F.cross_entropy(logits, y, reduction="sum")
    model.train(before)
    return Errors(100 * float(wrong) / len(labels), float(loss) / len(labels))


@functools.lru_cache(maxsize=4)
def load(recipe: Data, split: str) -> Dataset:
    """A split of the recipe's data; the last few are kept, as a run asks for them again."""
    shape = {"size": recipe.size, "channels": recipe.channels}
    given: dict[str, Any] = {key: value for key, value in shape.items() if value}
    dataset = data.load(recipe.name, split, **given)
    if split == recipe.train and recipe.limit:
        if recipe.limit > len(dataset):
            raise InputError(
                f"data.limit: expected at most the {len(dataset)} pictures of {recipe.name} "
                f"{split}, got {recipe.limit}"
            )
        dataset = dataset.subset(recipe.limit)
    return dataset


def place(dataset: Dataset, device: torch.device) -> Dataset:
    """The same data set, on a device."""
    images, labels = dataset
    return replace(dataset, images=images.to(device), labels=labels.to(device))
