"""A run: a recipe with a seed and a folder. How it is begun, prepared, resumed and saved."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import logging
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import torch
from torch import nn

from hnets import data
from hnets.data import Dataset, EdgeSet, SegmentationSet, Streamed
from hnets.devices import memory
from hnets.errors import InputError, Unwritable
from hnets.files import replacing
from hnets.models import create_model
from hnets.models._registry import weights_of
from hnets.models._weights import ModelConfig, fine_tune
from hnets.train import checkpoint
from hnets.train.checkpoint import CheckpointError, Row, Start
from hnets.train.distributed import ALONE, Team
from hnets.train.progress import Log
from hnets.train.recipe import Data, Recipe, expect, first_difference, read_recipe, teacher_recipe
from hnets.train.step import Learner
from hnets.train.task import EdgeDetection, Segmentation, Task, edge_network, look_up, task_of

_locks = set[IO[str]]()
if sys.platform != "win32":
    import fcntl

    # A process that decodes images may outlive a training that is killed, for seconds.
    os.register_at_fork(after_in_child=lambda: [lock.close() for lock in _locks])

log = logging.getLogger(__name__)

RUNS, RESULT = Path("runs"), "result.json"
FILE = "run.json"
"""In the folder of the seeds of a recipe: what `hnets train --resume` needs to go on."""
FREE = (
    "title", "data.test", "data.transfer", "data.stream", "data.workers", "training.save_every",
    "evaluation.views", "search",
)  # fmt: skip
"""Keys of a recipe that may change while it trains, as they do not change the weights."""
PLACEHOLDER = "your-folder"
"""The data of recipes for a folder of the user's own."""

Examples = Dataset | EdgeSet | SegmentationSet | Streamed
Loaded = dict[tuple[Data, str], tuple[Examples, Examples]]
"""Splits as they were loaded, and on the device."""


