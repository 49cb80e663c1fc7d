"""What all commands share: the app, options, folders, and one line for what is wrong."""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

import hnets
from hnets.errors import InputError, Unwritable

if TYPE_CHECKING:
    from rich.console import Console

Function = TypeVar("Function", bound=Callable[..., Any])


class _PlainHelp:
    """Help as older versions of typer write it: flags without a type, arguments in capitals."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
            elif param.param_type_name == "argument" and hasattr(param, "display_type_rich"):
                param.display_type_rich = lambda ctx: None
                param.metavar = param.metavar or param.name.upper()
        return params


class PlainCommand(_PlainHelp, TyperCommand):
    """A command with such help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; errors about them lead to the help of this command."""
        try:
            return super().parse_args(ctx, args)
        except _UsageError as error:  # without a context if the value of an option is missing
            error.ctx = error.ctx or ctx
            raise


class _PlainGroup(_PlainHelp, TyperGroup):
    """A command of commands with such help."""


class _App(typer.Typer):
    """An app of such commands."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **options: Any
    ) -> Callable[[Function], Function]:
        return super().command(name, cls=cls or PlainCommand, **options)


app = _App(
    cls=_PlainGroup,
    help="Harmonic Networks: convolutions that rotate when their input rotates.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The base of all errors about arguments: click's own class, or typer's, by typer's version.
_UsageError: Any = typer.BadParameter.__mro__[1]
_COMMANDS = (
    "bench_edges", "digits", "edges", "export", "inspect", "models", "predict", "reproduce",
    "search", "start", "train",
)  # fmt: skip
_LARGEST = 4096
Device = Annotated[
    str | None, typer.Option(metavar="cpu|cuda", help="Where to compute; a GPU if there is one.")
]


def run() -> NoReturn:
    """Run the command line; what is wrong is one line on stderr.

    Bad input is exit code 2, and a disk that is full or fails exit code 1.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no ×, ° or → still works
    for name in _COMMANDS:  # a module's commands join the app when it is imported
        import_module(f"hnets.cli.cmd_{name}")
    try:
        code = app(prog_name="hnets", standalone_mode=False)
    except _UsageError as error:
        _stop(_usage(error), 2)
    except InputError as error:
        _stop(str(error), 1 if isinstance(error, Unwritable) else 2)
    except OSError as error:
        if isinstance(error, PermissionError) and error.filename:
            advice = "change its permissions, or name another"
            _stop(f"{error.filename} cannot be opened ({error.strerror}); {advice}", 2)
        where = f"{error.filename}: " if error.filename else ""  # writing to stdout names no file
        _stop(f"{where}{error.strerror or error}", 1)
    except typer.Abort:
        raise KeyboardInterrupt from None
    if code == 130:  # some versions of typer handle the interrupt themselves, without a message
        raise KeyboardInterrupt
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> str:
    message: str = error.format_message().rstrip(".").replace(": Value error, ", ": ")
    if type(error) is typer.BadParameter:  # ours: it already says what to do
        return message
    end = " See" if message.endswith("?") else "; see"
    return f"{message}{end} {error.ctx.command_path if error.ctx else 'hnets'} --help"


def complain(message: str) -> None:
    """Say in one line on stderr what is wrong."""
    typer.echo(f"hnets: {' '.join(message.split())}", err=True)


def _stop(message: str, code: int) -> NoReturn:
    complain(message)
    sys.exit(code)


def parser(low: int, high: int) -> Callable[[str | int], int]:
    """A parser of whole numbers that says which ones it takes."""

    def parse(value: str | int) -> int:  # some versions of typer parse the default too
        text = str(value)
        if not re.fullmatch(r"-?\d{1,9}", text) or not low <= int(text) <= high:
            raise typer.BadParameter(f"expected a whole number from {low} to {high}, got {text!r}")
        return int(text)

    return parse


def whole(low: int, high: int, text: str, metavar: str = "") -> Any:
    """An option that takes a whole number; without another name, help shows the range."""
    return typer.Option(parser=parser(low, high), metavar=metavar or f"{low}..{high}", help=text)


Seed = Annotated[int, whole(0, 10**9 - 1, "Which random weights.", "N")]


def sides(text: str) -> tuple[int, int]:
    """Height and width from HEIGHTxWIDTH."""
    match = re.fullmatch(r"(\d{1,5})[x×](\d{1,5})", text)
    if match is None or not all(1 <= int(side) <= _LARGEST for side in match.groups()):
        raise typer.BadParameter(
            f"{text!r} is not HEIGHTxWIDTH in pixels, each from 1 to {_LARGEST}; write 28x28",
            param_hint="--size",
        )
    return int(match[1]), int(match[2])


def group(name: str, description: str) -> typer.Typer:
    """A command of commands, which alone shows its help."""
    commands = _App(cls=_PlainGroup, help=description)
    commands.callback(invoke_without_command=True)(_help)
    app.add_typer(commands, name=name)
    return commands


def _help(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"hnets {hnets.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    _help(context)


def check_folder(folder: Path, option: str = "--out") -> None:
    """Refuse a folder that could not be written to, without making it."""
    places = (folder, *folder.absolute().parents)
    place = next(path for path in places if os.path.exists(path))  # also if a name is too long
    if not place.is_dir():
        raise _no_folder(folder, "Not a directory", option)
    if not os.access(place, os.W_OK | os.X_OK):
        raise _no_folder(folder, "Permission denied", option)


def make_folder(folder: Path, option: str = "--out") -> None:
    """Make a folder and see that it can be written to, before any work is done for it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _no_folder(folder, str(error.strerror), option) from None


def _no_folder(folder: Path, reason: str, option: str) -> typer.BadParameter:
    return typer.BadParameter(
        f"expected a folder to write to, got {str(folder)!r} ({reason}); name another",
        param_hint=option,
    )


def check_page(page: Path) -> None:
    """Check that a page can be written and make its folder, before any work is done for it."""
    make_folder(page.parent, "--page")
    if page.is_dir():
        raise typer.BadParameter(
            f"expected a file to write, got the folder {str(page)!r}; name one in it",
            param_hint="--page",
        )


def figure_file(out: Path, images: Iterable[Path | None] = ()) -> None:
    """Check the name of a figure and make its folder, before any work is done for it.

    It must not replace one of the ``images`` that the command reads.
    """
    from hnets.plot import FORMATS

    if out.suffix.lower().lstrip(".") not in FORMATS or out.is_dir():
        raise typer.BadParameter(
            f"expected a file that ends in .{', .'.join(FORMATS)}, got {str(out)!r}",
            param_hint="--out",
        )
    keep_images(out, images)
    make_folder(out.parent)


def keep_images(out: Path, images: Iterable[Path | None]) -> None:
    """Refuse to write a figure over one of the images that a command reads."""
    exists = os.path.exists(out)
    if exists and any(image and os.path.exists(image) and out.samefile(image) for image in images):
        raise typer.BadParameter(
            f"expected another file than the input, got {str(out)!r}; name another",
            param_hint="--out",
        )


@contextmanager
def waiting(text: str, console: Console) -> Iterator[None]:
    """Say what a command waits for: on a terminal until it is done, elsewhere in a line."""
    if not console.is_terminal:
        console.print(text)
    with console.status(text):  # draws on a terminal only
        yield


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str], None]]:
    """A function that shows the name of the next of many items; silent without a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    quiet = total < 2 or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=total)
        started = iter(range(total))
        yield lambda name: progress.update(task, description=name, completed=next(started))
