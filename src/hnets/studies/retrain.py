"""Results of recipes: those that ship, and those of training them anew, side by side on a GPU.

A result is one JSON file per recipe, as the training wrote it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from hnets.errors import InputError
from hnets.studies import svm
from hnets.train import Diverged, Recipe, Run, Team, prepare, report, seeds_of, train, watching
from hnets.train import checkpoint as checkpoints
from hnets.train.result import write_json

SHIPPED = Path(__file__).parent / "results"
StoredResult = dict[str, Any]


def read_result(name: str, folder: Path = SHIPPED) -> StoredResult | None:
    """The result of that name, or None if there is none."""
    path = folder / f"{name}.json"
    try:
        result: StoredResult = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:  # no JSON, or no text
        raise InputError(f"{path} is damaged ({error}); delete it and train again") from None
    return result


def shipped_result(name: str) -> StoredResult:
    """The result of that name that comes with the package."""
    result = read_result(name)
    if result is None:
        raise InputError(f"no result of {name} ships: train it with hnets reproduce, and --train")
    return result


def write_study(
    name: str, facts: StoredResult, results: Mapping[str, StoredResult], out: Path, team: Team
) -> StoredResult:
    """What a study says of several results, with the commit and the versions that they share."""
    some = next(iter(results.values()))
    study = {**facts, "commit": some["commit"], "versions": some["versions"]}
    if team.leads:
        write_json(study, out / f"{name}.json")
    return study


def train_recipes(
    recipes: Mapping[str, Recipe], seeds: int, out: Path, team: Team, resume: bool, console: Console
) -> dict[str, StoredResult]:
    """Train every recipe with every seed; the results, which are also written to ``out``.

    ``recipes`` are by the name under which the result is kept; ``resume`` keeps results that exist
    and goes on from checkpoints. If some diverge, the others are trained before `Diverged` is
    raised.
    """
    runs = {name: seeds_of(recipe, seeds, out / name, name) for name, recipe in recipes.items()}
    if not resume:
        _refuse_to_overwrite(runs, out)
    results = {
        name: result
        for name, recipe in recipes.items()
        if resume and (result := read_result(name, out)) and _is_of(result, recipe, seeds)
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
        if team.leads:
            write_json(results[name], out / f"{name}.json")
    # On a GPU all recipes train together; elsewhere one after the other.
    together = team.device.type == "cuda" and team.size == 1
    diverged = list[Diverged]()
    for group in [list(left)] if together else [[name] for name in left]:
        flat = [run for name in group for run in left[name]]
        try:
            with watching(flat, console) as watch:
                trained = train(flat, team, watch=watch)
        except Diverged as error:
            diverged.append(error)
            trained = error.results
        for name in group:
            own = [result for result in trained if result.run in left[name]]
            if len(own) < seeds:
                continue
            results[name] = report(own, team)
            if team.leads:
                write_json(results[name], out / f"{name}.json")
    if diverged:
        raise diverged[0]
    return {name: results[name] for name in recipes}


def _refuse_to_overwrite(runs: Mapping[str, list[Run]], out: Path) -> None:
    for name, own in runs.items():
        begun = any(run.folder is not None and checkpoints.exists(run.folder) for run in own)
        if begun or read_result(name, out) is not None:
            raise InputError(
                f"{out} already holds a training of {name}: add --resume to go on with it, or name "
                "another folder with --out"
            )


def _is_of(result: StoredResult, recipe: Recipe, seeds: int) -> bool:
    """Whether a result is of a recipe; a support vector machine has one seed anyway."""
    enough = recipe.model.name == svm.MODEL or len(result["seeds"]) == seeds
    return enough and Recipe.from_dict(result["recipe"]) == recipe
