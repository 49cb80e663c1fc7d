"""What is learned from a split: classes of images or of their pixels, or edges in photographs.

Classes are learned by cross-entropy, those of pixels inside the field of view. What is taught of
edges is in `hnets.train.edge_objective`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets.data import Dataset, EdgeSet, SegmentationSet, Streamed
from hnets.data.dataset import OUTSIDE
from hnets.devices import cpu_has_bfloat16
from hnets.errors import InputError
from hnets.functional import rotate_pixels
from hnets.metrics.segmentation import segmentation_scores
from hnets.models._hdsn import EdgeNetwork
from hnets.train.augment import augment, move, tone
from hnets.train.distributed import ALONE, Team
from hnets.train.edge_objective import ON, PHOTOS, edge_labels, edge_loss, tolerant_error
from hnets.train.recipe import Augment, Edges, Recipe, Teachers

PORTION = 1000 * 28 * 28
"""Pixels of the images that are classified at a time."""
SEGMENTED = 4
"""Images that are segmented at a time."""


@dataclass(frozen=True)
class Errors:
    """How a network does on a set: an error in percent, and its loss."""

    error: float
    loss: float


@dataclass(frozen=True)
class SegmentationErrors(Errors):
    """How a network does on pixels; the error is 100·(1 − F1)."""

    auc: float
    f1: float
    threshold: float
    """The probability from which on a pixel counts as one of those looked for, in F1."""


@dataclass(frozen=True)
class Classification:
    """Images and labels, all on the device, but for images that are streamed."""

    images: Tensor | Streamed
    labels: Tensor
    classes: int = 10
    label_smoothing: float = 0.0
    augment: Augment = field(default_factory=Augment)
    half: bool = False
    """Whether it is evaluated in bfloat16, as it is trained."""
    team: Team = ALONE
    """The processes that share the evaluation."""

    @classmethod
    def of(cls, recipe: Recipe, data: Dataset | Streamed, team: Team = ALONE) -> Classification:
        """What a recipe learns from a data set."""
        classes, smoothing = len(data.classes), recipe.training.label_smoothing
        half = precision_on(data.labels.device, recipe) == "bfloat16"
        images = data if isinstance(data, Streamed) else data.images
        return cls(images, data.labels, classes, smoothing, recipe.augment, half, team)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def options(self) -> Mapping[str, Any]:
        """The channels of the images, and the number of classes."""
        return {"in_chans": self.images.shape[1], "num_classes": self.classes}

    def loss(
        self, model: nn.Module, images: Tensor, rows: Tensor, changes: Tensor | None
    ) -> Tensor:
        """The sum of the cross-entropies of the images in some rows."""
        images = values(images)
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
        """The images, a portion at a time: of each, this process's share."""
        portions = shuffled(len(self), _portion(self.images))
        own = [rows[self.team.share(len(rows))] for rows in portions]
        yield from look_up(self.images, own, self.labels.device)

    def evaluate(self, model: nn.Module, views: int = 1) -> Errors:
        """The share of wrong predictions, in percent, and the mean cross-entropy."""
        with torch.autocast(self.labels.device.type, torch.bfloat16, enabled=self.half):
            return errors(model, self.images, self.labels, views, self.team)


@dataclass(frozen=True)
class EdgeDetection:
    """Photographs and the edges that are taught in them, all on the device."""

    images: Tensor
    """(n, 3, height, width), uint8."""
    labels: Tensor
    """(n, planes, height, width), uint8, as `edge_labels` makes them."""
    rules: Edges = field(default_factory=Edges)
    augment: Augment = field(default_factory=Augment)
    soft: float = 0.0
    """Weight of the labels' last plane, if it is that of `softened`."""

    @classmethod
    def of(cls, recipe: Recipe, data: EdgeSet) -> EdgeDetection:
        """What a recipe learns from a data set."""
        _refuse(recipe, "edges")
        labels = edge_labels(data, recipe.edges)
        return cls(data.images, labels, recipe.edges, recipe.augment)

    def __len__(self) -> int:
        return len(self.images)

    def softened(self, maps: Tensor, weight: float) -> EdgeDetection:
        """The same task, with a ``weight`` for the probabilities ``(n, height, width)``, uint8."""
        return replace(self, labels=torch.cat([self.labels, maps[:, None]], 1), soft=weight)

    @property
    def options(self) -> Mapping[str, Any]:
        """None: the networks take any image."""
        return {}

    def loss(
        self, model: nn.Module, images: Tensor, rows: Tensor, changes: Tensor | None
    ) -> Tensor:
        """The sum of the losses of the photographs in some rows."""
        labels = self.labels.index_select(0, rows).float()
        images, labels = _changed(values(images), labels, rows, changes)
        logits = edge_network(model).logits(images).float()
        return edge_loss(logits, labels, self.rules, self.soft).sum()

    def inputs(self) -> Iterator[Tensor]:
        """The photographs, a portion at a time."""
        yield from look_up(self.images, shuffled(len(self), PHOTOS), self.images.device)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, views: int = 1) -> Errors:
        """`tolerant_error`, and the mean loss; of one view."""
        before = model.training
        model.eval()
        loss, outputs = torch.zeros((), device=self.images.device), list[Tensor]()
        for images, labels in zip(
            self.images.split(PHOTOS), self.labels.split(PHOTOS), strict=True
        ):
            logits = edge_network(model).logits(values(images)).float()
            loss += edge_loss(logits, labels.float(), self.rules).sum()
            outputs.append(logits[:, -1:].sigmoid())
        model.train(before)
        truth = (self.labels[:, :1] == ON).float()
        return Errors(tolerant_error(torch.cat(outputs), truth), float(loss) / len(self))


