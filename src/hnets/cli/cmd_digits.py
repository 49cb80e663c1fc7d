"""``hnets digits``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hnets.cli.command_line import app, figure_file

if TYPE_CHECKING:
    from rich.table import Table

    from hnets.predict import RotatedPredictions

__all__ = ["digits"]

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
        Path, typer.Option(help="Figure to write: .png, .svg or .pdf.")
    ] = Path("digits.png"),
    model: Annotated[
        str, typer.Option(help="A trained network that reads digits, such as hnet_fourier_base.")
    ] = "hnet_fourier_tiny",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    figure: Annotated[bool, typer.Option(help="Whether to draw the figure.")] = True,
) -> None:  # fmt: skip
    """Read the digit in each image, and check that rotating it changes nothing.

    One handwritten digit per image, dark on light or light on dark, any way up.
    A 6 and a 9 are rotations of each other by 180°: a network that is invariant
    to rotation tells them apart only by how people write them.
    """
    from hnets.predict.batch import find_images

    paths, errors = find_images(images)
    if errors:
        raise errors[0]

    from hnets import plot
    from hnets.data.image_file import read_image
    from hnets.predict import DigitClassifier

    if figure:
        figure_file(out)
        plot.check_matplotlib()
    classifier = DigitClassifier(model)
    panels = []
    for path in paths:
        image = read_image(path)
        predictions = classifier.rotated(image, name=str(path))
        image.thumbnail((SHOWN, SHOWN))
        panels.append(plot.RotatedDigit(path.name, image, predictions))
    rows = [(str(path), panel.predictions) for path, panel in zip(paths, panels, strict=True)]
    if as_json:
        typer.echo(json.dumps([_facts(*row) for row in rows]))
    else:
        from rich.console import Console

        Console().print(_table(rows))
    if figure:
        path = plot.save(plot.digits_figure(panels[:DRAWN]), out, compact=True)
        which = f", with the first {DRAWN} of {len(panels)} images" if panels[DRAWN:] else ""
        typer.echo(f"wrote {path}{which}", err=as_json)


def _facts(file: str, predictions: RotatedPredictions) -> dict[str, Any]:
    original = predictions.original
    return {
        "file": file,
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


def _table(rows: list[tuple[str, RotatedPredictions]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("image", overflow="fold")
    table.add_column("digit", justify="center", style="bold")
    table.add_column("confidence", justify="right")
    table.add_column("the same\nwhen rotated", justify="right")
    table.add_column("lowest\nconfidence", justify="right")
    for file, predictions in rows:
        angles, same = len(predictions.angles), int(predictions.same.sum())
        table.add_row(
            Text(file),  # square brackets in names are no markup
            str(predictions.original.digit),
            f"{100 * predictions.original.confidence:.1f} %",
            Text(f"{same} of {angles}", "green" if same == angles else "red"),
            f"{100 * predictions.lowest:.1f} %",
        )
    return table
