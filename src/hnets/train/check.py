"""What would go wrong later, said before any work."""

from __future__ import annotations

import torch
from torch import nn

from hnets.errors import InputError
from hnets.studies.svm import check_svm
from hnets.train.examples import examples, load
from hnets.train.loop import build
from hnets.train.recipe import Recipe
from hnets.train.task import Task

__all__ = ["check_recipe"]


def check_recipe(recipe: Recipe) -> None:
    """Raise for data or a model that do not exist, or that do not fit each other."""
    if recipe.model.name == "svm":
        check_svm(recipe)
    for split in filter(None, (recipe.data.train, recipe.data.val, recipe.data.test)):
        data = load(recipe.data, split)
        if recipe.model.name != "svm":
            task = examples(recipe, data)
            _try(build(recipe, recipe.training.seed, task), task, recipe)


@torch.no_grad()
def _try(model: nn.Module, task: Task, recipe: Recipe) -> None:
    """Show a network the first pictures, two at most, as it will see them in training."""
    first = next(iter(task.inputs()))[: min(2, recipe.training.batch)]
    try:
        model.train()(first)
    except (RuntimeError, ValueError) as error:
        shape = "×".join(map(str, first.shape[1:]))
        raise InputError(
            f"[model] {recipe.model.name} cannot learn from batches of {recipe.training.batch} "
            f"with pictures of {shape}: {str(error).splitlines()[0]}"
        ) from None
