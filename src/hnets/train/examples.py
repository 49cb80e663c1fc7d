"""From a recipe to its examples: the data set is loaded, and its kind says what is learned."""

from __future__ import annotations

import functools
from typing import Any

from hnets import data
from hnets.data import Dataset, EdgeSet
from hnets.errors import InputError
from hnets.train.classification_task import Classification
from hnets.train.edge_task import Boundaries
from hnets.train.recipe import Data, Recipe
from hnets.train.task import Task

__all__ = ["examples", "load"]


@functools.lru_cache(maxsize=4)
def load(recipe: Data, split: str) -> Dataset | EdgeSet:
    """A split of the recipe's data; the last few are kept, as a run asks for them again."""
    dataset = _load(recipe, split)
    if split == recipe.train and recipe.limit:
        if recipe.limit > len(dataset):
            raise InputError(
                f"data.limit: expected at most the {len(dataset)} pictures of {recipe.name} "
                f"{split}, got {recipe.limit}"
            )
        dataset = dataset.subset(recipe.limit)
    return dataset


def _load(recipe: Data, split: str) -> Dataset | EdgeSet:
    shape = {"size": recipe.size, "channels": recipe.channels}
    given: dict[str, Any] = {key: value for key, value in shape.items() if value}
    return data.load(recipe.name, split, **given)


def examples(recipe: Recipe, dataset: Dataset | EdgeSet) -> Task:
    """What a recipe learns from a data set, on the device where that is."""
    if isinstance(dataset, EdgeSet):
        return Boundaries.of(recipe, dataset)
    return Classification.of(recipe, dataset)
