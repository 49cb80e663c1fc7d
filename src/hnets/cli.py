"""The ``hnets`` command: it parses, calls the library and prints.

Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import hnets

__all__ = ["app", "main"]

app = typer.Typer(
    help="Harmonic Networks: convolutions that turn when their input turns.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The base of all complaints about arguments: click's own class, or typer's, by typer's version.
_UsageError: Any = typer.BadParameter.__mro__[1]
_LARGEST = 4096


def main() -> NoReturn:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    from hnets.inspect import PictureError, PlottingMissing

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ×, ° or → still works
    try:
        code = app(prog_name="hnets", standalone_mode=False)
    except _UsageError as error:
        _stop(_complaint(error), 2)
    except (PictureError, PlottingMissing) as error:
        _stop(str(error), 2)
    except OSError as error:
        _stop(f"{error.filename or 'a file'}: {error.strerror or error}", 1)
    except (KeyboardInterrupt, typer.Abort):
        _stop("stopped", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _complaint(error: Any) -> str:
    message: str = error.format_message().rstrip(".")
    if type(error) is typer.BadParameter:  # ours: it already says what to do
        return message
    return f"{message}; see {error.ctx.command_path if error.ctx else 'hnets'} --help"


def _stop(message: str, code: int) -> NoReturn:
    typer.echo(f"hnets: {' '.join(message.split())}", err=True)
    sys.exit(code)


def _whole(low: int, high: int) -> Callable[[str | int], int]:
    def parse(given: str | int) -> int:  # some versions of typer parse the default too
        text = str(given)
        if not re.fullmatch(r"-?\d{1,9}", text) or not low <= int(text) <= high:
            raise typer.BadParameter(f"expected a whole number from {low} to {high}, got {text!r}")
        return int(text)

    return parse


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hnets {hnets.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say the version.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def quickstart(
    image: Annotated[
        Path | None, typer.Argument(help="A picture; by default one that comes with scikit-image.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the figure.")] = Path("quickstart-out"),
    size: Annotated[
        int,
        typer.Option(
            parser=_whole(64, 1024), metavar="64..1024", help="Side of the input in pixels."
        ),
    ] = 320,
    seed: Annotated[
        int, typer.Option(parser=_whole(0, 10**9 - 1), metavar="N", help="Which random weights.")
    ] = 1,
) -> None:
    """Show what is special: a network's cost, how it turns, and a figure of its feature maps."""
    from rich.console import Console

    from hnets.quickstart import load
    from hnets.quickstart import quickstart as run

    picture = load(image)
    _make_folder(out)
    run(picture, out, size, seed, Console())


@app.command()
def cost(
    model: Annotated[str, typer.Argument(help="Name of a model, such as hnet_mnist.")],
    size: Annotated[str, typer.Option(help="HEIGHTxWIDTH of the input, in pixels.")] = "28x28",
) -> None:
    """Count the parameters and multiplications of a model, layer by layer."""
    from rich.console import Console

    try:
        net = hnets.create_model(model)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="MODEL") from None
    channels = next(p for p in net.modules() if isinstance(p, hnets.nn.HConv2d)).in_streams.channels
    height, width = _size(size)
    try:
        report = hnets.cost(net, (channels, height, width))
    except RuntimeError:
        raise typer.BadParameter(
            f"{size} is too small for {model}; try 28x28", param_hint="--size"
        ) from None
    Console().print(report)


@app.command()
def harmonics(
    out: Annotated[
        Path, typer.Option(help="File to write: .png, .svg or .pdf.")
    ] = Path("harmonics.png"),
) -> None:  # fmt: skip
    """Draw the circular harmonics with a Gaussian envelope, as the paper does."""
    from hnets import inspect

    if out.suffix.lower().lstrip(".") not in inspect.FORMATS or out.is_dir():
        raise typer.BadParameter(
            f"expected a file that ends in .{', .'.join(inspect.FORMATS)}, got {str(out)!r}",
            param_hint="--out",
        )
    _make_folder(out.parent)
    path = inspect.save(inspect.harmonics_figure(), out)
    typer.echo(f"wrote {path}")


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(
            f"expected a folder to write to, got {str(folder)!r} ({error.strerror}); name another",
            param_hint="--out",
        ) from None


def _size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})", text)
    if match is None or not all(1 <= int(side) <= _LARGEST for side in match.groups()):
        raise typer.BadParameter(
            f"{text!r} is not HEIGHTxWIDTH in pixels, each from 1 to {_LARGEST}; write 28x28",
            param_hint="--size",
        )
    return int(match[1]), int(match[2])
