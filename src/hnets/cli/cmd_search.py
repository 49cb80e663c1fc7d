"""``hnets search``."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hnets.cli.cmd_train import Changes
from hnets.cli.command_line import Device, app, make_folder, whole
from hnets.errors import InputError

SIDE_BY_SIDE = 8
"""Trials at once on a GPU."""


class Sampler(StrEnum):
    """How values are drawn."""

    random = "random"
    tpe = "tpe"


@app.command()
def search(
    recipe: Annotated[
        str,
        typer.Argument(help="A .toml file with a search.space, or the name of a recipe."),
    ],
    trials: Annotated[
        int | None, whole(1, 10**6, "Trials in all; the recipe's search.trials by default.", "N")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder for the results; runs/search-RECIPE by default."
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE.journal",
            help="A database or journal file that machines share; a file of --out by default.",
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of the search in the storage; RECIPE by default."),
    ] = None,
    changes: Changes = None,
    sampler: Annotated[
        Sampler,
        typer.Option(
            metavar="random|tpe", help="At random as in the paper, or learning from earlier trials."
        ),
    ] = Sampler.random,
    seeds: Annotated[int, whole(1, 1000, "Seeds of the final training.", "N")] = 5,
    seed: Annotated[int, whole(0, 10**9 - 1, "Seed of the sampler.", "S")] = 0,
    parallel: Annotated[
        int | None, whole(1, 1000, f"Trials at once; {SIDE_BY_SIDE} on a GPU.", "K")
    ] = None,
    device: Device = None,
) -> None:
    """Find hyperparameters by the paper's protocol, and report the test error of the best.

    Tries random values from the recipe's search.space, each trained on the
    training set; trains the one with the lowest validation error again, with
    several seeds, on training and validation set together; and only then looks
    at the test set.

    Writes to the folder: search.json with all trials, best.toml for hnets
    train, result.json with the errors, and the weights of each seed.

    If it was stopped or killed, run the same command again: what has ended is
    kept.

    On several machines or GPUs, run the same command on each with the same
    --storage, such as postgresql://user:password@host/name, and the same
    --study; the one that ends the last trial goes on to the test set. Without
    a database, --storage /shared/FILE.journal is a file in a folder that all
    of them see, such as one on NFS, if their clocks agree.
    """
    from rich.console import Console

    from hnets import train as engine
    from hnets.train import search as protocol

    console, name = Console(), Path(recipe).stem
    say = partial(console.print, markup=False, emoji=False, highlight=False, soft_wrap=True)
    chosen = engine.read_recipe(recipe, changes)
    protocol.check_search(chosen)
    folder, count = out or Path("runs") / f"search-{name}", trials or chosen.search.trials
    with engine.joined(device) as team:
        gpu = team.device.type == "cuda"
        at_once = parallel or (SIDE_BY_SIDE if gpu else 1)
        if at_once > 1 and not gpu:
            raise InputError(
                f"--parallel: trials train side by side on a GPU only, got {parallel} on "
                f"{team.device.type}; to use more cores, run the same command several times at once"
            )
        make_folder(folder)
        with (
            protocol.open_study(chosen, study or name, folder, storage) as (shared, database),
            console.status("training") as status,
        ):
            ended = {one.number for one in shared.get_trials(False) if one.state.is_finished()}
            try:
                for begun in protocol.train_trials(
                    chosen, shared, database, count, team, sampler.value, seed, at_once,
                    lambda run, row: status.update(
                        f"epoch {row['epoch']:.0f}/{run.recipe.training.epochs}"
                    ),
                ):  # fmt: skip
                    protocol.write(chosen, shared, begun, folder)
                    for one in begun:
                        if one.state.is_finished() and one.number not in ended:
                            say(f"trial {one.number}  {protocol.outcome(one)}")
                            ended.add(one.number)
            except KeyboardInterrupt:
                say("what has ended is kept: run the same command again to go on")
                raise
            begun = shared.get_trials(False, tuple(protocol.STATES))
            protocol.write(chosen, shared, begun, folder)
        if running := [one for one in begun if not one.state.is_finished()]:
            hosts = ", ".join(sorted({one.user_attrs.get("host", "") for one in running}))
            say(
                f"{len(running)} of {count} trials still run on {hosts}: the process that ends the "
                "last one goes on to the test set; if it was killed, run this again in 2 minutes"
            )
            return
        best = protocol.best_of(begun)
        say(f"the best on validation is trial {best.number}  {protocol.outcome(best)}")
        final = protocol.best_recipe(chosen, best)
        runs = engine.seeds_of(final, seeds, folder / f"trial-{best.number}", name)
        with engine.watching(runs, console) as watch_runs:
            # What an earlier call has trained of it is not trained again.
            report = engine.train_and_report(runs, team, folder, True, watch_runs)
    for line in engine.error_lines(report):
        say(f"{line}  (seeds: {seeds})")
    say(f"wrote search.json, best.toml and result.json to {folder}")
