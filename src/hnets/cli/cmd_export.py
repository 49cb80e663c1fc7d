"""The command that writes a network for other programs to run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console
from rich.text import Text

import hnets
from hnets.cli.command_line import app, make_folder, sides
from hnets.errors import InputError, MissingExtra
from hnets.files import replacing
from hnets.predict import EDGE_MODELS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor, nn

SUFFIXES = (".onnx", ".pt2")
EDGES, OTHERS = "321x481", "96x96"
"""Sizes that networks are traced with: of smaller ones, some have maps of one or two pixels, and
the files would take no others."""
AGREES = 1e-3
"""The largest difference from torch, relative to the largest output, with which a file is kept.

Summing in another order leaves a hundredth of it in float32.
"""


@app.command()
def export(
    model: Annotated[
        str,
        typer.Argument(
            help="A trained model's name, a .safetensors file or a run's folder.",
        ),
    ],
    file: Annotated[
        Path,
        typer.Argument(help="File to write: .onnx, or .pt2 for torch.export."),
    ],
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="An input to try it on, in pixels.",
                     show_default=f"{EDGES} for edges, {OTHERS} for others"),
    ] = None,
) -> None:  # fmt: skip
    """Write a trained network to a file that runs without hnets.

    The file takes any number of images of any size that the network takes:
    (batch, channels, height, width) in float32 from 0 to 1, in red, green and
    blue for edges. Before it gets its name it is run, an ONNX file by onnxruntime
    if that is installed, and compared with torch. Edge detectors take about a
    minute: torch.export has to reason about dynamic sizes.
    """
    if file.suffix.lower() not in SUFFIXES or file.is_dir():
        raise typer.BadParameter(
            f"expected a file that ends in {' or '.join(SUFFIXES)}, got {str(file)!r}",
            param_hint="FILE",
        )
    net = hnets.load(EDGE_MODELS.get(model, model))
    default = EDGES if isinstance(net, hnets.models.EdgeNetwork) else OTHERS
    shape, outputs = _tried(net, size or default)
    make_folder(file.parent, "FILE")
    what = Text(f"exporting {model}")  # square brackets in names are no markup
    with Console(stderr=True).status(what), replacing(file) as part:
        check = _write(net, part, shape)
        kilobytes = part.stat().st_size / 1000
    typer.echo(f"wrote {file}: {kilobytes:,.0f} kB, {_ends(shape, outputs)}, {check}")


def _tried(net: nn.Module, size: str) -> tuple[tuple[int, ...], list[Tensor]]:
    """The shape of an input of some size, and what the network gives for it."""
    import torch

    shape = (1, cast(int, net.in_chans), *sides(size))
    try:
        with torch.inference_mode():
            output = net(torch.zeros(shape))
    except ValueError as error:  # in the words of the network
        reason = str(error)
    except RuntimeError:
        reason = f"{size} is too small for this {type(net).__name__}; try {OTHERS}"
    else:
        return shape, [output] if isinstance(output, torch.Tensor) else output
    raise typer.BadParameter(reason, param_hint="--size")


def _ends(shape: tuple[int, ...], outputs: Sequence[Tensor]) -> str:
    """What a network takes and gives, in words."""

    def named(shape: Sequence[int]) -> str:
        return f"({', '.join(('batch', str(shape[1]), 'height', 'width')[: len(shape)])})"

    gives = ", ".join(named(output.shape) for output in outputs)
    return f"input {named(shape)} to output{'s' if len(outputs) > 1 else ''} {gives}"


def _write(net: nn.Module, file: Path, shape: tuple[int, ...]) -> str:
    """Write the network, and say how far the file is from it."""
    limit = ""
    if file.suffix.lower() == ".onnx":
        hnets.export.onnx(net, file, shape)
        try:
            difference = hnets.export.compare(net, file, shape)
        except MissingExtra as error:
            return f"not compared with torch: {error}"
    else:
        difference, limit = _pt2(net, file, shape)
    if not difference <= AGREES:  # nor if it is NaN
        raise InputError(
            f"the exported network differs from torch by {difference:.1e}, relative to its "
            "largest output, and was not kept; are the weights those of a trained network?"
        )
    return f"differs from torch by {difference:.1e} at most{limit}"


def _pt2(net: nn.Module, file: Path, shape: tuple[int, ...]) -> tuple[float, str]:
    """Write a program, and measure how far it is from the network; what it does not take."""
    hnets.export.pt2(net, file, shape)
    try:
        return hnets.export.compare(net, file, shape), ""
    except hnets.export.SizeError as error:
        refusal = error
    other = file.with_name(f"one-pixel-{file.name}")
    hnets.export.pt2(net, other, shape, one_pixel=True)
    try:
        difference = hnets.export.compare(net, other, shape)
    except hnets.export.SizeError:  # of a batch of one, which is worse than of small images
        other.unlink()
    else:
        other.replace(file)
        return difference, ""
    try:
        difference = hnets.export.compare(net, file, shape, small=False)
    except hnets.export.SizeError:
        raise refusal from None
    side = hnets.export.smallest_side(file, shape[1], min(shape[2:]))
    return difference, f"; it takes images from {side}×{side} pixels on, an ONNX file smaller ones"
