"""The command to start with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hnets.cli.command_line import app, make_folder, whole

__all__ = ["quickstart"]


@app.command()
def quickstart(
    out: Annotated[
        Path, typer.Option(help="Folder for the figure and its numbers.")
    ] = Path("quickstart-out"),
    epochs: Annotated[
        int,
        typer.Option(
            parser=whole(1, 1000), metavar="1..1000", help="How often each digit is learned from."
        ),
    ] = 24,
    seed: Annotated[
        int, typer.Option(parser=whole(0, 10**9 - 1), metavar="N", help="Which random weights.")
    ] = 1,
) -> None:  # fmt: skip
    """Train an H-Net and a plain CNN on upright digits, and ask both about turned ones."""
    from rich.console import Console

    from hnets.studies.quickstart import quickstart as run

    make_folder(out)
    run(out, epochs, seed, Console())
