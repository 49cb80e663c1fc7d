"""``hnets inspect``: figures of what is inside a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hnets.cli.command_line import app, figure_file, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hnets.studies.numbers import Numbers

__all__ = ["equivariance", "features", "filters", "flow", "inspect", "stability"]

inspect = typer.Typer(help="Look inside a network: figures from the weights that ship, or yours.")
app.add_typer(inspect, name="inspect")

_OUT = "Figure to write: .png, .svg or .pdf."
_MODEL = "A model of ours, or yours as package.module:attribute or file.py:attribute."


@inspect.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@inspect.command()
def stability(
    image: Annotated[
        Path | None,
        typer.Argument(help="Where patches are cut from; else a picture of scikit-image."),
    ] = None,
    kernel_size: Annotated[
        int, typer.Option(parser=whole(5, 15), metavar="5..15", help="Pixels of the filters.")
    ] = 5,
    seed: Annotated[
        int, typer.Option(parser=whole(0, 10**9 - 1), metavar="N", help="Which random weights.")
    ] = 0,
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("stability.png"),
) -> None:
    """How steady a filter's response is while its input turns, for orders 0, 1 and 2."""
    from hnets.studies.numbers import stability_numbers
    from hnets.studies.stability import stability as measure
    from hnets.studies.turn import load

    _ready(out)
    study = measure(load(image), kernel_size, seed=seed)
    _print(stability_numbers(study))
    _save(study.figure(), out)


@inspect.command()
def filters(
    model: Annotated[str, typer.Argument(help=_MODEL)] = "hdsn",
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The plain CNN beside it; else one of ours.")
    ] = None,
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("filters.png"),
) -> None:
    """First-layer filters, the phases of every layer, and how many filters are wasted."""
    from hnets.studies.filters import filters as measure
    from hnets.studies.numbers import filter_numbers

    _ready(out)
    study = measure(model, against)
    _print(filter_numbers(study))
    _save(study.figure(), out)


@inspect.command()
def features(
    image: Annotated[Path, typer.Argument(help="A picture; of a digit for hnet_mnist.")],
    model: Annotated[str, typer.Option(help=_MODEL)] = "hnet_mnist",
    layer: Annotated[
        int, typer.Option(parser=whole(1, 999), metavar="N", help="Which layer, from 1.")
    ] = 2,
    stream: Annotated[
        int | None,
        typer.Option(parser=whole(-99, 99), metavar="M", help="One rotation order; else all."),
    ] = None,
    most: Annotated[
        int, typer.Option(parser=whole(1, 64), metavar="1..64", help="How many maps to show.")
    ] = 16,
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("features.png"),
) -> None:
    """Feature maps of a picture: magnitude as colour, phase as arrows."""
    from hnets.data.image_file import read_image
    from hnets.studies.features import features as measure

    _ready(out)
    study = measure(read_image(image), model, layer, stream, most, name=str(image))
    _save(study.figure(), out, compact=study.picture.ndim == 3)


@inspect.command()
def flow(
    image: Annotated[Path, typer.Argument(help="A picture.")],
    model: Annotated[str, typer.Option(help=_MODEL)] = "hdsn",
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("flow.png"),
) -> None:
    """Which way things point in a picture, at layers 2, 4, 6, 8 and 10 of an H-DSN."""
    from hnets.data.image_file import read_image
    from hnets.studies.flow import flow as measure

    _ready(out)
    study = measure(read_image(image), model, name=str(image))
    _save(study.figure(), out, compact=True)


@inspect.command()
def equivariance(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A second one, drawn beside it.")
    ] = None,
    in_streams: Annotated[
        str | None, typer.Option(help="Layout of the input, such as 3x0r; else as the model says.")
    ] = None,
    size: Annotated[
        int, typer.Option(parser=whole(16, 256), metavar="16..256", help="Of the test picture.")
    ] = 64,
    out: Annotated[Path, typer.Option(help=_OUT)] = Path("equivariance.png"),
) -> None:
    """How far every layer is from turning with its input, and where that comes from."""
    from hnets.plot import equivariance_figure
    from hnets.studies.equivariance import equivariance as measure
    from hnets.studies.numbers import equivariance_numbers

    _ready(out)
    names = [model] if against is None else [model, against]
    studies = [measure(name, in_streams=in_streams, size=size) for name in names]
    for study in studies:
        _print(equivariance_numbers(study))
    _save(equivariance_figure(studies), out)


def _print(numbers: Numbers) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=numbers.title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0))
    for number, name in enumerate(numbers.header):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in numbers.rows:
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)


def _ready(out: Path) -> None:
    """See that a figure can be drawn and written, before any work is done for it."""
    from hnets.plot import style

    figure_file(out)
    with style():
        pass


def _save(figure: Figure, out: Path, compact: bool = False) -> None:
    from hnets.plot import save

    typer.echo(f"wrote {save(figure, out, compact=compact)}")
