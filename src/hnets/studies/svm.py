"""The row of Table 1 that is no network: a support vector machine with an RBF kernel."""

from __future__ import annotations

import math
import time
from typing import Any

import torch
from torch import Tensor

from hnets.data import Dataset
from hnets.errors import InputError, MissingExtra
from hnets.train.recipe import Recipe, expect
from hnets.train.result import commit, summarise, versions
from hnets.train.run import load

MODEL = "svm"
"""What its recipe calls it; `hnets.create_model` has no such network."""
PORTION = 2000
"""Images whose kernel values are computed at a time."""


def check_svm(recipe: Recipe) -> None:
    """Raise for what would go wrong in the fit: no scikit-learn, or options that it cannot use."""
    try:
        import sklearn.svm  # noqa: F401 - to see that it is installed
    except ImportError:
        raise MissingExtra("support vector machines", "scikit-learn", "bench") from None
    options = dict(recipe.model.options)
    if set(options) != {"C", "gamma"}:
        raise InputError(f"[model] an svm has the options C and gamma, got {options}")
    for key, value in options.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        met = number and 0 < value < math.inf
        expect(met, f"model.options.{key}", "a number above 0, such as 1.0", value)


def train_svm(recipe: Recipe, name: str = "") -> dict[str, Any]:
    """Fit by a recipe with ``model.name = "svm"`` and options ``C`` and ``gamma``; its result.

    It is convex, so there is one solution and one seed.
    """
    check_svm(recipe)
    from sklearn.svm import SVC

    c, gamma = recipe.model.options["C"], recipe.model.options["gamma"]
    splits = dict.fromkeys((recipe.data.train, recipe.data.val, recipe.data.test))
    sets = {split: _images(recipe, split) for split in splits if split}
    began, train = time.monotonic(), sets[recipe.data.train]
    vectors = train.images.flatten(1)
    machine = SVC(C=c, kernel="precomputed", cache_size=2000)
    machine.fit(_kernel(vectors, vectors, gamma), train.labels.numpy())
    errors = {}
    for split, data in sets.items():
        if split != recipe.data.train:
            batches = zip(data.images.split(PORTION), data.labels.split(PORTION), strict=True)
            wrong = 0
            for x, y in batches:
                predictions = machine.predict(_kernel(x.flatten(1), vectors, gamma))
                wrong += int((torch.from_numpy(predictions) != y).sum())
            errors[split] = {"error": 100 * wrong / len(data)}
    return {
        "name": name,
        "recipe": recipe.to_dict(),
        "parameters": None,
        "data": {
            split: {"images": len(data), "sha256": data.digest} for split, data in sets.items()
        },
        "commit": commit(),
        "versions": versions(torch.device("cpu")),
        "seeds": [{"seed": 0, "seconds": round(time.monotonic() - began, 1), "errors": errors}],
        "summary": {split: summarise([one["error"]]) for split, one in errors.items()},
    }


def _images(recipe: Recipe, split: str) -> Dataset:
    data = load(recipe.data, split)
    if not isinstance(data, Dataset):
        raise InputError(f"[model] an svm learns classes, and {recipe.data.name} has none")
    return data


def _kernel(a: Tensor, b: Tensor, gamma: float) -> Any:
    """``exp(−γ|a − b|²)`` by one matrix product, which libsvm would do pair by pair."""
    squares = (a * a).sum(1)[:, None] + (b * b).sum(1)[None, :] - 2 * a @ b.T
    return squares.clamp_(min=0).mul_(-gamma).exp_().double().numpy()
