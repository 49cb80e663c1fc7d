"""Train several recipes anew, side by side where the device can."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from hnets.errors import InputError
from hnets.studies import results_store as store
from hnets.studies.results_store import Result
from hnets.studies.svm import train_svm
from hnets.train import (
    Recipe,
    Run,
    Team,
    check_recipe,
    checkpoint,
    seeds_of,
    train,
    watching,
)
from hnets.train.report import report

__all__ = ["train_recipes"]


def train_recipes(
    recipes: Mapping[str, Recipe], seeds: int, out: Path, team: Team, resume: bool, console: Console
) -> dict[str, Result]:
    """Train every recipe with every seed; the results, which are also written to ``out``.

    Args:
        recipes: by the name under which the result is kept.
        seeds: how many for each.
        out: folder for checkpoints and results.
        team: processes and device.
        resume: keep results that are there, and go on from checkpoints.
        console: for progress.
    """
    results = {}
    if not resume:
        _refuse_to_overwrite(recipes, seeds, out)
    for name, recipe in recipes.items():
        there = store.read(name, out) if resume else None
        if there is not None and _is_of(there, recipe, seeds):
            results[name] = there
        else:
            check_recipe(recipe)
    for name, recipe in recipes.items():
        if name not in results and recipe.model.name == "svm":
            console.print(f"{name}: fitting the support vector machine, some minutes")
            results[name] = train_svm(recipe, name)
            store.write(results[name], name, out)
    left = {name: recipe for name, recipe in recipes.items() if name not in results}
    runs = {name: seeds_of(recipe, seeds, out / name) for name, recipe in left.items()}
    for group in _in_groups(runs, team):
        named = {name: runs[name] for name in group}
        flat = [run for own in named.values() for run in own]
        with watching(named, console) as watch:
            finished = train(flat, team, resume, watch)
        for name in group:
            own = [one for one in finished if one.run in runs[name]]
            results[name] = report(left[name], own, team, name)
            if team.leads:
                store.write(results[name], name, out)
    return {name: results[name] for name in recipes}


def _refuse_to_overwrite(recipes: Mapping[str, Recipe], seeds: int, out: Path) -> None:
    for name, recipe in recipes.items():
        folders = [run.folder for run in seeds_of(recipe, seeds, out / name)]
        begun = any(folder is not None and checkpoint.exists(folder) for folder in folders)
        if begun or store.read(name, out) is not None:
            raise InputError(
                f"{out} already holds a training of {name}: add --resume to go on with it, or name "
                "another folder with --out"
            )


def _is_of(result: Result, recipe: Recipe, seeds: int) -> bool:
    """Whether a result is what was asked for; a support vector machine has one seed anyway."""
    enough = recipe.model.name == "svm" or len(result["seeds"]) == seeds
    return enough and Recipe.from_dict(result["recipe"]) == recipe


def _in_groups(runs: Mapping[str, Sequence[Run]], team: Team) -> list[list[str]]:
    """Which recipes to train together: all on a GPU; one by one where they take turns anyway."""
    if team.device.type == "cuda" and team.size == 1:
        return [list(runs)] if runs else []
    return [[name] for name in runs]
