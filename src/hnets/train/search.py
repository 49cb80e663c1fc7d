"""The paper's protocol: random hyperparameters, chosen on validation, tested once.

Each trial trains on the training set and is judged on the validation set. The best is trained again
on both, with several seeds, and only these networks meet the test set. Trials lie in an Optuna
study, which any number of processes share through its storage.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hnets.errors import InputError, MissingExtra
from hnets.files import replacing
from hnets.train.distributed import Team
from hnets.train.loop import train
from hnets.train.recipe import Recipe, expect, first_difference, quoted, to_toml
from hnets.train.result import Diverged, write_json
from hnets.train.run import Loaded, Run, Watch, prepare
from hnets.train.trial_storage import TrialStorage, beat, beating, open_storage

try:
    import optuna
    import sqlalchemy
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.storages import fail_stale_trials
    from optuna.trial import FrozenTrial, TrialState
except ModuleNotFoundError:
    raise MissingExtra("searches", "optuna", "search") from None

SAMPLERS = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
STATES = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "diverged",
    TrialState.FAIL: "stopped",
}
FORM = "{ low = 0.001, high = 0.1, log = true } or { choices = [46, 128] }"
SECTIONS = ("model", "augment", "edges", "optimiser", "schedule", "training", "teachers")


def trial_recipe(recipe: Recipe) -> Recipe:
    """What every trial shares: trained on train, judged on val, and no test set."""
    return recipe.replace({"data.train": "train", "data.val": "val", "data.test": ""})


def best_recipe(recipe: Recipe, best: FrozenTrial) -> Recipe:
    """The recipe with the best trial's values, trained on train and val and then tested."""
    return recipe.replace({**best.params, "data.train": "train+val", "data.val": ""})


def check_search(recipe: Recipe) -> dict[str, Any]:
    """Optuna's distributions of ``[search.space]``, if the recipe takes all that they can give."""
    base, space = trial_recipe(recipe), {}
    if not recipe.search.space:
        raise InputError(
            "the recipe has no values to search: add [search.space] to a .toml file of it, with "
            f'lines such as "optimiser.rate" = {FORM}'
        )
    expect(recipe.data.test in ("", "test"), "data.test", "test, or nothing", recipe.data.test)
    _check_schedule(base)
    for key, values in recipe.search.space.items():
        part, _, name = key.partition(".")
        wanted = f"keys of {', '.join(SECTIONS)}, dotted and in quotes"
        expect(part in SECTIONS and name != "", "[search.space]", wanted, key)
        real = isinstance(base.to_dict()[part].get(name), float)
        space[key] = _distribution(values, f'search.space."{key}"', real)
        for value in getattr(space[key], "choices", None) or (space[key].low, space[key].high):
            try:
                _check_schedule(base.replace({key: value}))
            except InputError as error:
                raise InputError(f"[search.space] {error}") from None
    return space


