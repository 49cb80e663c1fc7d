"""Commands that look at harmonics and at untrained networks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, cast

import typer

import hnets
from hnets.cli.cmd_inspect import inspect
from hnets.cli.command_line import app, figure_file, make_folder, whole

__all__ = ["cost", "harmonics", "sides", "turn"]

_LARGEST = 4096


@app.command()
def turn(
    image: Annotated[
        Path | None, typer.Argument(help="A picture; by default one that comes with scikit-image.")
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
    """Turn a picture, and see an untrained network's feature maps turn with it."""
    from rich.console import Console

    from hnets.studies.turn import load
    from hnets.studies.turn import turn as run

    picture = load(image)
    make_folder(out)
    run(picture, out, size, seed, Console())


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
        from hnets.plot import cost_rule, save

        typer.echo(f"wrote {save(cost_rule({model: report}).figure(), out)}")


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
