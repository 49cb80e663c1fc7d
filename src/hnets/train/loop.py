"""The loop: epochs of steps, a look at the validation set, a checkpoint.

Several runs go through it side by side on one GPU, each with a CUDA graph and a stream of its own;
elsewhere they go one after the other.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hnets.data import Dataset, EdgeSet
from hnets.errors import InputError
from hnets.models import create_model
from hnets.train import checkpoint, examples
from hnets.train.distributed import Team
from hnets.train.learner import Learner
from hnets.train.recipe import Data, Recipe
from hnets.train.record import Log
from hnets.train.schedule import rates
from hnets.train.statistics import recompute
from hnets.train.strict import expect
from hnets.train.task import Task

__all__ = ["Diverged", "Finished", "Row", "Run", "Unwritable", "Watch", "build", "train"]

Row = dict[str, float]
"""What the log says about one epoch."""


@dataclass(frozen=True)
class Run:
    """A recipe with a seed, and the folder where it leaves its traces; None for no traces."""

    recipe: Recipe
    seed: int
    folder: Path | None = None


@dataclass(frozen=True)
class Finished:
    """A run after its last epoch."""

    run: Run
    model: nn.Module
    history: list[Row]
    seconds: float


class Diverged(InputError):
    """The loss of a run is no number any more; the runs beside it were trained to their end."""

    def __init__(self, message: str, run: Run) -> None:
        super().__init__(message)
        self.runs = [run]
        """Those that diverged."""
        self.finished: list[Finished] = []
        """The others."""


class Unwritable(InputError):
    """The folder of a run cannot be written to."""


Watch = Callable[[Run, Row], None]
"""Called after every epoch of every run, and with what a continued run has behind it."""


def train(
    runs: Sequence[Run], team: Team, resume: bool = False, watch: Watch | None = None
) -> list[Finished]:
    """Train every run to its end; if some diverge, the others first, and then raise `Diverged`.

    Args:
        runs: what to train; each has its own recipe, seed and folder.
        team: the processes that train together, and the device.
        resume: go on from the checkpoints in the folders.
        watch: is told of each epoch.
    """
    load = functools.cache(lambda data, split: examples.load(data, split).to(team.device))
    together = team.device.type == "cuda" and team.size == 1
    groups = [list(runs)] if together else [[run] for run in runs]
    finished, diverged = list[Finished](), list[Diverged]()
    for group in groups:
        training = [_Training(run, team, resume, load, watch) for run in group]
        while any(one.epochs_left for one in training):
            going = [one for one in training if one.epochs_left]
            for one in going:
                one.begin_epoch()
            for step in range(max(one.learner.steps for one in going)):
                for one in going:
                    if step < one.learner.steps:
                        one.learner.step()
            for one in going:
                try:
                    one.end_epoch()
                except Diverged as error:
                    diverged.append(error)
                    training.remove(one)
                    one.finish()
        finished += [one.finish() for one in training]
    if diverged:
        first = diverged[0]
        first.runs, first.finished = [run for one in diverged for run in one.runs], finished
        raise first
    return finished


class _Training:
    """One run on its way."""

    def __init__(
        self,
        run: Run,
        team: Team,
        resume: bool,
        load: Callable[[Data, str], Dataset | EdgeSet],
        watch: Watch | None,
    ) -> None:
        self.run, self.team, self.watch, self.history = run, team, watch, list[Row]()
        recipe = run.recipe
        _prepare(recipe, team)
        task, val = (
            examples.examples(recipe, load(recipe.data, split)) if split else None
            for split in (recipe.data.train, recipe.data.val)
        )
        assert task is not None
        self.val = val
        self.learner = Learner(build(recipe, run.seed, task), task, recipe, run.seed, team)
        self.seconds = 0.0
        if resume and run.folder is not None:
            self._resume(run.folder)
        if team.device.type == "cuda" and team.size == 1 and self.epochs_left:
            self.learner.capture()
        self.log = Log(run.folder, self.history) if run.folder and team.leads else None
        self._saved = self._began = time.monotonic()
        if self.history and watch is not None:
            watch(run, self.history[-1])

    @property
    def epochs_left(self) -> int:
        return self.run.recipe.training.epochs - len(self.history)

    def begin_epoch(self) -> None:
        recipe, epoch = self.run.recipe, len(self.history)
        errors = [row["val_error"] for row in self.history] if self.val is not None else []
        self.rates = rates(
            recipe.schedule, epoch, recipe.training.epochs, self.learner.steps, errors
        )
        self._began = time.monotonic()
        self.learner.begin_epoch(epoch, self.rates)

    def end_epoch(self) -> None:
        epoch, losses = len(self.history) + 1, self.learner.end_epoch()
        self._check(epoch, losses)
        row: Row = {
            "epoch": epoch,
            "rate": self.rates[0] * self.run.recipe.optimiser.rate,
            "loss": sum(losses) / len(losses),
        }
        spent = time.monotonic() - self._began
        last = epoch == self.run.recipe.training.epochs
        if last and self.run.recipe.training.statistics == "recomputed":
            with self.learner.autocast():
                recompute(self.learner.evaluated, self.learner.task.inputs())
        if self.val is not None:
            found = self.val.evaluate(self.learner.evaluated)
            row |= {"val_error": found.error, "val_loss": found.loss}
        row["images_per_second"] = round(len(losses) * self.run.recipe.training.batch / spent, 1)
        self.seconds += time.monotonic() - self._began
        row["seconds"] = round(self.seconds, 3)
        self.history.append(row)
        self._write(row)
        if self.watch is not None:
            self.watch(self.run, row)

    def finish(self) -> Finished:
        if self.log is not None:
            self.log.close()
        return Finished(self.run, self.learner.evaluated.eval(), self.history, self.seconds)

    def _check(self, epoch: int, losses: list[float]) -> None:
        """Stop at the first loss that is no number: the last checkpoint is from before it."""
        for step, loss in enumerate(losses, start=1):
            if not math.isfinite(loss):
                kept = f"; {checkpoint.kept(self.run.folder)}" if self.run.folder else ""
                raise Diverged(
                    f"the loss became {loss} in epoch {epoch}, step {step} of {len(losses)} "
                    f"(seed {self.run.seed}): try a lower optimiser.rate than "
                    f"{self.run.recipe.optimiser.rate:g}, or a schedule.warmup{kept}",
                    self.run,
                )

    def _write(self, row: Row) -> None:
        if self.log is None or self.run.folder is None:
            return
        try:
            due = time.monotonic() - self._saved >= self.run.recipe.training.save_every
            if due or not self.epochs_left:
                recipe, state = self.run.recipe.to_dict(), self.learner.state()
                now = checkpoint.Checkpoint(
                    recipe, self.run.seed, self.history, self.seconds, state
                )
                checkpoint.save(now, self.run.folder)
                self._saved = time.monotonic()
            self.log.add(row)
        except OSError as error:
            kept = checkpoint.kept(self.run.folder)
            raise Unwritable(
                f"epoch {row['epoch']} could not be written to {self.run.folder} "
                f"({error.strerror or error}); {kept}: make room, then go on with --resume"
            ) from None

    def _resume(self, folder: Path) -> None:
        if not checkpoint.exists(folder):
            return  # it was stopped before its first checkpoint
        saved = checkpoint.load(folder)
        _check_same(saved, self.run)
        try:
            self.learner.load_state(saved.state)
        except (KeyError, RuntimeError):
            raise checkpoint.CheckpointError(
                f"the weights in {folder / checkpoint.FILE} do not fit the model "
                f"{self.run.recipe.model.name}; name another folder with --out"
            ) from None
        self.history, self.seconds = saved.history, saved.seconds


def build(recipe: Recipe, seed: int, task: Task) -> nn.Module:
    """The recipe's network for these examples, with the random weights of a seed."""
    torch.manual_seed(seed)
    for key, value in recipe.model.options.items():
        needed = task.options.get(key, value)
        expect(value == needed, f"model.options.{key}", f"{needed}, as the data say", value)
    options: dict[str, Any] = {**task.options, **recipe.model.options}
    try:
        model = create_model(recipe.model.name, **options)
    except TypeError as error:
        raise InputError(
            f"[model] {recipe.model.name} does not fit {recipe.data.name}: {error}"
        ) from None
    except ValueError as error:
        raise InputError(f"[model] {error}") from None
    task.check(model)
    return model


