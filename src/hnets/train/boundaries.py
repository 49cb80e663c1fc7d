"""Boundaries in photographs, learned from what several people drew.

The loss of a photograph is the cross-entropy of each of the network's answers (five sides and their
fusion), averaged over pixels, with weights that make up for boundaries being rare; and for each
answer a term that holds its mean to the share of boundary pixels, the paper's sparsity regulariser.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets.data import BoundarySet
from hnets.errors import InputError
from hnets.models.boundary import SideNetwork
from hnets.train import augment
from hnets.train import recipe as recipes
from hnets.train.recipe import Augment, Recipe
from hnets.train.task import Errors

__all__ = ["Boundaries", "boundary_loss", "consensus", "tolerant_error"]

PORTION = 10
"""Photographs that are looked at at a time."""
REACH = 4
"""Pixels by which a boundary may be off in `tolerant_error`: 0.0075 of a photograph's diagonal."""
LEVELS = 100


@dataclass(frozen=True)
class Boundaries:
    """Photographs, and how many people drew a boundary where, all on the device."""

    images: Tensor
    """(n, 3, height, width), uint8."""
    votes: Tensor
    """(n, height, width), uint8."""
    people: Tensor
    """(n,), float32: how many there were."""
    rules: recipes.Boundaries = field(default_factory=recipes.Boundaries)
    augment: Augment = field(default_factory=Augment)

    @classmethod
    def of(cls, recipe: Recipe, data: BoundarySet) -> Boundaries:
        """What a recipe learns from a data set."""
        people = data.people.float()
        return cls(data.images, data.votes, people, recipe.boundaries, recipe.augment)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def options(self) -> Mapping[str, Any]:
        """None: the networks take any picture."""
        return {}

    def draw(self, generator: torch.Generator) -> Tensor | None:
        """The changes to each photograph, as the recipe says."""
        height, width = self.images.shape[-2:]
        return augment.draw(self.augment, len(self), (height, width), generator)

    def loss(self, model: nn.Module, rows: Tensor, changes: Tensor | None) -> Tensor:
        """The sum of the losses of some of the photographs."""
        images = self.images.index_select(0, rows).float() / 255
        people = self.people.index_select(0, rows)
        share = self.votes.index_select(0, rows).float()[:, None] / people[:, None, None, None]
        if changes is not None:
            own = changes.index_select(0, rows)
            # Beyond its border a photograph goes on as its mirror image, and so do its boundaries.
            images = augment.move(images, own, "bicubic", "reflection").clamp(0, 1)
            images = augment.tone(images, own)
            share = augment.move(share, own, "bilinear", "reflection")
        truth, counted = consensus(share, people, self.rules)
        logits = _network(model).logits(images).float()
        return boundary_loss(logits, truth, counted, self.rules).sum()

    @torch.no_grad()
    def evaluate(self, model: nn.Module) -> Errors:
        """`tolerant_error`, and the mean loss."""
        before = model.training
        model.eval()
        loss, hits = torch.zeros((), device=self.images.device), _Hits(self.images.device)
        for rows in torch.arange(len(self), device=self.images.device).split(PORTION):
            people = self.people[rows]
            share = self.votes[rows].float()[:, None] / people[:, None, None, None]
            truth, counted = consensus(share, people, self.rules)
            logits = _network(model).logits(self.images[rows].float() / 255).float()
            loss += boundary_loss(logits, truth, counted, self.rules).sum()
            hits.add(logits[:, -1:].sigmoid(), truth)
        model.train(before)
        return Errors(hits.error(), float(loss) / len(self))


def _network(model: nn.Module) -> SideNetwork:
    if not isinstance(model, SideNetwork):
        raise InputError(
            f"[model] expected a network that finds boundaries, such as hdsn, got one of type "
            f"{type(model).__name__}; or train it on another data set"
        )
    return model


def consensus(
    share: Tensor, people: Tensor, rules: recipes.Boundaries
) -> tuple[Tensor, Tensor | None]:
    """Where there is a boundary, and where that is sure enough to count; None for everywhere.

    ``share`` is that of the people who drew one, ``(n, 1, height, width)``.
    """
    if rules.share:
        truth = share >= rules.share - 1e-6
        return truth.float(), (truth | (share <= 0)).float()
    # Half a vote less: votes that were resampled with the picture are no whole numbers.
    return (share * people[:, None, None, None] >= rules.people - 0.5).float(), None


def boundary_loss(
    logits: Tensor, truth: Tensor, counted: Tensor | None, rules: recipes.Boundaries
) -> Tensor:
    """The loss of each photograph, ``(n,)``, over all answers ``(n, answers, height, width)``."""
    pixels = logits.shape[2] * logits.shape[3]
    total = pixels if counted is None else counted.sum((2, 3), keepdim=True)
    part = truth.sum((2, 3), keepdim=True) / total  # of the pixels that count: the boundaries
    weight = truth * (1 - part) ** rules.balance + (1 - truth) * part**rules.balance
    if counted is not None:
        weight = weight * counted
    # −log p is softplus(−logit) on a boundary and softplus(logit) off one.
    entropy = F.softplus(logits) - truth * logits
    loss = (entropy * weight).sum((1, 2, 3)) / pixels
    if rules.sparsity:
        answers = logits.sigmoid() if counted is None else logits.sigmoid() * counted
        mean = (answers.sum((2, 3), keepdim=True) / total).clamp(1e-6, 1 - 1e-6)
        held = -part * mean.log() - (1 - part) * (1 - mean).log()
        loss = loss + rules.sparsity * held.sum((1, 2, 3))
    return loss


def tolerant_error(answers: Tensor, truth: Tensor) -> float:
    """100·(1 − F) of answers ``(n, 1, height, width)`` at the best of 100 thresholds.

    A quick relative of the benchmark's ODS, without thinning and matching: an answer is right if
    there is a boundary within `REACH` pixels, and a boundary is found if there is an answer. It
    serves to follow a training; scores come from `hnets.metrics`.

    >>> line = torch.zeros(1, 1, 20, 20)
    >>> line[..., 10] = 1
    >>> tolerant_error(line.roll(3, dims=3), line), tolerant_error(line.roll(6, dims=3), line)
    (0.0, 100.0)
    """
    hits = _Hits(answers.device)
    hits.add(answers, truth)
    return hits.error()


class _Hits:
    """Answers and boundaries, right and in all, counted by the level of the answer."""

    def __init__(self, device: torch.device) -> None:
        self.counts = torch.zeros(4, LEVELS, device=device, dtype=torch.float64)

    def add(self, answers: Tensor, truth: Tensor) -> None:
        near = 2 * REACH + 1
        found = F.max_pool2d(answers, near, 1, REACH)
        wanted = F.max_pool2d(truth, near, 1, REACH)
        for row, (level, kept) in enumerate(
            [
                (answers, wanted),
                (answers, torch.ones_like(truth)),
                (found, truth),
            ]
        ):
            bins = (level * LEVELS).long().clamp(max=LEVELS - 1)
            self.counts[row] += torch.bincount(
                bins.flatten(), kept.flatten().double(), minlength=LEVELS
            )
        self.counts[3, 0] += truth.sum()

    def error(self) -> float:
        # Of everything at a level or above; level 0 is everywhere and is left out.
        right, said, found, _ = self.counts.flip(1).cumsum(1).flip(1)[:, 1:]
        precision = right / said.clamp(min=1)
        recall = found / self.counts[3, 0].clamp(min=1)
        f = 2 * precision * recall / (precision + recall).clamp(min=1e-9)
        return 100 * (1 - float(f.max()))
