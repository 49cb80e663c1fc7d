"""The command itself: what all commands share, and how bad input is answered."""

from __future__ import annotations

import io
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

import hnets
from hnets.errors import InputError

__all__ = ["app", "complain", "figure_file", "main", "make_folder", "whole"]

app = typer.Typer(
    help="Harmonic Networks: convolutions that turn when their input turns.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The base of all complaints about arguments: click's own class, or typer's, by typer's version.
_UsageError: Any = typer.BadParameter.__mro__[1]


def main() -> NoReturn:
    """Run the command line; bad input is one line on stderr and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ×, ° or → still works
    try:
        code = app(prog_name="hnets", standalone_mode=False)
    except _UsageError as error:
        _stop(_complaint(error), 2)
    except InputError as error:
        _stop(str(error), 2)
    except OSError as error:
        _stop(f"{error.filename or 'a file'}: {error.strerror or error}", 1)
    except (KeyboardInterrupt, typer.Abort):
        _stop("stopped", 130)
    if code == 130:  # some versions of typer answer the interrupt themselves, without a word
        _stop("stopped", 130)
    sys.exit(code if isinstance(code, int) else 0)


def _complaint(error: Any) -> str:
    message: str = error.format_message().rstrip(".")
    if type(error) is typer.BadParameter:  # ours: it already says what to do
        return message
    return f"{message}; see {error.ctx.command_path if error.ctx else 'hnets'} --help"


def complain(message: str) -> None:
    """Say in one line on stderr what is wrong."""
    typer.echo(f"hnets: {' '.join(message.split())}", err=True)


def _stop(message: str, code: int) -> NoReturn:
    complain(message)
    sys.exit(code)


def whole(low: int, high: int) -> Callable[[str | int], int]:
    """A parser of whole numbers that says which ones it takes."""

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


def make_folder(folder: Path, given_as: str = "--out") -> None:
    """Make a folder and see that it can be written to, before any work is done for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise typer.BadParameter(
            f"expected a folder to write to, got {str(folder)!r} ({error.strerror}); name another",
            param_hint=given_as,
        ) from None


def figure_file(out: Path) -> None:
    """Check the name of a figure and make its folder, before any work is done for it."""
    from hnets.plot import FORMATS

    if out.suffix.lower().lstrip(".") not in FORMATS or out.is_dir():
        raise typer.BadParameter(
            f"expected a file that ends in .{', .'.join(FORMATS)}, got {str(out)!r}",
            param_hint="--out",
        )
    make_folder(out.parent)