class InUse(InputError):
    """Another process trains in the folder of a run."""


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Say in one line which file of a run could not be written, and how to go on."""
    try:
        yield
    except OSError as error:
        raise Unwritable(
            f"{error.filename or folder} could not be written ({error.strerror or error}); "
            f"{checkpoint.last_good(folder)}: make room, then go on with --resume"
        ) from None


@dataclass(eq=False)
class Run:
    """A recipe with a seed, and the folder that it writes to; None to write nothing.

    `prepare` loads its data and builds its network; `hnets.train.train` trains it.
    """

    recipe: Recipe
    seed: int
    folder: Path | None = None
    name: str = ""
    """Of the recipe, for people."""
    start: Start | None = None
    """Trained weights to begin with; None for random ones."""
    history: list[Row] = field(default_factory=list, init=False, repr=False)
    """One row per epoch that has ended."""
    seconds: float = field(default=0.0, init=False)
    """Time spent on them."""
    data: dict[str, Examples] = field(default_factory=dict, init=False, repr=False)
    tasks: dict[str, Task] = field(default_factory=dict, init=False, repr=False)
    """By split: what is learned from it, on the device."""
    teachers: dict[str, Any] = field(default_factory=dict, init=False, repr=False)
    """What is known of the networks that softened its labels, if any did."""
    learner: Learner | None = field(default=None, init=False, repr=False)
    """The network while it learns; None before `prepare` and after the last epoch."""
    _log: Log | None = field(default=None, init=False, repr=False)
    _lock: IO[str] | None = field(default=None, init=False, repr=False)
    _saved: float = field(default=0.0, init=False, repr=False)

    @property
    def epochs_left(self) -> int:
        """How many epochs there are still to train."""
        return self.recipe.training.epochs - len(self.history)

    def open(self) -> None:
        """Begin to write to the folder, which no other training may do until `close`."""
        if self.folder is None or self._log is not None:
            return
        self._saved = time.monotonic()
        with writing(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / ".lock").open("w")
            _locks.add(self._lock)
            if sys.platform != "win32":
                try:  # the system releases it when the process ends, however it ends
                    fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    self.close()
                    raise InUse(
                        f"{self.folder} is in use by another training: wait for its end, or name "
                        "another folder with --out"
                    ) from None
                except OSError:
                    pass  # a file system without locks
                else:
                    for part in self.folder.glob(".hnets-*.part"):  # of a process that was killed
                        shutil.rmtree(part, ignore_errors=True)
            self._log = Log(self.folder, self.history)

    def close(self) -> None:
        """Let others write to the folder, and let go of the network that learned."""
        if self._lock is not None:
            _locks.discard(self._lock)
            self._lock.close()
        if self.learner is not None:
            self.learner.close()
        self.learner = self._lock = self._log = None

    def save(self, learner: Learner) -> None:
        """Write the last epoch to the log and, if one is due, a checkpoint before it."""
        if self._log is None or self.folder is None:
            return
        with writing(self.folder):
            due = time.monotonic() - self._saved >= self.recipe.training.save_every
            if due or not self.epochs_left:
                facts = (self.recipe, self.seed, self.history, self.seconds, learner.state())
                state = checkpoint.Checkpoint(*facts, self.start, self.teachers)
                checkpoint.save(state, self.folder)
                self._saved = time.monotonic()
            self._log.add(self.history[-1])

    def restore(self, learner: Learner) -> None:
        """Go on from the folder's checkpoint, if it has one: a kill may come before the first."""
        if self.folder is None or not checkpoint.exists(self.folder):
            return
        saved = checkpoint.load(self.folder)
        if difference := first_difference(saved.recipe.to_dict(), self.recipe.to_dict(), FREE):
            raise CheckpointError(
                f"the checkpoint in {self.folder} was made with {difference}, or name another "
                "folder with --out"
            )
        if saved.start != self.start:
            before, now = (
                f"--from {each.source}" if each else "random weights"
                for each in (saved.start, self.start)
            )
            if before == now:
                now = "another file of that name"
            raise CheckpointError(
                f"the checkpoint in {self.folder} began with {before}, got {now}: change it back, "
                "or name another folder with --out"
            )
        if saved.teachers:
            teachers = teacher_recipe(self.recipe).to_dict()
            if difference := first_difference(saved.teachers["recipe"], teachers, FREE):
                raise CheckpointError(
                    f"the teachers of the checkpoint in {self.folder} had {difference}, or name "
                    "another folder with --out"
                )
            self.teachers |= saved.teachers
        if saved.seed != self.seed:
            raise CheckpointError(
                f"the checkpoint in {self.folder} has seed {saved.seed}, expected {self.seed}"
            )
        try:
            learner.load_state(saved.state)
        except (KeyError, RuntimeError):
            raise CheckpointError(
                f"the weights in {self.folder / checkpoint.FILE} do not fit the model "
                f"{self.recipe.model.name}; name another folder with --out"
            ) from None
        self.history, self.seconds = saved.history, saved.seconds


Watch = Callable[[Run, Row], None]
"""Called after every epoch of every run, and with the last epoch of a run that is resumed."""


def seeds_of(
    recipe: Recipe,
    count: int,
    out: Path | None = None,
    name: str = "",
    start: Start | None = None,
) -> list[Run]:
    """A run for each of ``count`` seeds, from the recipe's own upwards, in folders of ``out``."""
    first = recipe.training.seed
    return [
        Run(recipe, seed, out / f"seed-{seed}" if out is not None else None, name, start)
        for seed in range(first, first + count)
    ]


def begin(
    recipe: str | None,
    changes: list[str],
    seeds: int,
    out: Path | None,
    resume: bool,
    source: str | None = None,
) -> tuple[list[Run], Path]:
    """The runs of `hnets train`, one per seed, and the folder that holds theirs.

    Without a recipe they are those of the folder, by default the newest in ``runs``. With one, the
    folder may hold a training already only if it is to be resumed. ``source`` is that of weights to
    begin with, as `hnets.load` takes it.
    """
    start = None
    if source is not None:
        path = weights_of(source).path
        start = Start(source, hashlib.sha256(path.read_bytes()).hexdigest())
    if recipe is None:
        if changes or seeds > 1:
            option = "--set" if changes else "--seeds"
            raise InputError(
                f"{option} is for a recipe: give that too, hnets train RECIPE --resume"
            )
        folder = out or _newest(RUNS)
        runs = _read(folder)
        for run in runs:
            run.start = start or run.start
        return runs, folder
    name = Path(recipe).stem
    folder = out or RUNS / name
    runs = seeds_of(read_recipe(recipe, changes), seeds, folder, name, start)
    begun = any(run.folder and checkpoint.exists(run.folder) for run in runs)
    if not resume and (begun or (folder / RESULT).exists()):
        raise InputError(
            f"{folder} already holds a run of {name}: add --resume to go on with it, or name "
            "another folder with --out"
        )
    return runs, folder


