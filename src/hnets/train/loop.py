"""The loop: teachers if a recipe has any; epochs of steps, validation after each, a checkpoint.

Several runs go through it side by side on one GPU, each with a CUDA graph and a stream of its own;
elsewhere they go one after the other.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from hnets.data import Streamed
from hnets.train import checkpoint
from hnets.train.checkpoint import Row
from hnets.train.distributed import Team
from hnets.train.progress import label
from hnets.train.recipe import Recipe, Schedule
from hnets.train.result import Diverged, Result, report
from hnets.train.run import RESULT, Run, Watch, prepare
from hnets.train.step import Learner
from hnets.train.task import EdgeDetection
from hnets.train.teachers import soft_labels

log = logging.getLogger(__name__)

SEARCHED = 3
"""Algorithms that cuDNN tries per convolution: with torch's 10, a first step can take minutes."""


def train(
    runs: Sequence[Run], team: Team, resume: bool = False, watch: Watch | None = None
) -> list[Result]:
    """Train every run to its end; if some diverge, the others first, and then raise `Diverged`.

    Runs that are not prepared yet are prepared here, from their checkpoints if they are to resume.
    Teachers that some of them need are trained first, unless their labels are in the cache.
    """
    prepare([run for run in runs if run.learner is None], team, resume)
    streamed = any(isinstance(task.images, Streamed) for run in runs for task in run.tasks.values())
    together = team.device.type == "cuda" and team.size == 1 and not streamed
    groups = [list(runs)] if together else [[run] for run in runs]
    results, diverged = list[Result](), dict[Run, str]()
    try:
        for run in runs if team.leads else ():
            run.open()
        for run in runs:
            if run.recipe.teachers.weight:
                _soften(run, team, watch)
        for group in groups:
            ended, messages = _train_group(group, team, watch)
            results += ended
            diverged |= messages
    finally:
        for run in runs:
            run.close()
    if diverged:
        raise Diverged(next(iter(diverged.values())), list(diverged), results)
    return results


def train_and_report(
    runs: Sequence[Run], team: Team, out: Path, resume: bool = False, watch: Watch | None = None
) -> dict[str, Any]:
    """Train the runs of one recipe; their `report`, or before `Diverged` that of the other runs."""
    try:
        return report(train(runs, team, resume, watch), team, out)
    except Diverged as error:
        if not error.results:
            raise
        report(error.results, team, out)
        message = f"{error}; {out / RESULT} has the other seeds"
        raise Diverged(message, error.runs, error.results) from None


def _soften(run: Run, team: Team, watch: Watch | None) -> None:
    """Mix the outputs of teachers into the labels of a run, and train the teachers if need be."""
    split, learner = run.recipe.data.train, run.learner
    task = run.tasks[split]
    assert isinstance(task, EdgeDetection)
    assert learner is not None
    if not task.soft:  # which runs of one recipe share
        labels = soft_labels(run, task.images, team, partial(train, resume=True, watch=watch))
        if labels is None:
            return
        digest = labels.facts["sha256"]
        if run.teachers.get("sha256", digest) != digest:  # on resume, if they were trained again
            log.warning("the outputs of the teachers differ from those that the run began with")
        run.teachers |= labels.facts
        run.tasks[split] = task = task.softened(labels.maps, run.recipe.teachers.weight)
    learner.task = task


def _train_group(
    group: Sequence[Run], team: Team, watch: Watch | None
) -> tuple[list[Result], dict[Run, str]]:
    """Train runs side by side: their results, and what to say of those that diverged."""
    pairs = [(run, run.learner) for run in group if run.learner is not None]
    for run, learner in pairs:
        _set_precision(run.recipe, team)
        if team.device.type == "cuda" and team.size == 1 and run.epochs_left:
            learner.capture()
        if run.history and watch is not None:
            watch(run, run.history[-1])
    diverged = dict[Run, str]()
    while going := [(run, learner) for run, learner in pairs if run.epochs_left]:
        began, fractions = time.monotonic(), {}
        for run, learner in going:
            errors = [row["val_error"] for row in run.history] if run.recipe.data.val else []
            epoch, epochs = len(run.history), run.recipe.training.epochs
            fractions[run] = rates(run.recipe.schedule, epoch, epochs, learner.steps, errors)
            learner.begin_epoch(epoch, fractions[run])
        for step in range(max(learner.steps for _, learner in going)):
            for _, learner in going:
                if step < learner.steps:
                    learner.step()
        for run, learner in going:
            if message := _end_epoch(run, learner, fractions[run][0], began):
                diverged[run] = message
                pairs.remove((run, learner))
            elif watch is not None:
                watch(run, run.history[-1])
    results = [
        Result(run, learner.evaluated.eval(), run.history, run.seconds) for run, learner in pairs
    ]
    return results, diverged


