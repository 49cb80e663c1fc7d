"""``hnets inspect``: figures of what is inside a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich import box
from rich.console import Console

import hnets
from hnets.cli.command_line import Seed, figure_file, group, sides, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hnets.studies.numbers import Numbers

inspect = group("inspect", "Look inside a network: figures from pretrained weights, or yours.")

_OUT = "Figure to write: .png, .svg or .pdf."
_MODEL = "A model, a file or folder of weights, or your module as file.py:attribute."


@inspect.command()
def stability(
    image: Annotated[
        Path | None,
        typer.Argument(help="Where patches are cut from; else an image of scikit-image."),
    ] = None,
    kernel_size: Annotated[int, whole(5, 15, "Pixels of the filters.")] = 5,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help=_OUT)] = Path("stability.png"),
) -> None:
    """How steady a filter's response is while its input rotates, for orders 0, 1 and 2."""
    from hnets import plot, studies

    _ready(out, image)
    study = studies.measure_stability(studies.find_image(image), kernel_size, seed=seed)
    _print(study.numbers())
    _save(plot.stability_figure(study), out)


@inspect.command()
def filters(
    model: Annotated[str, typer.Argument(help=_MODEL)] = "hdsn",
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="The plain CNN beside it; else one of ours.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help=_OUT)] = Path("filters.png"),
) -> None:
    """First-layer filters, the phases of every layer, and how many filters are unused."""
    from hnets import plot, studies

    _ready(out)
    study = studies.measure_filters(model, against)
    _print(study.numbers())
    _save(plot.filters_figure(study), out)


@inspect.command()
def features(
    image: Annotated[Path, typer.Argument(help="An image; of a digit for hnet_mnist.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help=_MODEL)] = "hnet_mnist",
    layer: Annotated[int, whole(1, 999, "Which layer, from 1.", "N")] = 2,
    stream: Annotated[int | None, whole(-99, 99, "One rotation order; else all.", "M")] = None,
    most: Annotated[int, whole(1, 64, "How many maps to show.")] = 16,
    out: Annotated[Path, typer.Option(metavar="FILE", help=_OUT)] = Path("features.png"),
) -> None:
    """Feature maps of an image: magnitude as colour, phase as arrows."""
    from hnets import plot, studies

    _ready(out, image)
    photo = studies.find_image(image)
    study = studies.measure_features(photo, model, layer, stream, most, name=str(image))
    _save(plot.features_figure(study), out, compact=study.image.ndim == 3)


@inspect.command()
def flow(
    image: Annotated[Path, typer.Argument(help="A photograph.")],
    model: Annotated[str, typer.Option(metavar="MODEL", help=_MODEL)] = "hdsn",
    out: Annotated[Path, typer.Option(metavar="FILE", help=_OUT)] = Path("flow.png"),
) -> None:
    """The directions of edges in a photograph, at layers 2, 4, 6, 8 and 10 of an H-DSN."""
    from hnets import plot, studies

    _ready(out, image)
    study = studies.measure_flow(studies.find_image(image), model, name=str(image))
    _save(plot.flow_figure(study), out, compact=True)


@inspect.command()
def equivariance(
    model: Annotated[str, typer.Argument(help=_MODEL)],
    against: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A second one, drawn beside it.")
    ] = None,
    in_streams: Annotated[
        str | None,
        typer.Option(
            metavar="STREAMS", help="Layout of the input, such as 3x0r; else as the model says."
        ),
    ] = None,
    size: Annotated[int, whole(16, 256, "Side of the test image in pixels.")] = 64,
    out: Annotated[Path, typer.Option(metavar="FILE", help=_OUT)] = Path("equivariance.png"),
) -> None:
    """How far every layer is from rotating with its input, and where that comes from."""
    from hnets import plot
    from hnets.studies import measure_equivariance

    _ready(out)
    names = [model] if against is None else [model, against]
    studies = [measure_equivariance(name, in_streams=in_streams, size=size) for name in names]
    for study in studies:
        _print(study.numbers())
    _save(plot.equivariance_figure(studies), out)


@inspect.command()
def cost(
    model: Annotated[str, typer.Argument(help="Name of a model, such as hnet_mnist.")],
    size: Annotated[
        str, typer.Option(metavar="HxW", help="Height and width of the input, in pixels.")
    ] = "28x28",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it and the cost rule too: .png, .svg or .pdf."),
    ] = None,
) -> None:
    """Count the parameters and multiplications of a model, layer by layer."""
    if out is not None:
        _ready(out)
    net = hnets.create_model(model)
    shape = (cast(int, net.in_chans), *sides(size))
    try:
        report = hnets.cost(net, shape)
    except (RuntimeError, ValueError):
        raise typer.BadParameter(
            f"{size} is too small for {model}; try 28x28", param_hint="--size"
        ) from None
    Console().print(report, crop=False)
    if out is not None:
        from hnets import plot, studies

        _save(plot.cost_rule_figure(studies.measure_cost_rule({model: report})), out)


@inspect.command()
def harmonics(
    out: Annotated[Path, typer.Option(metavar="FILE", help=_OUT)] = Path("harmonics.png"),
) -> None:
    """Draw the circular harmonics with a Gaussian envelope, as the paper does."""
    from hnets.plot import harmonics_figure

    _ready(out)
    _save(harmonics_figure(), out)


def _print(numbers: Numbers) -> None:
    table = numbers.rich(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0))
    Console().print(table, crop=False)


def _ready(out: Path, image: Path | None = None) -> None:
    """See that a figure of an image can be drawn and written, before any work is done for it."""
    from hnets.plot import check_matplotlib

    figure_file(out, [image])
    check_matplotlib()


def _save(figure: Figure, out: Path, compact: bool = False) -> None:
    from hnets.plot import save

    typer.echo(f"wrote {save(figure, out, compact=compact)}")
