"""Following a training: a progress line per run, and the log of its epochs."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from hnets.train.checkpoint import Row
    from hnets.train.run import Run, Watch

__all__ = ["Log", "watching"]

PAUSE = 15.0
"""Seconds between lines where there is no terminal to redraw."""


@contextmanager
def watching(runs: Sequence[Run], console: Console) -> Iterator[Watch]:
    """Show loss, error, learning rate, images per second and the time left of every run."""
    labels = {run: f"{run.name} seed {run.seed}" for run in runs}
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[state]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        )
        with Progress(*columns, console=console) as progress:
            bars = {
                run: progress.add_task(label, total=run.recipe.training.epochs, state="starting")
                for run, label in labels.items()
            }

            def draw(run: Run, row: Row) -> None:
                state = _describe(run, row, wide=console.width >= 100)
                progress.update(bars[run], completed=row["epoch"], state=state)

            yield draw
        return
    last = dict.fromkeys(labels, time.monotonic())

    def write(run: Run, row: Row) -> None:
        ended = row["epoch"] == run.recipe.training.epochs
        if ended or time.monotonic() - last[run] > PAUSE:
            last[run] = time.monotonic()
            line = f"{labels[run]}  {_describe(run, row)}  {row['seconds']:.0f} s"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    yield write


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

    Epochs that an interrupted run logged after its last checkpoint are removed.
    """

    def __init__(self, folder: Path, history: Sequence[Mapping[str, float]]) -> None:
        self._path, self._empty = folder / "log.csv", True
        self._events: Any = None
        folder.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        for row in history:
            self._append(row)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._events = SummaryWriter(folder / "events", purge_step=len(history) + 1)

    def add(self, row: Mapping[str, float]) -> None:
        """Write one epoch."""
        self._append(row)
        if self._events is not None:
            for name, value in row.items():
                if name != "epoch":
                    self._events.add_scalar(name, value, int(row["epoch"]))

    def close(self) -> None:
        """Finish the events."""
        if self._events is not None:
            self._events.close()

    def _append(self, row: Mapping[str, float]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            if self._empty:
                writer.writeheader()
                self._empty = False
            writer.writerow(row)