@dataclass(frozen=True)
class Segmentation:
    """Images and which of their pixels are looked for, all on the device."""

    images: Tensor
    """(n, channels, height, width), uint8."""
    labels: Tensor
    """(n, height, width), uint8, those of a `SegmentationSet`."""
    dice: float = 0.0
    augment: Augment = field(default_factory=Augment)
    threshold: float | None = None
    """Of F1; None is the best for these images."""

    @classmethod
    def of(cls, recipe: Recipe, data: SegmentationSet) -> Segmentation:
        """What a recipe learns from a data set."""
        _refuse(recipe, "pixels")
        return cls(data.images, data.labels, recipe.training.dice, recipe.augment)

    def __len__(self) -> int:
        return len(self.images)

    @property
    def options(self) -> Mapping[str, Any]:
        """The channels of the images, and one output, the logit of a pixel."""
        return {"in_chans": self.images.shape[1], "num_classes": 1}

    def loss(
        self, model: nn.Module, images: Tensor, rows: Tensor, changes: Tensor | None
    ) -> Tensor:
        """The sum of the losses of the images in some rows."""
        labels = self.labels.index_select(0, rows)
        planes = torch.stack([labels == 1, labels != OUTSIDE], 1).float()
        images, planes = _changed(values(images), planes, rows, changes)
        return segmentation_loss(model(images).float(), planes, self.dice).sum()

    def inputs(self) -> Iterator[Tensor]:
        """The images, a portion at a time."""
        yield from look_up(self.images, shuffled(len(self), SEGMENTED), self.images.device)

    @torch.no_grad()
    def evaluate(self, model: nn.Module, views: int = 1) -> SegmentationErrors:
        """The scores of all pixels in the field of view, and the mean loss; of one view."""
        before = model.training
        model.eval()
        loss = torch.zeros((), device=self.images.device)
        outputs, truth = list[Tensor](), list[Tensor]()
        for images, labels in zip(
            self.images.split(SEGMENTED), self.labels.split(SEGMENTED), strict=True
        ):
            logits = model(values(images)).float()
            inside = labels != OUTSIDE
            planes = torch.stack([labels == 1, inside], 1).float()
            loss += segmentation_loss(logits, planes, self.dice).sum()
            outputs.append(logits[:, 0][inside].double().sigmoid())
            truth.append(labels[inside] == 1)
        model.train(before)
        scores = segmentation_scores(torch.cat(outputs), torch.cat(truth), self.threshold)
        error = 100 * (1 - scores.f1)
        mean = float(loss) / len(self)
        return SegmentationErrors(error, mean, scores.auc, scores.f1, scores.threshold)


Task = Classification | EdgeDetection | Segmentation
"""The examples of one split, on the device, and what a network is to do with them."""


def task_of(
    recipe: Recipe, data: Dataset | EdgeSet | SegmentationSet | Streamed, team: Team = ALONE
) -> Task:
    """What a recipe learns from a data set."""
    if isinstance(data, EdgeSet):
        return EdgeDetection.of(recipe, data)
    if recipe.teachers != Teachers():
        raise InputError(f"[teachers]: they are for edges, and {recipe.data.name} has none")
    if isinstance(data, SegmentationSet):
        return Segmentation.of(recipe, data)
    return Classification.of(recipe, data, team)


def precision_on(device: torch.device, recipe: Recipe) -> str:
    """What the network of a recipe computes in: not every device has what is asked for."""
    wanted = recipe.training.precision
    if device.type == "cpu" and (wanted == "tf32" or not cpu_has_bfloat16()):
        return "float32"
    return wanted


def calibrated(task: Task, errors: Errors) -> Task:
    """The same task; for pixels, with the threshold that was best where ``errors`` come from."""
    if isinstance(task, Segmentation) and isinstance(errors, SegmentationErrors):
        return replace(task, threshold=errors.threshold)
    return task


