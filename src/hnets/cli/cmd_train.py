"""``hnets train``."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hnets.cli.command_line import Device, app, make_folder, waiting, whole
from hnets.errors import InputError

SVM = "rotmnist-r-svm"
"""The recipe that records a study's numbers and not a training."""

Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe: training.epochs=10."),
]


@app.command()
def train(
    recipe: Annotated[
        str | None,
        typer.Argument(help="A .toml file, or the name of a built-in recipe."),
    ] = None,
    changes: Changes = None,
    seeds: Annotated[int, whole(1, 1000, "Runs, each with its own seed.", "N")] = 1,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for checkpoints, logs and the result."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last checkpoint in the folder.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WEIGHTS",
            help="Begin with trained weights: a name, a file or the folder of a run.",
        ),
    ] = None,
    device: Device = None,
) -> None:
    """Train a network by a recipe; `hnets train` alone lists the built-in recipes.

    Writes to runs/RECIPE, or the folder of --out: for each seed a checkpoint,
    log.csv, TensorBoard events and the weights; and result.json for all of
    them. On a GPU all seeds train at once. Several GPUs or machines: torchrun
    --nproc-per-node 4 -m hnets train RECIPE; with --max-restarts 3, all go on
    from the last checkpoint when a process is lost.
    """
    from rich.console import Console
    from rich.table import Column, Table

    speaks = (recipe is not None or resume) and os.environ.get("RANK", "0") == "0"
    with waiting("loading torch", Console(quiet=not speaks)):
        from hnets import train as engine
        from hnets.data import available

    resume = resume or engine.elastic()
    if recipe is None and not resume:
        table = Table(Column("recipe", no_wrap=True), "what it trains", "data")
        names = [name for name in engine.shipped_recipes() if name != SVM]
        recipes = {name: engine.read_recipe(name) for name in names}
        # First those for a folder of the user's own.
        for name in sorted(names, key=lambda name: recipes[name].data.name in available()):
            table.add_row(name, recipes[name].title, recipes[name].data.name)
        Console().print(table)
        typer.echo("Give one of them, or a .toml file of yours:")
        typer.echo("hnets train pictures-small --set data.name=FOLDER")
        return
    if recipe == SVM:
        raise InputError(f"{SVM} is fitted by hnets reproduce table1 --train --rows {SVM}")
    runs, folder = engine.begin(recipe, changes or [], seeds, out, resume, source)
    with engine.joined(device) as team:
        console = Console(quiet=not team.leads)
        say = partial(console.print, markup=False, emoji=False, highlight=False, soft_wrap=True)
        with waiting("loading the data and building the network", console):
            engine.prepare(runs, team, resume, say=say)
        make_folder(folder)
        if team.leads:
            engine.remember(runs, folder)
        try:
            with engine.watching(runs, console, team.device.type == "cuda") as watch:
                report = engine.train_and_report(runs, team, folder, watch=watch)
        except KeyboardInterrupt:
            say(f"to go on from the last checkpoint: hnets train --resume --out {folder}")
            raise
    for line in engine.error_lines(report):
        say(line)
    say(f"wrote {folder / 'result.json'}")
    if runs[0].recipe.data.name not in available():
        say(f"for other images: hnets predict {runs[0].folder if runs[1:] else folder} IMAGE...")
