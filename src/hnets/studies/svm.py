"""The row of Table 1 that is no network: a support vector machine with an RBF kernel."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor

from hnets.data import Dataset
from hnets.errors import InputError, MissingExtra
from hnets.train.examples import load
from hnets.train.recipe import Recipe
from hnets.train.record import commit, summarise, versions
from hnets.train.strict import expect

__all__ = ["check_svm", "train_svm"]

PORTION = 2000
"""Pictures whose kernel values are computed at a time."""


def check_svm(recipe: Recipe) -> None:
    """Raise now what would go wrong in the fit: scikit-learn or options that it cannot do with."""
    try:
        import sklearn.svm  # noqa: F401 - to see that it is there
    except ImportError:
        raise MissingExtra("support vector machines", "scikit-learn", "bench") from None
    given = dict(recipe.model.options)
    if set(given) != {"C", "gamma"}:
        raise InputError(f"[model] an svm has the options C and gamma, got {given}")
    for key, value in given.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        met = number and 0 < value < math.inf
        expect(met, f"model.options.{key}", "a number above 0, such as 1.0", value)


def train_svm(recipe: Recipe, name: str = "") -> dict[str, Any]:
    """Fit by a recipe with ``model.name = "svm"`` and options ``C`` and ``gamma``; its result.

    It is convex, so there is one solution and one seed.
    """
    check_svm(recipe)
    from sklearn.svm import SVC

    given = recipe.model.options
    began = time.monotonic()
    train = _pictures(recipe, recipe.data.train)
    vectors = _vectors(train)
    machine = SVC(C=given["C"], kernel="precomputed", cache_size=2000)
    machine.fit(_kernel(vectors, vectors, given["gamma"]), train.labels.numpy())
    splits = [split for split in (recipe.data.val, recipe.data.test) if split]
    sets = {split: _pictures(recipe, split) for split in splits}
    errors = {}
    for split, data in sets.items():
        wrong = 0
        for x, y in zip(_vectors(data).split(PORTION), data.labels.split(PORTION), strict=True):
            answers = machine.predict(_kernel(x, vectors, given["gamma"]))
            wrong += int((torch.from_numpy(answers) != y).sum())
        errors[split] = {"error": 100 * wrong / len(data)}
    return {
        "name": name,
        "recipe": recipe.to_dict(),
        "parameters": None,
        "data": {
            data.split: {"pictures": len(data), "sha256": data.digest}
            for data in (train, *sets.values())
        },
        "commit": commit(),
        "versions": versions(torch.device("cpu")),
        "seeds": [
            {"seed": 0, "seconds": round(time.monotonic() - began, 1), "errors": errors},
        ],
        "summary": {split: summarise([found["error"]]) for split, found in errors.items()},
    }


def _pictures(recipe: Recipe, split: str) -> Dataset:
    data = load(recipe.data, split)
    if not isinstance(data, Dataset):
        raise InputError(f"[model] an svm learns classes, and {recipe.data.name} has none")
    return data


def _vectors(data: Dataset) -> Tensor:
    return data.images.flatten(1)


def _kernel(a: Tensor, b: Tensor, gamma: float) -> Any:
    """``exp(−γ|a − b|²)`` by one matrix product, which libsvm would do pair by pair."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * a @ b.T
    return squares.clamp_(min=0).mul_(-gamma).exp_().double().numpy()