def _distribution(values: Any, where: str, real: bool) -> Any:
    expect(isinstance(values, Mapping), where, FORM, values)
    choices, kinds = values.get("choices"), {type(values.get(end)) for end in ("low", "high")}
    plain = isinstance(choices, list) and all(type(v) in (int, float, str, bool) for v in choices)
    expect(plain or kinds <= {int, float}, where, FORM, values)
    number = IntDistribution if kinds == {int} and not real else FloatDistribution
    try:
        return (CategoricalDistribution if "choices" in values else number)(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: expected {FORM}, got {quoted(values)} ({error})") from None


def _check_schedule(recipe: Recipe) -> None:
    if recipe.schedule.name == "plateau":
        raise InputError(
            'schedule.name: expected "cosine", "step" or "constant" for a search, got "plateau", '
            "which watches the validation set: the best trial is trained again with that set in "
            "its training set, and could not follow the same learning rates"
        )


@contextmanager
def open_study(
    recipe: Recipe, name: str, folder: Path, location: str | None = None
) -> Iterator[tuple[optuna.Study, TrialStorage]]:
    """The study of a recipe, new or as it was left, and the storage that holds it.

    Without a location, as `open_storage` takes it, that is an SQLite file of the folder.
    """
    if location is None:
        file = str((folder / "search.db").absolute())
        location = sqlalchemy.URL.create("sqlite", database=file).render_as_string()
    with open_storage(location, name) as (study, storage, shown):
        _agree(study, trial_recipe(recipe).to_dict(), f"the study {name!r} in {shown}")
        yield study, storage


def _agree(study: optuna.Study, recipe: dict[str, Any], label: str) -> None:
    """Go on with a study of the same recipe only."""
    del recipe["search"]["trials"]  # may change on the way
    before = study.user_attrs.get("recipe")
    remedy = "name another with --study, or another folder with --out"
    if before is None and study.get_trials(False):
        raise InputError(f"{label} is no search of hnets; {remedy}")
    if difference := first_difference(before or {}, recipe):
        raise InputError(f"{label} was begun with {difference}, or {remedy}")
    study.set_user_attr("recipe", recipe)


def train_trials(
    recipe: Recipe,
    study: optuna.Study,
    storage: TrialStorage,
    count: int,
    team: Team,
    method: str = "random",
    seed: int = 0,
    parallel: int = 1,
    watch: Watch | None = None,
) -> Iterator[list[FrozenTrial]]:
    """Train trials until a study has ``count`` of them; yields all, each time that some have ended.

    Trials of other processes that share the study count too, and may still be running at the end.
    ``parallel`` trials train side by side, on a GPU.
    """
    if team.size > 1:
        raise InputError(
            "expected a process for each search, got several that train together: run hnets search "
            "without torchrun, once for each GPU, with the same --storage and --study"
        )
    base, space, loaded = trial_recipe(recipe), check_search(recipe), Loaded()
    fail_stale_trials(study)
    while taken := _take(study, storage, space, parallel, count, SAMPLERS[method], seed):
        with ExitStack() as stack:
            stack.enter_context(beating(study, storage, taken))
            for trial in taken:  # unless it has another outcome by then
                stack.callback(study.tell, trial, state=TrialState.FAIL, skip_if_finished=True)
            recipes = [base.replace(trial.params) for trial in taken]
            runs = [Run(own, own.training.seed) for own in recipes]  # which write nothing
            trials = dict(zip(runs, taken, strict=True))
            try:
                prepare(runs, team, loaded=loaded)
                results = train(runs, team, watch=watch)
            except Diverged as error:
                results = error.results
            except torch.OutOfMemoryError:
                raise InputError(
                    f"{len(runs)} trials at once need more memory than the GPU has: ask for fewer "
                    "with --parallel; those that have ended are kept"
                ) from None
            for result in results:
                last = result.history[-1]
                if math.isfinite(last["val_loss"]):
                    trial = trials.pop(result.run)
                    # After a long sleep another process may have tried it again already.
                    with suppress(optuna.exceptions.UpdateFinishedTrialError):
                        trial.set_user_attr("val_loss", last["val_loss"])
                        trial.set_user_attr("seconds", round(result.seconds, 3))
                        study.tell(trial, last["val_error"])
            for trial in trials.values():
                study.tell(trial, state=TrialState.PRUNED, skip_if_finished=True)
        yield study.get_trials(False, tuple(STATES))
        fail_stale_trials(study)


def _take(
    study: optuna.Study,
    storage: TrialStorage,
    space: Mapping[str, Any],
    count: int,
    upto: int,
    sampler: Any,
    seed: int,
) -> list[optuna.Trial]:
    """Begin ``count`` trials, or as many as are left of ``upto``.

    Values follow from the seed and the trial's number, whichever process takes it.
    """
    taken = list[optuna.Trial]()
    while len(taken) < count and _counted(study) < upto:
        trial = study.ask()
        beat(study, storage, [trial])  # without a heartbeat it would never be stale
        own = np.random.SeedSequence([seed, trial.number]).generate_state(1)[0]
        study.sampler = sampler(seed=int(own))
        for key, wanted in space.items():
            if isinstance(wanted, CategoricalDistribution):
                trial.suggest_categorical(key, wanted.choices)
            else:
                whole = isinstance(wanted, IntDistribution)
                suggest = trial.suggest_int if whole else trial.suggest_float
                suggest(key, wanted.low, wanted.high, step=wanted.step, log=wanted.log)
        trial.set_user_attr("host", platform.node())
        if _counted(study, trial.number) >= upto:  # other processes took the last ones too
            study.tell(trial, state=TrialState.FAIL)
            break
        taken.append(trial)
    return taken


def _counted(study: optuna.Study, before: float = math.inf) -> int:
    """Trials that have ended or are running, of those before a number."""
    states = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
    return sum(trial.number < before for trial in study.get_trials(False, states))


def ranked(trials: Sequence[FrozenTrial]) -> list[FrozenTrial]:
    """Those that are done, the lowest validation error first, and of equals the lowest loss."""
    done = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    return sorted(done, key=lambda one: (one.value, one.user_attrs["val_loss"], one.number))


def best_of(trials: Sequence[FrozenTrial]) -> FrozenTrial:
    """The first of `ranked`."""
    if best := ranked(trials):
        return best[0]
    raise InputError(
        f"none of {len(trials)} trials came to an end, as all diverged: lower the high end of "
        "optimiser.rate in [search.space], or set a schedule.warmup"
    )


def outcome(trial: FrozenTrial) -> str:
    """What a trial came to, and its values, in one line."""
    state = STATES[trial.state]
    values = "  ".join(
        f"{key} = {value:.3g}" if isinstance(value, float) else f"{key} = {value}"
        for key, value in trial.params.items()
    )
    return f"{f'val {trial.value:.2f} %' if state == 'done' else state}  {values}"


def write(recipe: Recipe, study: optuna.Study, trials: Sequence[FrozenTrial], folder: Path) -> None:
    """Write ``search.json``, with all trials, and ``best.toml``, once there is a best one."""
    best = ranked(trials)[:1]
    rows = [
        {
            "number": trial.number,
            "state": STATES[trial.state],
            "values": trial.params,
            "val_error": trial.value if trial.state == TrialState.COMPLETE else None,
            **{key: trial.user_attrs.get(key) for key in ("val_loss", "seconds", "host")},
        }
        for trial in trials
    ]
    content = {"study": study.study_name, "recipe": trial_recipe(recipe).to_dict()}
    number = best[0].number if best else None
    write_json({**content, "best": number, "trials": rows}, folder / "search.json")
    if best:
        with replacing(folder / "best.toml") as part:
            part.write_text(to_toml(best_recipe(recipe, best[0])), encoding="utf-8")