def remember(runs: Sequence[Run], folder: Path) -> None:
    """Take a folder for runs, and write down what `begin` needs to find them again."""
    first = runs[0]
    values = {"name": first.name, "recipe": first.recipe.to_dict(), "seeds": len(runs)}
    values["start"] = first.start
    try:
        for run in runs:
            run.open()
        with writing(folder), replacing(folder / FILE) as part:
            part.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    except InputError:
        for run in runs:
            run.close()
        raise


def _read(folder: Path) -> list[Run]:
    try:
        values = json.loads((folder / FILE).read_text(encoding="utf-8"))
        recipe = Recipe.from_dict(values["recipe"])
        start = Start(*values["start"]) if values.get("start") else None
        if not 0 < (seeds := int(values["seeds"])) <= 1000:
            raise ValueError(f"expected 1 to 1000 seeds, got {seeds}")
        return seeds_of(recipe, seeds, folder, str(values["name"]), start)
    except FileNotFoundError:
        raise InputError(
            f"{folder} holds no run to go on with: name its folder with --out, or give a recipe"
        ) from None
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{folder / FILE} is damaged ({error}); give the recipe too: hnets train RECIPE "
            "--resume"
        ) from None


def _newest(folder: Path) -> Path:
    """The folder of runs that was written to last."""
    folders = [path.parent for path in folder.glob(f"*/{FILE}")]
    if not folders:
        raise InputError(
            f"there is no run in {folder}{os.sep} to go on with: name its folder with --out, or "
            "give a recipe"
        )
    # A checkpoint changes the time of its folder; files may vanish while others train.
    return max(folders, key=lambda one: max(p.stat().st_mtime for p in (one, *one.glob("seed-*"))))


def prepare(
    runs: Sequence[Run],
    team: Team,
    resume: bool = False,
    loaded: Loaded | None = None,
    say: Callable[[str], None] = log.info,
) -> None:
    """Load the data of runs and build their networks; whatever does not fit is an `InputError`.

    Runs share what they have in common, with one another and with what is ``loaded`` already. To
    resume is to go on from the checkpoints in the folders. ``say`` takes a line on every split that
    is streamed, and on trained weights that a run begins with. Labels are softened by teachers only
    when the training begins.
    """
    loaded = {} if loaded is None else loaded
    prepared = dict[int, Run]()
    for run in runs:
        recipe = run.recipe
        first = prepared.setdefault(id(recipe), run)
        if first is run:
            if recipe.data.name == PLACEHOLDER and not Path(PLACEHOLDER).is_dir():
                raise InputError(
                    f"{run.name or 'the recipe'} is for a folder of your own, with a sub-folder of "
                    "images for each class, or with images and masks: name it with --set "
                    "data.name=FOLDER"
                )
            for name, (source, split) in _wanted(recipe.data).items():
                if (source, split) not in loaded:
                    dataset = load(source, split, team, say)
                    loaded[source, split] = dataset, dataset.to(team.device)
                run.data[name], on_device = loaded[source, split]
                if name == recipe.data.transfer:
                    _check_transfer(run)
                run.tasks[name] = task_of(recipe, on_device, team)
            if recipe.training.dice and not isinstance(run.tasks[recipe.data.train], Segmentation):
                raise InputError("training.dice: it is for sets of marked pixels; leave it out")
        run.data, run.tasks, run.teachers = first.data, first.tasks, first.teachers
        task, batch = run.tasks[recipe.data.train], recipe.training.batch
        most = f"at most the {len(task)} images of {recipe.data.name} {recipe.data.train}"
        if batch > len(task):
            raise InputError(
                f"training.batch: expected {most}, got {batch}; lower it with "
                f"--set training.batch={len(task)}"
            )
        if first is run and recipe.teachers.weight:
            _check_teachers(recipe, task)
        model = build(recipe, run.seed, task)
        resumed = resume and run.folder is not None and checkpoint.exists(run.folder)
        if run.start is not None and not resumed:
            line = _begin_with(model, run.start)
            if first is run:
                say(line)
        learner = Learner(model, task, recipe, run.seed, team)
        if first is run:
            _try(learner, task, recipe)
        run.history, run.seconds = [], 0.0
        if resume:
            if team.leads:
                run.restore(learner)
            facts: list[Any] = [run.history, run.seconds]
            team.follow(facts, learner.state().values())
            run.history, run.seconds = facts
        run.learner = learner


