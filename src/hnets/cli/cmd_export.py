"""The command that writes a network for other programs to run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

import hnets
from hnets.cli.cmd_look import sides
from hnets.cli.command_line import app, make_folder
from hnets.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor, nn

__all__ = ["export"]

SUFFIXES = (".onnx", ".pt2")
SMALL = (28, 28)
"""The size from which on every file takes pictures, as every network does."""
OTHER = 65
"""Pixels that are added to a side to try another size: of other parity, and not small."""
AGREES = 1e-3
"""The largest difference from torch, relative to the largest output, with which a file is kept.

Summing in another order leaves a hundredth of it in float32.
"""


@app.command()
def export(
    model: Annotated[str, typer.Argument(help="Name of a model, such as hdsn.")],
    file: Annotated[Path, typer.Argument(help="File to write: .onnx, or .pt2 for torch.export.")],
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE.safetensors",
                     help="Weights of your own training, where hnets train left them.",
                     show_default="those that come with hnets"),
    ] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="HxW", help="An input to try it on, in pixels.",
                     show_default="28x28 for digits, 321x481 for boundaries"),
    ] = None,
) -> None:  # fmt: skip
    """Write a trained network to a file that needs hnets no more.

    The file takes any number of pictures of any size from 28x28 up: (batch,
    channels, height, width) in float32 from 0 to 1, in red, green and blue
    for boundaries. Before it gets its name it is run, an ONNX file by
    onnxruntime if that is installed, and compared with torch.
    """
    from rich.console import Console

    from hnets.models._hdsn import EdgeNetwork

    if file.suffix.lower() not in SUFFIXES or file.is_dir():
        raise typer.BadParameter(
            f"expected a file that ends in {' or '.join(SUFFIXES)}, got {str(file)!r}",
            param_hint="FILE",
        )
    net = _trained(model, weights)
    height, width = sides(size or ("321x481" if isinstance(net, EdgeNetwork) else "28x28"))
    shape = (1, cast(int, net.in_channels), height, width)
    _try(net, shape, model)
    make_folder(file.parent, "FILE")
    with (
        Console(stderr=True).status(f"exporting {model}"),
        tempfile.TemporaryDirectory(dir=file.parent, prefix=".export-") as folder,
    ):
        part = Path(folder) / file.name
        check = (
            _onnx(net, part, shape) if file.suffix.lower() == ".onnx" else _pt2(net, part, shape)
        )
        kilobytes = part.stat().st_size / 1000
        part.replace(file)
    typer.echo(f"wrote {file}: {kilobytes:,.0f} kB, {check}")


def _trained(name: str, file: Path | None) -> nn.Module:
    try:
        net = hnets.create_model(name)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="MODEL") from None
    if file is not None:
        return _own(net, name, file).eval()
    try:
        return hnets.create_model(name, pretrained=True).eval()
    except InputError as error:
        raise InputError(f"{error}; give your own with --weights FILE.safetensors") from None


def _own(net: nn.Module, name: str, file: Path) -> nn.Module:
    """A network with the values of a file, and the options of the run that left the file."""
    from hnets.models import _weights as store

    if not file.is_file():
        raise InputError(f"there is no file {file}; hnets train writes a model.safetensors")
    state, record = store.parse(file.read_bytes(), file), _record(file)
    if record is not None:
        if record.model != name:
            raise InputError(
                f"{file} was trained as {record.model}, as {record.path} says, not as {name}; "
                f"export it as {record.model}"
            )
        try:
            net = hnets.create_model(name, **{**record.options, **_counted(record, state)})
        except (TypeError, ValueError) as error:
            raise InputError(f"{record.path} describes no network: {error}") from None
    if wrong := store.mismatch(net, state):
        raise InputError(f"{file} does not fit {name}: {wrong}")
    net.load_state_dict(state)
    return net


class _Record(NamedTuple):
    """What a run wrote down about its network."""

    path: Path
    model: str
    options: Mapping[str, Any]


def _record(file: Path) -> _Record | None:
    """That of the run which left a file of weights; None if there is none beside it."""
    from hnets.train.result import RESULT
    from hnets.train.run import FILE

    seed = file.resolve().parent
    run = seed.parent
    # The last is where hnets reproduce puts results.
    for path in (seed / RESULT, run / RESULT, run / FILE, Path(f"{run}.json")):
        try:
            told = json.loads(path.read_text(encoding="utf-8"))["recipe"]["model"]
            return _Record(path, str(told["name"]), dict(told["options"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # there is no such file, or it is another program's
    return None


def _counted(record: _Record, state: Mapping[str, Tensor]) -> dict[str, int]:
    """The channels and classes that a training took from its pictures, read off the weights."""
    from hnets.models._hdsn import EdgeNetwork
    from hnets.models._weights import shapes

    def build(**more: int) -> nn.Module:
        return hnets.create_model(record.model, **{**record.options, **more})

    counts, given = dict[str, int](), shapes(state)
    if isinstance(build(), EdgeNetwork):
        return counts
    for option in {"in_channels", "classes"} - record.options.keys():
        one, two = (shapes(build(**{option: count}).state_dict()) for count in (1, 2))
        for key, shape in given.items():
            for a, b, size in zip(one.get(key, ()), two.get(key, ()), shape, strict=False):
                if a != b:  # a side that grows by as much with each
                    counts[option] = 1 + (size - a) // (b - a)
    return counts


def _try(net: nn.Module, shape: tuple[int, ...], name: str) -> None:
    import torch

    try:
        with torch.inference_mode():
            net(torch.zeros(shape))
    except (RuntimeError, ValueError):
        raise typer.BadParameter(
            f"{shape[2]}x{shape[3]} is too small for {name}; try 28x28", param_hint="--size"
        ) from None


def _onnx(net: nn.Module, file: Path, shape: tuple[int, ...]) -> str:
    """Write an ONNX file, and say what it holds."""
    import torch

    try:
        hnets.export.onnx(net, file, shape)
    except ImportError as error:
        raise InputError(str(error)) from None
    try:
        import onnxruntime
    except ImportError:
        return "not checked: that needs onnxruntime"
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    ends = [
        " and ".join(f"{end.name} ({', '.join(map(str, end.shape))})" for end in found)
        for found in (session.get_inputs(), session.get_outputs())
    ]

    def run(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {"input": x.numpy()})[0])

    return f"{ends[0]} to {ends[1]}, {_compared(run, net, shape)} in onnxruntime"


def _pt2(net: nn.Module, file: Path, shape: tuple[int, ...]) -> str:
    """Write a `torch.export` program, and say what it holds."""
    try:
        return _program(net, file, shape)
    except _SizeError as refused:
        try:
            return _program(net, file, shape, one_pixel=True)
        except _SizeError:
            raise refused from None


def _program(
    net: nn.Module, file: Path, shape: tuple[int, ...], one_pixel: bool = False
) -> str:  # fmt: skip
    import torch

    hnets.export.pt2(net, file, shape, one_pixel)
    loaded = torch.export.load(file)
    ends = (loaded.graph_signature.user_inputs, loaded.graph_signature.user_outputs)
    into, out = (" and ".join(map(str, end)) for end in ends)
    return f"{into} to {out}, {_compared(loaded.module(), net, shape)}"


class _SizeError(InputError):
    """A file that takes no pictures of a size that the network takes."""


def _compared(run: Callable[[Tensor], Tensor], net: nn.Module, shape: tuple[int, ...]) -> str:
    """How far an exported network is from torch's, at the size it was made with and at others."""
    import torch

    differences, (_, channels, height, width) = [], shape
    others = ((2, height + OTHER, width), (1, height, width + OTHER), (1, *SMALL))
    for batch, *size in ((1, height, width), *others):
        x = torch.rand(batch, channels, *size)
        try:
            with torch.inference_mode():
                expected, found = net(x), run(x)
        except Exception as error:
            raise _SizeError(
                f"made with an input of {height}x{width}, the file takes none of "
                f"{x.shape[2]}x{x.shape[3]}; give a larger --size"
            ) from error
        scale = max(float(expected.abs().max()), 1e-6)
        differences.append(float((found - expected).abs().max()) / scale)
    most = max(differences)
    if not all(each <= AGREES for each in differences):  # nor is one that is no number
        raise InputError(
            f"the exported network differs from torch by {most:.1e}, relative to its largest "
            "output, and was not kept; are the weights those of a trained network?"
        )
    return f"differs from torch by {most:.1e} at most"