def _refuse(recipe: Recipe, what: str) -> None:
    """Keys of a recipe that are for classes of images."""
    if recipe.evaluation.views:
        raise InputError(f"evaluation.views: {what} are not averaged; leave it out")
    if recipe.training.label_smoothing:
        raise InputError(
            "training.label_smoothing: it is for classes of images, which "
            f"{recipe.data.name} does not have; leave it out, or take another recipe"
        )
    if recipe.augment.keep_centre:
        raise InputError("augment.keep_centre: it is for shapes on black; leave it out")


@torch.no_grad()
def errors(
    model: nn.Module,
    images: Tensor | Streamed,
    labels: Tensor,
    views: int = 1,
    team: Team = ALONE,
) -> Errors:
    """Classify images in evaluation mode, each by the mean of its log-probabilities over views.

    Views are copies rotated by equal parts of 90°, the first by none: to an equivariant network,
    rotations by multiples of 90° give nothing new. Each process of a team classifies its share.
    """
    before = model.training
    model.eval()
    wrong, loss = torch.zeros((), device=labels.device), torch.zeros((), device=labels.device)
    shares = (
        rows[team.share(len(rows))] for rows in torch.arange(len(labels)).split(_portion(images))
    )
    portions = [rows for rows in shares if len(rows)]
    for x, rows in zip(look_up(images, portions, labels.device), portions, strict=True):
        y = labels[rows.to(labels.device)]
        angles = [math.pi / 2 * view / views for view in range(1, views)]
        seen = [x, *(rotate_pixels(x, angle).clamp(0, 1) for angle in angles)]
        mean = torch.stack([model(view).float().log_softmax(1) for view in seen]).mean(0)
        wrong += (mean.argmax(1) != y).sum()
        loss += F.cross_entropy(mean, y, reduction="sum")
    team.add([wrong, loss])
    model.train(before)
    return Errors(100 * float(wrong) / len(labels), float(loss) / len(labels))


def _changed(
    images: Tensor, planes: Tensor, rows: Tensor, changes: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Images and what is taught at their pixels, after the changes of their rows."""
    if changes is None:
        return images, planes
    own = changes.index_select(0, rows)
    # Beyond its border an image goes on as its mirror image, and so do its labels.
    images = tone(move(images, own, "bicubic", "reflection").clamp(0, 1), own)
    return images, move(planes, own, "bilinear", "reflection")


def _portion(images: Tensor | Streamed) -> int:
    return max(1, PORTION // (images.shape[2] * images.shape[3]))


def values(images: Tensor) -> Tensor:
    """Images as numbers from 0 to 1.

    >>> values(torch.tensor([0, 51], dtype=torch.uint8))
    tensor([0.0000, 0.2000])
    """
    return images if images.is_floating_point() else images.float() / 255


def shuffled(count: int, most: int) -> Sequence[Tensor]:
    """The places of all images, in portions of nearly equal size, each a random sample of them.

    Sets are often sorted by class, and statistics would miss the variance between portions.
    """
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    return order.tensor_split(math.ceil(count / most))


def look_up(
    images: Tensor | Streamed, portions: Sequence[Tensor], device: torch.device
) -> Iterator[Tensor]:
    """The images at the places of each portion, as numbers from 0 to 1 on the device."""
    if isinstance(images, Tensor):
        for rows in portions:
            yield values(images[rows.to(device)])
    else:
        for batch in images.batches(portions, max(map(len, portions), default=1)):
            yield values(batch.to(device, non_blocking=True))


def edge_network(model: nn.Module) -> EdgeNetwork:
    """The network, if it detects edges."""
    if not isinstance(model, EdgeNetwork):
        raise InputError(
            f"[model] expected a network that detects edges, such as hdsn, for data with edges, "
            f"got a {type(model).__name__}"
        )
    return model


def segmentation_loss(logits: Tensor, planes: Tensor, dice: float = 0.0) -> Tensor:
    """The loss of each image, ``(n,)``: cross-entropy, and ``dice`` times the Dice loss.

    ``planes`` ``(n, 2, height, width)`` are the shares of each pixel that is looked for, and that
    is in the field of view.

    >>> planes = torch.tensor([[[[1.0, 0.0, 0.0]], [[1.0, 1.0, 0.0]]]])   # the last is outside
    >>> segmentation_loss(torch.tensor([[[[9.0, -9.0, 9.0]]]]), planes, dice=1.0)
    tensor([0.0002])
    """
    wanted, inside = planes.unbind(1)
    logits = logits[:, 0]
    # −log p is softplus(−logit) where it is and softplus(logit) where it is not.
    entropy = (inside * F.softplus(logits) - wanted * logits).sum((1, 2))
    loss = entropy / inside.sum((1, 2)).clamp(min=1)
    if dice:
        shares = logits.sigmoid()
        both = (shares * wanted).sum((1, 2))
        either = (shares * inside).sum((1, 2)) + wanted.sum((1, 2))
        loss = loss + dice * (1 - 2 * both / either.clamp(min=1e-6))
    return loss