def _prepare(recipe: Recipe, team: Team) -> None:
    training = recipe.training
    if training.deterministic != torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(training.deterministic)  # imports torch's compiler
    torch.backends.cudnn.deterministic = training.deterministic
    torch.backends.cudnn.benchmark = team.device.type == "cuda" and not training.deterministic
    torch.backends.cudnn.allow_tf32 = training.precision != "float32"
    torch.backends.cuda.matmul.allow_tf32 = training.precision != "float32"


def _check_same(saved: checkpoint.Checkpoint, run: Run) -> None:
    """A checkpoint is continued with the recipe that it was begun with, as far as it matters."""
    # Keys that there were not yet when it was begun had their defaults.
    before = _flat(Recipe.from_dict(saved.recipe).to_dict())
    now = _flat(run.recipe.to_dict())
    free = (
        *("title", "data.test", "training.save_every", "evaluation.views"),
        *("search.trials", "search.space"),
    )
    for key in [key for key in before if key not in free]:
        if before[key] != now.get(key):
            raise checkpoint.CheckpointError(
                f"the checkpoint in {run.folder} was made with {key} = {before[key]!r}, and the "
                f"recipe says {now.get(key)!r}: change it back, or name another folder with --out"
            )
    if saved.seed != run.seed:
        raise checkpoint.CheckpointError(
            f"the checkpoint in {run.folder} has seed {saved.seed}, expected {run.seed}"
        )


def _flat(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in values.items():
        if isinstance(value, dict) and key not in ("options", "space"):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat
