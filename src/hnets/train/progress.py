"""Following a training: a progress line per run, and the log of its epochs."""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from hnets.train.checkpoint import Row
    from hnets.train.run import Run, Watch

PAUSE = 15.0
"""Seconds between lines where there is no terminal to redraw."""


@contextmanager
def watching(runs: Sequence[Run], console: Console, cuda: bool = False) -> Iterator[Watch]:
    """Show loss, error, learning rate, images per second and the time left of every run.

    Runs that begin later, such as those of teachers, are added then. Before the first epoch a GPU
    compiles kernels and looks for fast ones, which is shown as well.
    """
    state = "preparing kernels" if cuda else "starting"
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[state]}", markup=False),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        )
        with Progress(*columns, console=console) as progress:

            def add(run: Run) -> TaskID:
                return progress.add_task(label(run), total=run.recipe.training.epochs, state=state)

            bars = {run: add(run) for run in runs}

            def draw(run: Run, row: Row) -> None:
                if run not in bars:
                    bars[run] = add(run)
                state = _describe(run, row, wide=console.width >= 100)
                progress.update(bars[run], completed=row["epoch"], state=state)

            yield draw
        return
    if cuda:
        console.print(state)
    began = time.monotonic()
    last: dict[Run, float] = {}

    def write(run: Run, row: Row) -> None:
        ended = row["epoch"] == run.recipe.training.epochs
        if ended or time.monotonic() - last.get(run, began) > PAUSE:
            last[run] = time.monotonic()
            line = f"{label(run)}  {_describe(run, row)}  {row['seconds']:.0f} s"
            console.print(line, markup=False, emoji=False, highlight=False, soft_wrap=True)

    yield write


def label(run: Run) -> str:
    """What people call a run."""
    return f"{run.name} seed {run.seed}".lstrip()


def _describe(run: Run, row: Row, wide: bool = True) -> str:
    parts = [f"epoch {row['epoch']:.0f}/{run.recipe.training.epochs}", f"loss {row['loss']:.4f}"]
    if "val_error" in row:
        parts.append(f"val {row['val_error']:.2f} %")
    if wide:
        parts.append(f"rate {row['rate']:.1e}")
    parts.append(f"{row['images_per_second']:,.0f}/s")
    return "  ".join(parts)


class Log:
    """The epochs of one run as ``log.csv`` and, where tensorboard is installed, as its events.

    Both are written anew at the start: epochs after a killed run's checkpoint are dropped. Rows are
    written at once and without a thread of tensorboard's, so that a full disk is an error here.
    """

    def __init__(self, folder: Path, history: Sequence[Row]) -> None:
        self._csv, events = folder / "log.csv", folder / "events"
        self._events = events / f"events.out.tfevents.{int(time.time())}.{os.getpid()}"
        for old in (self._csv, *events.glob("events.out.tfevents.*")):
            old.unlink(missing_ok=True)
        for row in history:
            self.add(row)

    def add(self, row: Row) -> None:
        """Write one epoch."""
        first = not self._csv.exists()
        with self._csv.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            if first:
                writer.writeheader()
            writer.writerow(row)
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.record_writer import RecordWriter
        except ImportError:
            return
        values = [
            Summary.Value(tag=name, simple_value=value)
            for name, value in row.items()
            if name != "epoch"
        ]
        event = Event(wall_time=time.time(), step=int(row["epoch"]), summary=Summary(value=values))
        events = [event] if not first else [Event(file_version="brain.Event:2"), event]
        self._events.parent.mkdir(exist_ok=True)
        with self._events.open("ab") as stream:
            for one in events:
                RecordWriter(stream).write(one.SerializeToString())
