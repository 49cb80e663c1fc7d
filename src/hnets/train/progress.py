"""Watching a training: a line for every run that keeps up with it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hnets.train.loop import Row, Run, Watch

__all__ = ["watching"]

PAUSE = 15.0
"""Seconds between lines where there is no terminal to redraw."""


@contextmanager
def watching(named: Mapping[str, Sequence[Run]], console: Console) -> Iterator[Watch]:
    """Show loss, error, learning rate, pictures a second and the time left of every run.

    Args:
        named: the runs, by what they are called.
        console: where to.
    """
    labels = {id(run): f"{name} seed {run.seed}" for name, runs in named.items() for run in runs}
    epochs = {id(run): run.recipe.training.epochs for runs in named.values() for run in runs}
    if console.is_terminal:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[said]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
        )
        with Progress(*columns, console=console) as progress:
            bars = {
                key: progress.add_task(label, total=epochs[key], said="starting")
                for key, label in labels.items()
            }

            def draw(run: Run, row: Row) -> None:
                said = _said(run, row, wide=console.width >= 100)
                progress.update(bars[id(run)], completed=row["epoch"], said=said)

            yield draw
        return
    last = dict.fromkeys(labels, time.monotonic())

    def write(run: Run, row: Row) -> None:
        ended = row["epoch"] == epochs[id(run)]
        if ended or time.monotonic() - last[id(run)] > PAUSE:
            last[id(run)] = time.monotonic()
            line = f"{labels[id(run)]}  {_said(run, row)}  {row['seconds']:.0f} s"
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    yield write


def _said(run: Run, row: Row, wide: bool = True) -> str:
    parts = [f"epoch {row['epoch']:.0f}/{run.recipe.training.epochs}", f"loss {row['loss']:.4f}"]
    if "val_error" in row:
        parts.append(f"val {row['val_error']:.2f} %")
    if wide:
        parts.append(f"rate {row['rate']:.1e}")
    parts.append(f"{row['images_per_second']:,.0f}/s")
    return "  ".join(parts)