def _end_epoch(run: Run, learner: Learner, fraction: float, began: float) -> str:
    """Validate, and write down what an epoch came to; the message if the run diverged."""
    recipe, epoch, losses = run.recipe, len(run.history) + 1, learner.end_epoch()
    for step, loss in enumerate(losses, start=1):
        if not math.isfinite(loss):  # the last checkpoint is from before it
            state = f"; {checkpoint.last_good(run.folder)}" if run.folder else ""
            return (
                f"the loss became {loss} in epoch {epoch}, step {step} of {len(losses)} "
                f"({label(run)}): try a lower optimiser.rate than {recipe.optimiser.rate:g}, or "
                f"a schedule.warmup{state}"
            )
    row: Row = {
        "epoch": epoch,
        "rate": fraction * recipe.optimiser.rate,
        "loss": sum(losses) / len(losses),
        # In memory it is 0: a run may be resumed the other way, with the same columns.
        "seconds_waiting": round(learner.waited, 3),
    }
    spent = time.monotonic() - began
    if epoch == recipe.training.epochs and recipe.training.statistics == "recomputed":
        learner.recompute_statistics()
    if recipe.data.val:
        errors = run.tasks[recipe.data.val].evaluate(learner.evaluated)
        row |= {"val_error": errors.error, "val_loss": errors.loss}
    row["images_per_second"] = round(len(losses) * recipe.training.batch / spent, 1)
    run.seconds += time.monotonic() - began
    row["seconds"] = round(run.seconds, 3)
    run.history.append(row)
    run.save(learner)
    return ""


def _set_precision(recipe: Recipe, team: Team) -> None:
    deterministic, reduced = recipe.training.deterministic, recipe.training.precision != "float32"
    if deterministic != torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(deterministic)  # imports torch's compiler
    torch.backends.cudnn.deterministic = deterministic
    torch.backends.cudnn.benchmark = team.device.type == "cuda" and not deterministic
    torch.backends.cudnn.benchmark_limit = SEARCHED
    torch.backends.cudnn.allow_tf32 = reduced
    torch.backends.cuda.matmul.allow_tf32 = reduced


def rates(
    schedule: Schedule, epoch: int, epochs: int, steps: int, errors: Sequence[float]
) -> list[float]:
    """The learning rate at every step of an epoch, as fractions of the recipe's.

    A function of the epoch, from 0, and of the validation errors so far, without state of its own:
    a run that is resumed goes on with the rate that it would have had.

    >>> rates(Schedule("step", every=2), epoch=5, epochs=9, steps=3, errors=[])
    [0.01..., 0.01..., 0.01...]
    >>> [round(r, 2) for r in rates(Schedule("cosine"), epoch=1, epochs=2, steps=4, errors=[])]
    [0.5, 0.31, 0.15, 0.04]
    """
    times = [epoch + step / steps for step in range(steps)]
    if schedule.name == "cosine":
        falling = [(1 + math.cos(math.pi * time / epochs)) / 2 for time in times]
        values = [schedule.floor + (1 - schedule.floor) * value for value in falling]
    elif schedule.name == "step":
        values = [schedule.factor ** (epoch // schedule.every)] * steps
    elif schedule.name == "plateau":
        values = [schedule.factor ** falls(errors, schedule.patience)] * steps
    else:
        values = [1.0] * steps
    if schedule.warmup:
        # The step after time t ends at t + 1/steps, so the first one does move.
        grown = [min(1.0, (time + 1 / steps) / schedule.warmup) for time in times]
        values = [value * part for value, part in zip(values, grown, strict=True)]
    return values


def falls(errors: Sequence[float], patience: int) -> int:
    """How often the error has not become lower for ``patience`` epochs.

    >>> falls([5, 4, 4, 4, 3, 3, 3], patience=2)
    2
    """
    best, waited, count = math.inf, 0, 0
    for error in errors:
        waited = 0 if error < best else waited + 1
        best = min(best, error)
        if waited == patience:
            count, waited = count + 1, 0
    return count
