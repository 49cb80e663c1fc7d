"""Commands that look at harmonics and at untrained networks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

import hnets
from hnets.cli.cmd_inspect import inspect
from hnets.cli.command_line import app, figure_file, make_folder, whole

if TYPE_CHECKING:
    from rich.console import Console

_LARGEST = 4096


@app.command()
def turn(
    image: Annotated[
        Path | None, typer.Argument(help="An image; by default one that comes with scikit-image.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("turn-out"),
    size: Annotated[
        int,
        typer.Option(
            parser=whole(64, 1024), metavar="64..1024", help="Side of the input in pixels."
        ),
    ] = 320,
    seed: Annotated[
        int, typer.Option(parser=whole(0, 10**9 - 1), metavar="N", help="Which random weights.")
    ] = 1,
) -> None:
    """Rotate an image, and see an untrained network's feature maps rotate with it."""
    from rich.console import Console

    from hnets import plot
    from hnets.studies import find_image, rotated_image

    plot.check_matplotlib()
    photo = find_image(image)
    make_folder(out)
    net, plain = rotated_image.example_network(seed), rotated_image.plain_network(seed)
    console = Console()
    _say(console, f"The network: two harmonic layers, for an image of {size}×{size} pixels")
    report, plain_report = (hnets.cost(each, (3, size, size)) for each in (net, plain))
    console.print(report)
    _say(
        console,
        f"A plain network of the same widths does as many multiplications and learns "
        f"{plain_report.parameters:,} values instead of {report.parameters:,}.\n",
    )
    _say(console, "Is it equivariant? A random smooth image and its feature maps, rotated")
    console.print(rotated_image.compared_numbers(net, plain).rich())
    _say(
        console,
        "Each number is ‖f(rotated x) − rotated f(x)‖ / ‖f(x)‖. The weights are random: the "
        "network has learned nothing about rotation, and need not. Multiples of 90° are exact; "
        "between them is the error of working with pixels.\n",
    )
    _say(console, f"Drawing the image and its feature maps, rotated by {rotated_image.ANGLE:g}°")
    figure = plot.rotation_figure(rotated_image.measure_rotation(photo, net, plain, size))
    path = plot.save(figure, out / "turn.png", compact=True)
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)


@inspect.command()
def cost(
    model: Annotated[str, typer.Argument(help="Name of a model, such as hnet_mnist.")],
    size: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the input, in pixels.")] = "28x28",
    out: Annotated[
        Path | None, typer.Option(help="Draw it and the cost rule too: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Count the parameters and multiplications of a model, layer by layer."""
    from rich.console import Console

    if out is not None:
        figure_file(out)
    net = hnets.create_model(model)
    channels = cast(int, net.in_chans)
    height, width = sides(size)
    try:
        report = hnets.cost(net, (channels, height, width))
    except (RuntimeError, ValueError):
        raise typer.BadParameter(
            f"{size} is too small for {model}; try 28x28", param_hint="--size"
        ) from None
    Console().print(report)
    if out is not None:
        from hnets.plot import cost_rule_figure, save
        from hnets.studies import measure_cost_rule

        typer.echo(f"wrote {save(cost_rule_figure(measure_cost_rule({model: report})), out)}")


@inspect.command()
def harmonics(
    out: Annotated[
        Path, typer.Option(help="File to write: .png, .svg or .pdf.")
    ] = Path("harmonics.png"),
) -> None:  # fmt: skip
    """Draw the circular harmonics with a Gaussian envelope, as the paper does."""
    from hnets.plot import harmonics_figure, save

    figure_file(out)
    typer.echo(f"wrote {save(harmonics_figure(), out)}")


def sides(text: str) -> tuple[int, int]:
    """Height and width from HEIGHTxWIDTH."""
    match = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})", text)
    if match is None or not all(1 <= int(side) <= _LARGEST for side in match.groups()):
        raise typer.BadParameter(
            f"{text!r} is not HEIGHTxWIDTH in pixels, each from 1 to {_LARGEST}; write 28x28",
            param_hint="--size",
        )
    return int(match[1]), int(match[2])