def _wanted(recipe: Data) -> dict[str, tuple[Data, str]]:
    """The splits that a run needs, by the names under which their errors are reported."""
    wanted = {split: (recipe, split) for split in (recipe.train, recipe.val, recipe.test) if split}
    if recipe.transfer:
        wanted[recipe.transfer] = dataclasses.replace(recipe, name=recipe.transfer), "test"
    return wanted


def _check_transfer(run: Run) -> None:
    """Refuse a set to transfer to that a network of the first cannot be evaluated on."""
    recipe = run.recipe.data
    met = _subject(run.data[recipe.train]) == _subject(run.data[recipe.transfer])
    wanted = f"a set with the channels, labels and classes of {recipe.name}"
    expect(met, "data.transfer", wanted, recipe.transfer)


def _subject(examples: Examples) -> tuple[object, ...]:
    """What a network learns from a set: the kind of labels, channels, and names of classes."""
    if isinstance(examples, EdgeSet):
        return (EdgeSet,)
    if isinstance(examples, SegmentationSet):
        return SegmentationSet, examples.images.shape[1]
    shape = examples.shape if isinstance(examples, Streamed) else examples.images.shape
    return Dataset, shape[1], examples.classes


def _check_teachers(recipe: Recipe, task: Task) -> None:
    """Refuse teachers that could not learn from their parts of the images."""
    teacher, folds, count = teacher_recipe(recipe), recipe.teachers.folds, len(task)
    expect(folds <= count, "teachers.folds", f"at most the {count} images of the set", folds)
    left, batch = count - math.ceil(count / folds), teacher.training.batch
    wanted = f"at most the {left} images that a teacher sees"
    expect(batch <= left, "training.batch of the teachers", wanted, batch)
    build(teacher, teacher.training.seed, task)


def load(
    recipe: Data, split: str, team: Team = ALONE, say: Callable[[str], None] = log.info
) -> Examples:
    """A split of a recipe's data; of the training split, the images that the recipe says."""
    size, channels = recipe.size or None, recipe.channels or None
    dataset: Examples | None = None
    stream = recipe.stream if recipe.stream != "auto" else data.is_streamable(recipe.name)
    if stream and not recipe.fold:  # what is streamed has no folds, as `data.load` says
        streamed = data.stream(recipe.name, split, size=size, channels=channels)
        if why := "data.stream is true" if recipe.stream is True else _too_large(streamed, team):
            say(f"{recipe.name} {split}: {len(streamed):,} images are streamed, as {why}")
            dataset = _check(dataclasses.replace(streamed, workers=recipe.workers), team)
    if dataset is None:
        dataset = data.load(recipe.name, split, size=size, channels=channels, fold=recipe.fold)
    if split == recipe.train and recipe.share < 1:
        if not isinstance(dataset, Dataset | Streamed):
            raise InputError(f"data.share: {recipe.name} has no classes; use data.limit instead")
        dataset = dataset.subset(data.stratified(dataset.labels, recipe.share))
    if split == recipe.train and recipe.limit:
        most = f"at most the {len(dataset)} images of {recipe.name} {split}"
        expect(recipe.limit <= len(dataset), "data.limit", most, recipe.limit)
        dataset = dataset.subset(recipe.limit)
    if split == recipe.train and recipe.hold_out:
        part, parts = recipe.hold_out
        most = f"a part of the {len(dataset)} images of {recipe.name} {split}"
        expect(part < len(dataset), "data.hold_out", most, list(recipe.hold_out))
        dataset = dataset.subset(torch.arange(len(dataset)) % parts != part)
    return dataset


