"""``hnets search``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hnets.cli.cmd_train import Changes
from hnets.cli.command_line import Device, app, make_folder, whole
from hnets.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from hnets.train import Run, Watch
    from hnets.train.checkpoint import Row
    from hnets.train.study import Trial

__all__ = ["search"]

SIDE_BY_SIDE = 8
"""Trials at once on a GPU."""
SHOWN = 5
LINES = 20


class Sampler(StrEnum):
    """How values are drawn."""

    random = "random"
    tpe = "tpe"


@app.command()
def search(
    recipe: Annotated[
        str, typer.Argument(help="A .toml file with a search.space, or the name of a recipe.")
    ],
    trials: Annotated[
        int | None,
        typer.Option(
            parser=whole(1, 10**6),
            metavar="N",
            help="In all; the recipe's search.trials by default.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; runs/search-RECIPE by default.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="A database that machines share; a file by default."),
    ] = None,
    study: Annotated[
        str | None, typer.Option(metavar="NAME", help="In the storage; RECIPE by default.")
    ] = None,
    changes: Changes = None,
    sampler: Annotated[
        Sampler, typer.Option(help="At random as in the paper, or learning from earlier trials.")
    ] = Sampler.random,
    seeds: Annotated[
        int,
        typer.Option(parser=whole(1, 1000), metavar="N", help="To train the best trial with."),
    ] = 5,
    seed: Annotated[
        int, typer.Option(parser=whole(0, 10**9 - 1), metavar="S", help="Of the random values.")
    ] = 0,
    parallel: Annotated[
        int | None,
        typer.Option(
            parser=whole(1, 1000), metavar="K", help=f"Trials at once; {SIDE_BY_SIDE} on a GPU."
        ),
    ] = None,
    device: Device = None,
) -> None:
    """Find hyperparameters by the paper's protocol, and report the test error of the best.

    Tries random values from the recipe's search.space, each trained on the training set;
    trains the one with the lowest validation error again, with several seeds, on training
    and validation set together; and only then looks at the test set.

    Writes to the folder: search.json with all trials, best.toml for hnets train,
    result.json with the errors, and the weights of each seed.

    If it was stopped or killed, run the same command again: what has ended is kept.

    On several machines or GPUs, run the same command on each with the same --storage, such
    as postgresql://user:password@host/name, and the same --study; the one that ends the
    last trial goes on to the test set.
    """
    from rich.console import Console

    from hnets import train as engine
    from hnets.train import search as protocol

    console, name = Console(), Path(recipe).stem
    chosen = engine.read_recipe(recipe, changes)
    protocol.check_search(chosen)
    folder, count = out or Path("runs") / f"search-{name}", trials or chosen.search.trials
    with engine.joined(device) as team:
        at_once = _at_once(parallel, team.device.type)
        make_folder(folder)
        shared = protocol.open_study(chosen, study or name, folder, storage, sampler.value, seed)
        with shared, _watching(console, count) as (show, watch):

            def told(found: Sequence[Trial]) -> None:
                protocol.write_search(chosen, shared, found, folder)
                show(found)

            show(shared.trials())
            try:
                found = protocol.run_trials(chosen, shared, count, team, at_once, told, watch)
            except KeyboardInterrupt:
                _say(console, "what has ended is kept: run the same command again to go on")
                raise
            show(found)
        if running := [one for one in found if one.state == "running"]:
            where = ", ".join(sorted({one.host for one in running}))
            _say(
                console,
                f"{len(running)} of {count} trials still run on {where}: the process that ends the "
                "last one goes on to the test set; if it was killed, run this again in 5 minutes",
            )
            return
        protocol.write_search(chosen, shared, found, folder)
        best = protocol.best_of(found)
        final = protocol.best_recipe(chosen, best)
        runs = engine.seeds_of(final, seeds, folder / f"trial-{best.number}", name)
        with engine.watching(runs, console) as watch:
            # What an earlier call has trained of it is not trained again.
            results = engine.train(runs, team, True, watch)
        result = engine.report(results, team, folder)
    console.print(_table(protocol.ranked(found)[:SHOWN]))
    for split, errors in result["summary"].items():
        mean = engine.mean_and_spread(errors)
        _say(console, f"{split:>10} error  {mean} %  (seeds: {errors['n']})")
    _say(console, f"wrote search.json, best.toml and result.json to {folder}")


def _at_once(wanted: int | None, device: str) -> int:
    if device == "cuda":
        return wanted or SIDE_BY_SIDE
    if wanted not in (None, 1):
        raise InputError(
            f"--parallel: trials train side by side on a GPU only, got {wanted} on {device}; to "
            "use more cores, run the same command several times at once"
        )
    return 1


@contextmanager
def _watching(
    console: Console, count: int
) -> Iterator[tuple[Callable[[Sequence[Trial]], None], Watch]]:
    """One line on a terminal that keeps up with the search; elsewhere a line for each trial."""
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    if not console.is_terminal:
        seen = set[int]()

        def write(found: Sequence[Trial]) -> None:
            new = [one for one in found if one.state != "running" and one.number not in seen]
            for one in new[-LINES:]:  # an earlier call may have left many
                _say(console, f"trial {one.number}  {_outcome(one)}")
            if new:
                _say(console, f"{_ended(found)}/{count} trials  {_best(found)}")
            seen.update(one.number for one in new)

        yield write, lambda run, row: None
        return
    columns = (
        TextColumn("trials {task.completed:.0f}/{task.total:.0f}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[epoch]}"),
        TextColumn("{task.fields[best]}", markup=False, table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("", total=count, best=_best([]), epoch="")

        def draw(found: Sequence[Trial]) -> None:
            progress.update(bar, completed=_ended(found), best=_best(found), epoch="")

        def follow(run: Run, row: Row) -> None:
            epochs = run.recipe.training.epochs
            progress.update(bar, epoch=f"epoch {row['epoch']:.0f}/{epochs}")

        yield draw, follow


def _ended(trials: Sequence[Trial]) -> int:
    return sum(one.state in ("done", "diverged") for one in trials)


def _best(trials: Sequence[Trial]) -> str:
    from hnets.train.search import ranked

    best = ranked(trials)[:1]
    return f"best {best[0].val_error:.2f} %: {_values(best[0])}" if best else "no best yet"


def _outcome(trial: Trial) -> str:
    said = trial.state if trial.val_error is None else f"val {trial.val_error:.2f} %"
    return f"{said}  {_values(trial)}"


def _values(trial: Trial) -> str:
    return "  ".join(f"{key} = {_short(value)}" for key, value in trial.values.items())


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _table(trials: Sequence[Trial]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="the best on validation")
    for key in ("trial", "val error %", "val loss", *trials[0].values):
        table.add_column(escape(key.replace(".", ".\n")), justify="right")
    for one in trials:
        values = map(_short, one.values.values())
        table.add_row(
            str(one.number), f"{one.val_error:.2f}", f"{one.val_loss:.4f}", *map(escape, values)
        )
    return table


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)
