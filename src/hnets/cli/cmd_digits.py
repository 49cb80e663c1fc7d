"""The command that reads digits in pictures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hnets.cli.command_line import app, figure_file
from hnets.cli.inputs import find_images

if TYPE_CHECKING:
    from rich.table import Table

    from hnets.plot import TurnedDigit
    from hnets.predict import Turning

__all__ = ["digits"]

DRAWN = 24
"""Pictures that one figure holds."""
SHOWN = 480
"""Side of a picture in the figure, in pixels."""


@app.command()
def digits(
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE", help="Pictures, folders, or patterns.")
    ],
    out: Annotated[
        Path, typer.Option(help="Figure to write: .png, .svg or .pdf.")
    ] = Path("digits.png"),
    model: Annotated[
        str, typer.Option(help="A trained network that reads digits, such as hnet_fourier_base.")
    ] = "hnet_fourier_tiny",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    figure: Annotated[bool, typer.Option(help="Whether to draw the figure.")] = True,
) -> None:  # fmt: skip
    """Say which digit is in each picture, and if the answer holds when it is turned.

    One handwritten digit a picture, dark on light or light on dark, any way up.
    A 6 and a 9 are one another's half turns: a network whose answer does not turn
    tells them apart only by how people write them, and may take one for the other.
    """
    from hnets import plot as inspect
    from hnets.data.image_file import read_image
    from hnets.predict import DigitClassifier

    paths = [path for given in images for path in find_images(given)]
    if figure:
        figure_file(out)
        with inspect.style():  # before any work: is there something to draw with?
            pass
    classifier = DigitClassifier(model)
    found: list[TurnedDigit] = []
    for path in paths:
        picture = read_image(path)
        turning = classifier.turning(picture, name=str(path))
        picture.thumbnail((SHOWN, SHOWN))
        found.append(inspect.TurnedDigit(path.name, picture, turning))
    turnings = [each.turning for each in found]
    if as_json:
        typer.echo(json.dumps([_facts(*each) for each in zip(paths, turnings, strict=True)]))
    else:
        from rich.console import Console

        Console().print(_table(paths, turnings))
    if figure:
        path = inspect.save(inspect.digits_figure(found[:DRAWN]), out, compact=True)
        which = f", with the first {DRAWN} of {len(found)} pictures" if found[DRAWN:] else ""
        typer.echo(f"wrote {path}{which}", err=as_json)


def _facts(path: Path, turning: Turning) -> dict[str, Any]:
    return {
        "file": str(path),
        "digit": turning.given.digit,
        "confidence": round(turning.given.confidence, 6),
        "probabilities": [round(p, 6) for p in turning.given.probabilities.tolist()],
        "turned": {
            "angles": list(turning.angles),
            "digits": turning.digits.tolist(),
            "confidences": [round(p, 6) for p in turning.confidences.tolist()],
            "share": round(turning.share, 6),
            "lowest": round(turning.lowest, 6),
        },
    }


def _table(paths: Sequence[Path], turnings: Sequence[Turning]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("picture", overflow="fold")
    table.add_column("digit", justify="center", style="bold")
    table.add_column("confidence", justify="right")
    table.add_column("the same\nwhen turned", justify="right")
    table.add_column("lowest\nconfidence", justify="right")
    for path, turning in zip(paths, turnings, strict=True):
        angles, same = len(turning.angles), int(turning.same.sum())
        table.add_row(
            Text(str(path)),  # square brackets in names are no markup
            str(turning.given.digit),
            f"{100 * turning.given.confidence:.1f} %",
            Text(f"{same} of {angles}", "green" if same == angles else "red"),
            f"{100 * turning.lowest:.1f} %",
        )
    return table
