"""Train several recipes anew, side by side where the device can."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console

from hnets.errors import InputError
from hnets.studies import results_store as store
from hnets.studies import svm
from hnets.studies.results_store import StoredResult
from hnets.train import Recipe, Run, Team, prepare, report, seeds_of, train, watching
from hnets.train import checkpoint as checkpoints


def train_recipes(
    recipes: Mapping[str, Recipe], seeds: int, out: Path, team: Team, resume: bool, console: Console
) -> dict[str, StoredResult]:
    """Train every recipe with every seed; the results, which are also written to ``out``.

    Args:
        recipes: by the name under which the result is kept.
        seeds: how many for each.
        out: folder for checkpoints and results.
        team: processes and device.
        resume: keep results that exist, and go on from checkpoints.
        console: for progress.
    """
    runs = {name: seeds_of(recipe, seeds, out / name, name) for name, recipe in recipes.items()}
    if not resume:
        _refuse_to_overwrite(runs, out)
    results = {
        name: result
        for name, recipe in recipes.items()
        if resume and (result := store.read(name, out)) and _is_of(result, recipe, seeds)
    }
    left = {name: own for name, own in runs.items() if name not in results}
    machines = [name for name in left if recipes[name].model.name == svm.MODEL]
    for name in machines:
        svm.check_svm(recipes[name])
        del left[name]
    prepare([run for own in left.values() for run in own], team, resume)
    for name in machines:
        console.print(f"{name}: fitting the support vector machine, some minutes")
        results[name] = svm.train_svm(recipes[name], name)
        store.write(results[name], name, out)
    # On a GPU all recipes train together; elsewhere one after the other.
    together = team.device.type == "cuda" and team.size == 1
    for group in [list(left)] if together else [[name] for name in left]:
        flat = [run for name in group for run in left[name]]
        with watching(flat, console) as watch:
            trained = train(flat, team, watch=watch)
        for name in group:
            own = [result for result in trained if result.run in left[name]]
            results[name] = report(own, team)
            if team.leads:
                store.write(results[name], name, out)
    return {name: results[name] for name in recipes}


def _refuse_to_overwrite(runs: Mapping[str, list[Run]], out: Path) -> None:
    for name, own in runs.items():
        begun = any(run.folder is not None and checkpoints.exists(run.folder) for run in own)
        if begun or store.read(name, out) is not None:
            raise InputError(
                f"{out} already holds a training of {name}: add --resume to go on with it, or name "
                "another folder with --out"
            )


def _is_of(result: StoredResult, recipe: Recipe, seeds: int) -> bool:
    """Whether a result is of a recipe; a support vector machine has one seed anyway."""
    enough = recipe.model.name == svm.MODEL or len(result["seeds"]) == seeds
    return enough and Recipe.from_dict(result["recipe"]) == recipe
