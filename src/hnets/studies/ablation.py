"""The data ablation: how accuracy falls when there are fewer images to learn from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from hnets.studies.numbers import Numbers
from hnets.studies.retrain import StoredResult, shipped_result, train_recipes, write_study
from hnets.train import Recipe, Team

METHODS = {
    "H-Net": "rotmnist-r-hnet",
    "P4CNN": "rotmnist-r-p4cnn",
    "CNN + rotation augmentation": "rotmnist-r-z2cnn-augmented",
    "CNN": "rotmnist-r-z2cnn",
}
SIZES = (500, 1000, 2000, 4000, 8000)
"""Images to train on; the full 12,000 are Table 1's."""


@dataclass(frozen=True)
class Curve:
    """Accuracy in percent, mean and standard deviation, against the number of images."""

    label: str
    x: Sequence[int]
    mean: Sequence[float]
    spread: Sequence[float]


def train_ablation(
    recipes: Mapping[str, Recipe],
    seeds: int,
    out: Path,
    team: Team,
    resume: bool,
    console: Console,
    sizes: Sequence[int] = SIZES,
) -> StoredResult:
    """Train every method on every size; the errors by recipe and size, also written to ``out``."""
    wanted = {
        f"{name}-{size}": recipe.replace({"data.limit": size})
        for name, recipe in recipes.items()
        for size in sizes
    }
    results = train_recipes(wanted, seeds, out, team, resume, console)
    facts = {
        "sizes": list(sizes),
        "errors": {
            name: {str(size): results[f"{name}-{size}"]["summary"]["test"] for size in sizes}
            for name in recipes
        },
        "recipes": {name: recipe.to_dict() for name, recipe in recipes.items()},
    }
    return write_study("ablation", facts, results, out, team)


def ablation_curves(ablation: StoredResult) -> list[Curve]:
    """One curve per method, whose last point is the full training set of Table 1."""
    curves = []
    for method, name in METHODS.items():
        full = shipped_result(name)
        errors = {int(size): error for size, error in ablation["errors"][name].items()}
        errors[full["data"][full["recipe"]["data"]["train"]]["images"]] = full["summary"]["test"]
        sizes = sorted(errors)
        means = [100 - errors[size]["mean"] for size in sizes]
        curves.append(Curve(method, sizes, means, [errors[size]["std"] for size in sizes]))
    return curves


def ablation_numbers(curves: Sequence[Curve], spreads: bool = False) -> Numbers:
    """Accuracies in percent, with their deviations where there is room for them."""
    rows = []
    for curve in curves:
        pairs = zip(curve.mean, curve.spread, strict=True)
        cells = (f"{mean:.2f}" + (f" ± {spread:.2f}" if spreads else "") for mean, spread in pairs)
        rows.append((curve.label, *cells))
    header = ("method", *(f"{size:,}" for size in curves[0].x))
    return Numbers("Accuracy on the test set by number of training images, %", header, rows)
