"""The paper's protocol: random hyperparameters, chosen on validation, tested once.

Each trial trains on the training set and is judged on the validation set. The best is trained
again on both, with several seeds, and only these networks meet the test set: a trial's recipe has
none.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hnets.errors import InputError
from hnets.files import replacing
from hnets.train._strict import expect
from hnets.train.distributed import Team
from hnets.train.loop import train
from hnets.train.recipe import Recipe
from hnets.train.result import Diverged, Result, write_json
from hnets.train.run import Run, Watch
from hnets.train.space import Range, Space, read_space
from hnets.train.toml import to_toml

if TYPE_CHECKING:  # Optuna is imported by those who search
    from hnets.train.sampler import Method
    from hnets.train.study import Study, Trial

__all__ = [
    "best_of",
    "best_recipe",
    "check_search",
    "open_study",
    "ranked",
    "run_trials",
    "trial_recipe",
    "write_search",
]

EXAMPLE = '"optimiser.rate" = { low = 0.001, high = 0.1, log = true }'


def trial_recipe(recipe: Recipe) -> Recipe:
    """What every trial shares: trained on train, judged on val, and no test set to look at."""
    return recipe.replace({"data.train": "train", "data.val": "val", "data.test": ""})


def best_recipe(recipe: Recipe, best: Trial) -> Recipe:
    """The recipe with the best trial's values, trained on train and val and then tested."""
    return recipe.replace({**best.values, "data.train": "train+val", "data.val": ""})


def check_search(recipe: Recipe) -> Space:
    """The recipe's space, if a search can try all that lies in it, and Optuna is installed."""
    import hnets.train.study  # noqa: F401 - it says what to install

    base = trial_recipe(recipe)
    for key, values in recipe.search.space.items():
        if isinstance(values, Mapping) and any(isinstance(v, Mapping) for v in values.values()):
            inner = f'"{key}.{next(iter(values))}"'
            raise InputError(f"[search.space] expects dotted keys in quotes: write {inner}")
        fixed = key.split(".")[0] in ("title", "data", "evaluation", "search")
        known = "a key of model, augment, edges, optimiser, schedule or training"
        expect(not fixed, "[search.space]", known, key)
    space = read_space(recipe.search.space)
    if not space:
        raise InputError(
            f"the recipe has no [search.space], so there is nothing to try: add one with, for "
            f"instance, {EXAMPLE}"
        )
    expect(recipe.data.test in ("", "test"), "data.test", "test, or nothing", recipe.data.test)
    _check_schedule(base)
    for key, wanted in space.items():
        for value in wanted.ends:
            try:
                tried = base.replace({key: value})
            except InputError as error:
                raise InputError(f"[search.space] {error}") from None
            _check_schedule(tried)
        if isinstance(wanted, Range) and isinstance(_value(base, key), float):
            space[key] = Range(float(wanted.low), float(wanted.high), wanted.log)
    return space


def open_study(
    recipe: Recipe,
    name: str,
    folder: Path,
    url: str | None = None,
    method: Method = "random",
    seed: int = 0,
) -> Study:
    """The study of a recipe, new or as it was left.

    Args:
        recipe: with a ``[search.space]``.
        name: of the study.
        folder: where the storage is, if it has no URL.
        url: of a storage that several machines can reach.
        method: how values are drawn.
        seed: of the draws.
    """
    space = check_search(recipe)
    from hnets.train.storage import file_url
    from hnets.train.study import Study

    told = trial_recipe(recipe).to_dict()
    del told["title"], told["search"]["trials"]  # these two may change on the way
    return Study(url or file_url(folder / "search.db"), name, told, space, method, seed)


