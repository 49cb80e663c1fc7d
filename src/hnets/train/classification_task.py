"""Classes of images, learned by cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets.data import Dataset
from hnets.functional import rotate_pixels
from hnets.train.augment import augment, draw
from hnets.train.recipe import Augment, Recipe

PORTION = 1000 * 28 * 28
"""Pixels of the images that are classified at a time."""


@dataclass(frozen=True)
class Errors:
    """How a network does on a set: an error in percent, and its loss."""

    error: float
    loss: float


@dataclass(frozen=True)
class Classification:
    """Images and labels, all on the device."""

    images: Tensor
    labels: Tensor
    classes: int = 10
    label_smoothing: float = 0.0
    augment: Augment = field(default_factory=Augment)
    half: bool = False
    """Whether a GPU evaluates in bfloat16, as it trains."""

    @classmethod
    def of(cls, recipe: Recipe, data: Dataset) -> Classification:
        """What a recipe learns from a data set."""
        classes, smoothing = len(data.classes), recipe.training.label_smoothing
        half = recipe.training.precision == "bfloat16" and data.images.is_cuda
        return cls(data.images, data.labels, classes, smoothing, recipe.augment, half)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def options(self) -> Mapping[str, Any]:
        """The channels of the images, and the number of classes."""
        return {"in_chans": self.images.shape[1], "num_classes": self.classes}

    def draw(self, generator: torch.Generator) -> Tensor | None:
        """The random changes to each image, as the recipe says."""
        height, width = self.images.shape[-2:]
        return draw(self.augment, len(self), (height, width), generator)

    def loss(self, model: nn.Module, rows: Tensor, changes: Tensor | None) -> Tensor:
        """The sum of the cross-entropies of some of the images."""
        images = self.images.index_select(0, rows)
        if changes is not None:
            changed = changes.index_select(0, rows)
            images = augment(images, changed, self.augment.keep_centre)
        logits = model(images)
        return F.cross_entropy(
            logits.float(),
            self.labels.index_select(0, rows),
            label_smoothing=self.label_smoothing,
            reduction="sum",
        )

    def inputs(self) -> Iterator[Tensor]:
        """The images, a portion at a time."""
        yield from shuffled(self.images, _portion(self.images))

    def evaluate(self, model: nn.Module, views: int = 1) -> Errors:
        """The share of wrong predictions, in percent, and the mean cross-entropy."""
        with torch.autocast(self.images.device.type, torch.bfloat16, enabled=self.half):
            return errors(model, self.images, self.labels, views)


@torch.no_grad()
def errors(model: nn.Module, images: Tensor, labels: Tensor, views: int = 1) -> Errors:
    """Classify images in evaluation mode, each by the mean of its log-probabilities over views.

    Views are copies rotated by equal parts of 90°, the first by none: to an equivariant network,
    rotations by multiples of 90° give nothing new.
    """
    before = model.training
    model.eval()
    wrong, loss = torch.zeros((), device=labels.device), torch.zeros((), device=labels.device)
    portion = _portion(images)
    for x, y in zip(images.split(portion), labels.split(portion), strict=True):
        angles = [math.pi / 2 * view / views for view in range(1, views)]
        with torch.autocast(x.device.type, enabled=False):  # 8 bits cannot address pixels
            seen = [x, *(rotate_pixels(x, angle).clamp(0, 1) for angle in angles)]
        mean = torch.stack([model(view).float().log_softmax(1) for view in seen]).mean(0)
        wrong += (mean.argmax(1) != y).sum()
        loss += F.cross_entropy(mean, y, reduction="sum")
    model.train(before)
    return Errors(100 * float(wrong) / len(labels), float(loss) / len(labels))


def _portion(images: Tensor) -> int:
    return max(1, PORTION // (images.shape[2] * images.shape[3]))


def shuffled(images: Tensor, most: int) -> Iterator[Tensor]:
    """All images, in portions of nearly equal size, each a random sample of them.

    Sets are often sorted by class, and statistics would miss the variance between portions.
    """
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    for rows in order.tensor_split(math.ceil(len(images) / most)):
        yield images[rows.to(images.device)]
