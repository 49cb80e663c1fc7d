"""The data ablation: how accuracy falls when there are fewer pictures to learn from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from hnets import plot as inspect
from hnets.errors import InputError
from hnets.studies import results_store as store
from hnets.studies.results_store import Result
from hnets.studies.retrain import train_recipes
from hnets.train import Recipe, Team

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = [
    "METHODS",
    "NAME",
    "SIZES",
    "curves",
    "figure",
    "rich_table",
    "shipped",
    "train_ablation",
]

NAME = "ablation"
METHODS = {
    "H-Net": "rotmnist-r-hnet",
    "P4CNN": "rotmnist-r-p4cnn",
    "CNN + rotation augmentation": "rotmnist-r-z2cnn-augmented",
    "CNN": "rotmnist-r-z2cnn",
}
SIZES = (500, 1000, 2000, 4000, 8000)
"""Pictures to train on; the full 12,000 are Table 1's."""


def train_ablation(
    recipes: dict[str, Recipe],
    sizes: tuple[int, ...],
    seeds: int,
    out: Path,
    team: Team,
    resume: bool,
    console: Console,
) -> Result:
    """Train every method on every size; the errors by recipe and size."""
    wanted = {
        f"{name}-{size}": recipe.replace({"data.limit": size})
        for name, recipe in recipes.items()
        for size in sizes
    }
    results = train_recipes(wanted, seeds, out, team, resume, console)
    some = next(iter(results.values()))
    return {
        "sizes": list(sizes),
        "errors": {
            name: {str(size): results[f"{name}-{size}"]["summary"]["test"] for size in sizes}
            for name in recipes
        },
        "recipes": {name: recipe.to_dict() for name, recipe in recipes.items()},
        "commit": some["commit"],
        "versions": some["versions"],
    }


def curves(ablation: Result, full: dict[str, Result | None]) -> list[inspect.Curve]:
    """Accuracy in percent against the number of pictures, one curve a method."""
    found = []
    for method, name in METHODS.items():
        whole = full.get(name)
        if name not in ablation["errors"] or whole is None:
            raise InputError(
                f"the ablation needs the results of {name}: run hnets reproduce table1 --train, "
                "then hnets reproduce ablation --train"
            )
        errors = {int(size): value for size, value in ablation["errors"][name].items()}
        errors[whole["data"][whole["recipe"]["data"]["train"]]["images"]] = whole["summary"]["test"]
        sizes = sorted(errors)
        means = [100 - errors[size]["mean"] for size in sizes]
        spreads = [errors[size]["std"] for size in sizes]
        found.append(inspect.Curve(method, sizes, means, spreads))
    return found


def figure(found: list[inspect.Curve]) -> Figure:
    """Accuracy by the paper's measure, each method's over its own best, and the error itself."""
    return inspect.ablation_figure(found)


def rich_table(found: list[inspect.Curve]) -> Table:
    """Accuracies in percent for a terminal."""
    from rich.table import Table

    table = Table(title="Accuracy on the test set by number of training pictures, %")
    table.add_column("method")
    for size in found[0].x:
        table.add_column(f"{size:,}", justify="right")
    for curve in found:
        table.add_row(curve.label, *(f"{mean:.2f}" for mean in curve.mean))
    return table


def shipped() -> Result:
    """The ablation that comes with the package."""
    result = store.read(NAME)
    if result is None:
        raise InputError("no ablation has been trained: run hnets reproduce ablation --train")
    return result
