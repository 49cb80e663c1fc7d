"""Edges in photographs, learned from what several people drew.

The loss of a photograph is the cross-entropy of each of the network's outputs (five sides and their
fusion), averaged over pixels, with weights that make up for edges being rare; and for each output a
term that holds its mean to the share of edge pixels, the paper's sparsity regulariser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets.data import EdgeSet
from hnets.errors import InputError
from hnets.models._hdsn import EdgeNetwork
from hnets.train import augment
from hnets.train.classification_task import Classification, Errors, shuffled
from hnets.train.recipe import Augment, Edges, Recipe

PORTION = 10
"""Photographs that are looked at at a time."""
REACH = 4
"""Pixels by which an edge may be off in `tolerant_error`: 0.0075 of a photograph's diagonal."""
LEVELS = 100
ON, UNSURE = 5, 2


@dataclass(frozen=True)
class EdgeDetection:
    """Photographs and the edges that are taught in them, all on the device."""

    images: Tensor
    """(n, 3, height, width), uint8."""
    labels: Tensor
    """(n, height, width), uint8, as `consensus` makes them."""
    rules: Edges = field(default_factory=Edges)
    augment: Augment = field(default_factory=Augment)

    @classmethod
    def of(cls, recipe: Recipe, data: EdgeSet) -> EdgeDetection:
        """What a recipe learns from a data set."""
        if recipe.evaluation.views:
            raise InputError("evaluation.views: edges are not averaged; leave it out")
        if recipe.augment.keep_centre:
            raise InputError("augment.keep_centre: it is for shapes on black; leave it out")
        labels = consensus(data, recipe.edges)
        return cls(data.images, labels, recipe.edges, recipe.augment)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def options(self) -> Mapping[str, Any]:
        """None: the networks take any image."""
        return {}

    def draw(self, generator: torch.Generator) -> Tensor | None:
        """The random changes to each photograph, as the recipe says."""
        height, width = self.images.shape[-2:]
        return augment.draw(self.augment, len(self), (height, width), generator)

    def loss(self, model: nn.Module, rows: Tensor, changes: Tensor | None) -> Tensor:
        """The sum of the losses of some of the photographs."""
        images = self.images.index_select(0, rows).float() / 255
        labels = self.labels.index_select(0, rows).float()[:, None]
        if changes is not None:
            own = changes.index_select(0, rows)
            # Beyond its border a photograph goes on as its mirror image, and so do its edges.
            images = augment.move(images, own, "bicubic", "reflection").clamp(0, 1)
            images = augment.tone(images, own)
            labels = augment.move(labels, own, "bilinear", "reflection")
        logits = edge_network(model).logits(images).float()
        return edge_loss(logits, labels, self.rules).sum()

    def inputs(self) -> Iterator[Tensor]:
        """The photographs, a portion at a time."""
        for images in shuffled(self.images, PORTION):
            yield images.float() / 255

    @torch.no_grad()
    def evaluate(self, model: nn.Module, views: int = 1) -> Errors:
        """`tolerant_error`, and the mean loss; of one view."""
        before = model.training
        model.eval()
        loss, outputs = torch.zeros((), device=self.images.device), list[Tensor]()
        for images, labels in zip(
            self.images.split(PORTION), self.labels.split(PORTION), strict=True
        ):
            logits = edge_network(model).logits(images.float() / 255).float()
            loss += edge_loss(logits, labels.float()[:, None], self.rules).sum()
            outputs.append(logits[:, -1:].sigmoid())
        model.train(before)
        truth = (self.labels == ON).float()[:, None]
        return Errors(tolerant_error(torch.cat(outputs), truth), float(loss) / len(self))


Task = Classification | EdgeDetection
"""The examples of one split, on the device, and what a network is to do with them."""


def edge_network(model: nn.Module) -> EdgeNetwork:
    """The network, if it detects edges."""
    if not isinstance(model, EdgeNetwork):
        raise InputError(
            f"[model] expected a network that detects edges, such as hdsn, for data with edges, "
            f"got a {type(model).__name__}"
        )
    return model


def consensus(data: EdgeSet, rules: Edges) -> Tensor:
    """What is taught at each pixel, ``(n, height, width)``: 0, `ON`, or nothing where `UNSURE`."""
    people = data.people[:, None, None].float()
    if rules.labels == "people":
        return (data.votes >= rules.people).byte() * ON
    votes = data.near if rules.labels == "near" else data.votes
    agreed = votes >= rules.share * people - 1e-4
    return torch.where(agreed, ON, UNSURE).byte() * (data.votes > 0)


def edge_loss(logits: Tensor, labels: Tensor, rules: Edges) -> Tensor:
    """The loss of each photograph, ``(n,)``, over all outputs ``(n, outputs, height, width)``.

    Labels ``(n, 1, height, width)`` may lie between those of `consensus`, where edges were
    resampled: one that was `ON` is half of that or more at its nearest pixels, and one that was
    `UNSURE` never is.
    """
    truth = (labels > ON / 2 - 1e-3).float()
    counted = truth + (labels < UNSURE / 8).float()
    pixels = logits.shape[2] * logits.shape[3]
    total = counted.sum((2, 3), keepdim=True)
    part = truth.sum((2, 3), keepdim=True) / total  # edges, of the pixels that count
    weight = truth * (1 - part) ** rules.balance + (counted - truth) * part**rules.balance
    # −log p is softplus(−logit) on an edge and softplus(logit) off one.
    entropy = F.softplus(logits) - truth * logits
    loss = (entropy * weight).sum((2, 3)) / pixels
    if rules.sparsity:
        mean = (logits.sigmoid() * counted).sum((2, 3), keepdim=True) / total
        mean = mean.clamp(1e-6, 1 - 1e-6)
        held = -part * mean.log() - (1 - part) * (1 - mean).log()
        loss = loss + rules.sparsity * held.sum((2, 3))
    return rules.sides * loss[:, :-1].sum(1) + loss[:, -1]


def tolerant_error(outputs: Tensor, truth: Tensor) -> float:
    """100·(1 − F) of outputs ``(n, 1, height, width)`` at the best of 100 thresholds.

    A quick relative of the benchmark's ODS, without suppression and matching: a detection is right
    if there is an edge within `REACH` pixels, and an edge is detected if there is a detection. It
    serves to follow a training; scores come from `hnets.metrics`.

    >>> line = torch.zeros(1, 1, 20, 20)
    >>> line[..., 10] = 1
    >>> tolerant_error(line.roll(3, dims=3), line), tolerant_error(line.roll(6, dims=3), line)
    (0.0, 100.0)
    """
    counts, near = torch.zeros(3, LEVELS, device=outputs.device, dtype=torch.float64), 2 * REACH + 1
    for output, edges in zip(outputs.split(PORTION), truth.split(PORTION), strict=True):
        detected = F.max_pool2d(output, near, 1, REACH)
        allowed = F.max_pool2d(edges, near, 1, REACH)
        counted = ((output, allowed), (output, torch.ones_like(edges)), (detected, edges))
        for row, (level, weight) in enumerate(counted):
            bins = (level * LEVELS).long().clamp(max=LEVELS - 1).flatten()
            counts[row] += torch.bincount(bins, weight.flatten().double(), minlength=LEVELS)
    # Of everything at a level or above; level 0 is everywhere and is left out.
    right, every, hit = counts.flip(1).cumsum(1).flip(1)[:, 1:]
    precision, recall = right / every.clamp(min=1), hit / truth.sum().clamp(min=1)
    f = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
    return 100 * (1 - float(f.max()))
