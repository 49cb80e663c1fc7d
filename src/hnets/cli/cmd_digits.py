"""``hnets digits``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hnets.cli.command_line import app, complain, figure_file
from hnets.errors import InputError, MissingExtra

if TYPE_CHECKING:
    from PIL import Image

    from hnets.predict import RotatedPredictions

    Row: TypeAlias = tuple[Path, Image.Image, RotatedPredictions]

FIGURE = Path("digits.png")
DRAWN = 24
"""Images in one figure."""
SHOWN = 480
"""Side of an image in the figure, in pixels."""


@app.command()
def digits(
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE", help="Images, folders, or patterns.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=str(FIGURE), help="Figure to write: .png, .svg or .pdf."
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            metavar="NAME|FILE",
            help="A trained network that reads digits: a name, a file or a folder.",
        ),
    ] = "hnet_fourier_tiny",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    figure: Annotated[
        bool | None,
        typer.Option(
            "--figure/--no-figure", show_default="if matplotlib is installed",
            help="Whether to draw the figure.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Read the digit in each image, and check that rotating it changes nothing.

    One handwritten digit per image, dark on light or light on dark, any way up.
    A 6 and a 9 are rotations of each other by 180°: a network that is invariant
    to rotation tells them apart only by how people write them.
    """
    from hnets.predict.batch import find_images

    if out is not None and figure is False:
        raise typer.BadParameter("expected --out or --no-figure, got both; leave one out")
    folders, errors = find_images(images)
    paths = list(folders)
    if paths and figure is not False:
        figure_file(out or FIGURE, paths)
    for error in errors:
        complain(str(error))
    rows = _read(paths, model)
    if paths and as_json:
        typer.echo(json.dumps([_facts(path, predictions) for path, _, predictions in rows]))
    elif rows:
        Console().print(_table(rows))
    drawn = True
    if rows and figure is not False:
        drawn = _draw(rows, out or FIGURE, as_json) or not (figure or out)
    if len(rows) < len(paths) or errors or not drawn:
        raise typer.Exit(2)


def _read(paths: list[Path], model: str) -> list[Row]:
    """The images in which a digit is seen, and what is seen there."""
    if not paths:
        return []
    from hnets.data.image_file import read_image
    from hnets.predict import DigitClassifier

    classifier = DigitClassifier(model)
    rows: list[Row] = []
    for path in paths:
        try:
            image = read_image(path)
            predictions = classifier.rotated(image, name=str(path))
        except InputError as error:
            complain(str(error))
            continue
        image.thumbnail((SHOWN, SHOWN))
        rows.append((path, image, predictions))
    return rows


def _draw(rows: list[Row], out: Path, as_json: bool) -> bool:
    """Whether the figure could be drawn, which needs matplotlib."""
    from hnets import plot

    try:
        plot.check_matplotlib()
    except MissingExtra as error:
        complain(str(error))
        return False
    panels = [
        plot.RotatedDigit(path.name, image, predictions)
        for path, image, predictions in rows[:DRAWN]
    ]
    path = plot.save(plot.digits_figure(panels), out, compact=True)
    which = f", with the first {DRAWN} of {len(rows)} images" if rows[DRAWN:] else ""
    typer.echo(f"wrote {path}{which}", err=as_json)
    return True


def _facts(path: Path, predictions: RotatedPredictions) -> dict[str, Any]:
    original = predictions.original
    return {
        "file": str(path),
        "digit": original.digit,
        "confidence": round(original.confidence, 6),
        "probabilities": [round(p, 6) for p in original.probabilities.tolist()],
        "rotated": {
            "angles": list(predictions.angles),
            "digits": predictions.digits.tolist(),
            "confidences": [round(p, 6) for p in predictions.confidences.tolist()],
            "share": round(predictions.share, 6),
            "lowest": round(predictions.lowest, 6),
        },
    }


def _table(rows: list[Row]) -> Table:
    table = Table()
    table.add_column("image", overflow="fold")
    table.add_column("digit", justify="center", style="bold")
    table.add_column("confidence", justify="right")
    table.add_column("the same\nwhen rotated", justify="right")
    table.add_column("lowest\nconfidence", justify="right")
    for path, _, predictions in rows:
        angles, same = len(predictions.angles), int(predictions.same.sum())
        table.add_row(
            Text(str(path)),  # square brackets in names are no markup
            str(predictions.original.digit),
            f"{100 * predictions.original.confidence:.1f} %",
            Text(f"{same} of {angles}", "green" if same == angles else "red"),
            f"{100 * predictions.lowest:.1f} %",
        )
    return table