def _too_large(images: Streamed, team: Team) -> str:
    """Why images are not held in memory, or nothing if they are."""
    needed = 4 * math.prod(images.shape)
    for device, share in ((torch.device("cpu"), team.local), (team.device, 1)):
        has = memory(device) // share
        if needed > has / 4:
            size, place = f"{needed / 1e9:.1f} GB", f"{has / 1e9:.1f} GB of {device}"
            return f"they would take {size}, over a quarter of the {place}"
    return ""


def _check(images: Streamed, team: Team) -> Streamed:
    """The images that can be read; each process looks at its share of them."""
    sums = images.check(team.share(len(images))).to(team.device)
    team.add([sums])
    return images.checked(sums.cpu(), warn=team.leads)


def build(recipe: Recipe, seed: int, task: Task) -> nn.Module:
    """The recipe's network for these examples, with the random weights of a seed."""
    torch.manual_seed(seed)
    for key, value in recipe.model.options.items():
        needed = task.options.get(key, value)
        expect(value == needed, f"model.options.{key}", f"{needed}, as the data say", value)
    try:
        model = create_model(recipe.model.name, **{**task.options, **recipe.model.options})
    except InputError as error:
        raise InputError(f"[model] for {recipe.data.name}: {error}") from None
    if isinstance(task, EdgeDetection):
        edge_network(model)
    return model


def _begin_with(model: nn.Module, start: Start) -> str:
    """Give a network trained weights, and say in a line which it took."""
    weights = weights_of(start.source)
    if hashlib.sha256(weights.path.read_bytes()).hexdigest() != start.sha256:
        raise InputError(f"{weights.path} has changed since the run began; start a new one")
    anew = fine_tune(model, weights)
    config = model.config
    assert isinstance(config, ModelConfig)
    before, after = weights.config.options, config.options
    changed = [
        f"its {key} was {before[key]} and is {after[key]} here"
        for key in sorted(before.keys() & after.keys() - {"num_classes"})
        if before[key] != after[key]  # though the shapes are the same
    ]
    source = f"{start.source} ({', '.join(changed)})" if changed else start.source
    if not anew:
        return f"begins with all weights of {source}"
    classes = before["num_classes"]
    return (
        f"begins with the weights of {source}, but for those of "
        f"{f'its {classes} classes' if classes else 'the last layer, which it lacks'}, "
        f"which start anew: {', '.join(anew)}"
    )


@torch.no_grad()
def _try(learner: Learner, task: Task, recipe: Recipe) -> None:
    """Show a copy of a network the first images, two at most, as it will see them in training."""
    count = torch.arange(min(2, recipe.training.batch))
    images = next(look_up(task.images, [count], task.labels.device))
    try:
        with learner.autocast():
            output = copy.deepcopy(learner.model).train()(images)
    except (RuntimeError, ValueError) as error:
        shape = "×".join(map(str, images.shape[1:]))
        raise InputError(
            f"[model] {recipe.model.name} cannot learn from batches of {recipe.training.batch} "
            f"with images of {shape}: {str(error).splitlines()[0]}"
        ) from None
    pixels = isinstance(task, Segmentation)
    sides = images.shape[2:] if pixels else ()
    if not isinstance(task, EdgeDetection) and output.shape[2:] != sides:
        what = "pixel, such as hunet" if pixels else "image, such as hresnet18"
        labels = "marked pixels" if pixels else "classes, and no folders images and masks"
        raise InputError(
            f"[model] expected a network with an output per {what}, for {recipe.data.name}, which "
            f"has {labels}, got {recipe.model.name}"
        )