def run_trials(
    recipe: Recipe,
    study: Study,
    count: int,
    team: Team,
    parallel: int = 1,
    told: Callable[[Sequence[Trial]], None] | None = None,
    watch: Watch | None = None,
) -> list[Trial]:
    """Train trials until the study has ``count`` of them, and return all.

    If other processes share the study, some may still be running when this returns.

    Args:
        recipe: what to vary.
        study: where trials are taken from and written down.
        count: in all, with those of other processes and of earlier calls.
        team: the device; one process, since others share the study.
        parallel: how many to train side by side, on a GPU.
        told: is told all trials when some have ended.
        watch: is told of each epoch.
    """
    if team.size > 1:
        raise InputError(
            "expected a process for each search, got several that train together: run hnets search "
            "without torchrun, once for each GPU, with the same --storage and --study"
        )
    base = trial_recipe(recipe)
    while True:
        taken = study.take(parallel, count)
        if not taken:
            found = study.trials()
            if sum(one.state != "stopped" for one in found) >= count:
                return found
        runs = {one.number: _run(base.replace(one.values)) for one in taken}
        for group in [taken] if team.device.type == "cuda" else [[one] for one in taken]:
            _run_group(group, runs, study, team, watch)
            if told is not None:
                told(study.trials())


def _run(recipe: Recipe) -> Run:
    return Run(recipe, recipe.training.seed)  # and no folder: a trial leaves its errors only


def _run_group(
    group: Sequence[Trial],
    runs: Mapping[int, Run],
    study: Study,
    team: Team,
    watch: Watch | None,
) -> None:
    """Train some trials at once, and write down how they ended."""
    trials = {id(runs[one.number]): one for one in group}
    try:
        finished = train([runs[one.number] for one in group], team, watch=watch)
    except Diverged as error:
        for run in error.runs:
            study.diverged(trials[id(run)])
        finished = error.results
    except torch.OutOfMemoryError:
        raise InputError(
            f"{len(group)} trials at once need more memory than the GPU has: ask for fewer with "
            "--parallel; those that have ended are kept"
        ) from None
    for found in finished:
        _tell(study, trials[id(found.run)], found)


def _tell(study: Study, trial: Trial, found: Result) -> None:
    last = found.history[-1]
    if math.isfinite(last["val_loss"]):
        study.done(trial, last["val_error"], last["val_loss"], round(found.seconds, 3))
    else:
        study.diverged(trial)


def ranked(trials: Sequence[Trial]) -> list[Trial]:
    """Those that are done, the lowest validation error first, and of equals the lowest loss."""
    done = [one for one in trials if one.state == "done"]
    return sorted(done, key=lambda one: (one.val_error, one.val_loss, one.number))


def best_of(trials: Sequence[Trial]) -> Trial:
    """The first of `ranked`."""
    best = ranked(trials)
    if not best:
        raise InputError(
            f"none of {len(trials)} trials came to an end, as all diverged: lower the high end of "
            "optimiser.rate in [search.space], or set a schedule.warmup"
        )
    return best[0]


def write_search(recipe: Recipe, study: Study, trials: Sequence[Trial], folder: Path) -> None:
    """Write ``search.json``, with all trials, and ``best.toml``, once there is a best one."""
    best = ranked(trials)[:1]
    write_json(
        {
            "study": study.name,
            "recipe": trial_recipe(recipe).to_dict(),
            "best": best[0].number if best else None,
            "trials": [dataclasses.asdict(one) for one in trials],
        },
        folder / "search.json",
    )
    if best:
        with replacing(folder / "best.toml") as part:
            part.write_text(to_toml(best_recipe(recipe, best[0])), encoding="utf-8")


def _check_schedule(recipe: Recipe) -> None:
    if recipe.schedule.name == "plateau":
        raise InputError(
            'schedule.name: expected "cosine", "step" or "constant" for a search, got "plateau", '
            "which watches the validation set: the best trial is trained again with that set in "
            "its training set, and could not follow the same learning rates"
        )


def _value(recipe: Recipe, key: str) -> Any:
    """What a recipe has at a dotted key; None for an option that it leaves out."""
    value: Any = recipe.to_dict()
    for part in key.split("."):
        value = value.get(part)
    return value
