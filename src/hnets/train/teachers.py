"""Teachers of an edge detector, and the soft labels that they give.

Each of several networks is trained without one part of the training images and predicts that part,
so that no soft label comes from a network that has learned the image by heart. The labels are made
once and kept in the cache, for all recipes and seeds that have the same teachers.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets.data.cache import cache_folder, keep, recall
from hnets.data.dataset import sha256
from hnets.errors import InputError
from hnets.train.distributed import Team
from hnets.train.edge_objective import PHOTOS
from hnets.train.recipe import Recipe, teacher_recipe
from hnets.train.result import Diverged, Result
from hnets.train.run import InUse, Run
from hnets.train.task import edge_network, values

log = logging.getLogger(__name__)

FREE = ("title", "data", "teachers", "evaluation", "search")
"""Parts of a teacher's recipe that its weights do not depend on, or that the data's digest says."""


@dataclass(frozen=True)
class SoftLabels:
    """The mean outputs of teachers for all training images."""

    maps: Tensor
    """(n, height, width), uint8: probabilities from 0 to 255."""
    facts: dict[str, Any]
    """For the result: the recipe of the teachers, their seconds, and the SHA-256 of the maps."""


def soft_labels(
    run: Run, images: Tensor, team: Team, train: Callable[[Sequence[Run], Team], list[Result]]
) -> SoftLabels | None:
    """The labels of a prepared run's teachers, from the cache, or of teachers that are trained now.

    ``images`` are those of its training split on the device. None if they are not in the cache,
    and the run is at its end and has no use for them.
    """
    recipe = teacher_recipe(run.recipe)
    source = _source(recipe, run)
    name = f"teachers-{recipe.data.name}-{source[:16]}"
    arrays = recall(name, source) if team.leads else None
    facts: list[Any] = [json.loads(arrays[1].tobytes()) if arrays is not None else None]
    maps = torch.zeros(len(images), *images.shape[2:], dtype=torch.uint8, device=images.device)
    if arrays is not None:
        maps.copy_(torch.from_numpy(arrays[0]))
    team.follow(facts, [maps])
    if facts[0] is not None:
        log.info("the labels of teachers come from the cache, %s", name)
        return SoftLabels(maps, facts[0])
    if not run.epochs_left:
        return None
    folder = cache_folder() / name
    try:
        results = train(teacher_runs(recipe, run.recipe.teachers.folds, folder), team)
    except Diverged as error:
        raise InputError(f"a teacher diverged: {error}") from None
    except InUse:
        raise InputError(
            f"another training trains the same teachers, in {folder}: start this one again when "
            "they are done, and it takes their labels"
        ) from None
    maps = soft_maps([one.model for one in results], images, run.recipe.teachers.scales, team)
    array = maps.cpu().numpy()
    seconds, digest = [round(one.seconds, 1) for one in results], sha256([array])
    labels = SoftLabels(maps, {"recipe": recipe.to_dict(), "seconds": seconds, "sha256": digest})
    if team.leads:
        text = json.dumps(labels.facts).encode()
        if keep(name, source, (array, np.frombuffer(text, np.uint8))):
            shutil.rmtree(folder, ignore_errors=True)
    return labels


def _source(recipe: Recipe, run: Run) -> str:
    """The SHA-256 of all that soft labels depend on."""
    parts = {key: part for key, part in recipe.to_dict().items() if key not in FREE}
    del parts["training"]["save_every"]
    digest, rules = run.data[run.recipe.data.train].digest, run.recipe.teachers
    facts = json.dumps([parts, digest, rules.folds, rules.scales], sort_keys=True)
    return hashlib.sha256(facts.encode()).hexdigest()


def teacher_runs(recipe: Recipe, folds: int, folder: Path) -> list[Run]:
    """A run for each teacher, without the images that it will predict."""
    return [
        Run(
            recipe.replace({"data.hold_out": [fold, folds]}),
            recipe.training.seed,
            folder / f"fold-{fold}",
            f"teacher {fold + 1} of {folds}",
        )
        for fold in range(folds)
    ]


@torch.no_grad()
def soft_maps(
    models: Sequence[nn.Module], images: Tensor, scales: Sequence[float], team: Team
) -> Tensor:
    """The probabilities of edges in images, ``(n, height, width)``, uint8.

    Of n networks, the k-th predicts the images of number k, k + n, k + 2n and so on.
    """
    count, _, height, width = images.shape
    maps = torch.zeros(count, height, width, dtype=torch.uint8, device=images.device)
    for fold, model in enumerate(models):
        for rows in torch.arange(fold, count, len(models), device=images.device).split(PHOTOS):
            own = rows[team.share(len(rows))]
            if len(own):
                output = mean_over_scales(model, values(images[own]), scales)
                maps[own] = (255 * output[:, 0]).round().byte()
    team.add([maps])
    return maps


def mean_over_scales(model: nn.Module, images: Tensor, scales: Sequence[float]) -> Tensor:
    """The mean output of an edge detector for images at several scales.

    It is that of the logits as they are learned, without the calibration of a finished network.
    """
    size, total = images.shape[2:], torch.zeros_like(images[:, :1])
    for scale in scales:
        resized = images
        if scale != 1:
            # Odd sizes, whose halves share the centre of the image.
            odd = [round(side * scale) // 2 * 2 + 1 for side in size]
            resized = F.interpolate(images, odd, mode="bicubic", antialias=True).clamp(0, 1)
        output = edge_network(model).logits(resized)[:, -1:].float().sigmoid()
        total += output if scale == 1 else F.interpolate(output, size, mode="bilinear")
    return total / len(scales)
