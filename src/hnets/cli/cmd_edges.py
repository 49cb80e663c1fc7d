"""The command that finds boundaries in pictures."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from hnets.cli.cmd_train import Device
from hnets.cli.command_line import app, complain, make_folder
from hnets.cli.inputs import STDIN, find_images, output_names
from hnets.errors import InputError
from hnets.files import replacing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL import Image

    from hnets.predict import EdgeDetector, Oriented

__all__ = ["edges"]

FOLDER = Path("edges-out")
ENDINGS = {
    "edges": ".edges.png",
    "thin": ".thin.png",
    "orientation": ".orientation.png",
    "overlay": ".overlay.png",
    "npz": ".edges.npz",
}
"""What can be made of a picture, and what follows its name."""
NAMED = 12
"""Files that are named when they are written; of more, only how many there are."""


@app.command()
def edges(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="Pictures, folders, patterns, or - for stdin."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", show_default="edges-out, or stdout for stdin",
            help="Where to write; - is stdout.",
        ),
    ] = None,
    thin: Annotated[bool, typer.Option("--thin", help="Also as lines: NAME.thin.png.")] = False,
    orientation: Annotated[
        bool,
        typer.Option(
            "--orientation", help="Also coloured by their direction: NAME.orientation.png."
        ),
    ] = False,
    overlay: Annotated[
        bool, typer.Option("--overlay", help="Also on the picture: NAME.overlay.png.")
    ] = False,
    npz: Annotated[
        bool,
        typer.Option(
            "--npz", help="Also as numbers: magnitude and angle (0 to π) in NAME.edges.npz."
        ),
    ] = False,
    scale: Annotated[
        list[str] | None,
        typer.Option(
            metavar="X,X,...", show_default="1", help="Average the answers at these scales."
        ),
    ] = None,
    device: Device = None,
) -> None:  # fmt: skip
    """Find the boundaries in pictures, and which way they run.

    Writes NAME.edges.png for each picture: of its size, black where there is no
    boundary, white where the network is sure of one.

    \b
    hnets edges photo.jpg                    edges-out/photo.edges.png
    hnets edges photos "more/*.png" -o maps  a folder and a pattern
    hnets edges photo.jpg --orientation      and coloured by direction
    hnets edges photo.jpg --scale 0.5,1,1.5  slower, often better
    hnets edges - < photo.jpg > edges.png    in a pipe, also with --thin or
                                             another one of these
    """
    scales = _scales(scale or ["1"])
    asked = {"thin": thin, "orientation": orientation, "overlay": overlay, "npz": npz}
    kinds = [kind for kind, wanted in asked.items() if wanted]
    piped = str(out) == STDIN or (out is None and inputs == [STDIN])
    if piped:
        _check_stdout(kinds)
        kinds = kinds or ["edges"]
    else:
        kinds = ["edges", *kinds]
    paths, wrong = _find(inputs)
    if piped and len(paths) > 1:
        raise typer.BadParameter(
            f"expected one picture for stdout, got {len(paths)}; give a folder with -o"
        )
    if paths:
        wrong += _detect(paths, None if piped else out or FOLDER, kinds, scales, device)
    if wrong:
        raise typer.Exit(2)


def _scales(given: Sequence[str]) -> list[float]:
    from hnets.predict.edge_detector import SCALES

    low, high = SCALES
    scales = []
    for text in ",".join(given).split(","):
        try:
            scales.append(float(text))
        except ValueError:
            scales.append(0.0)
        if not low <= scales[-1] <= high:
            raise typer.BadParameter(
                f"expected numbers from {low:g} to {high:g} with commas between, as in 0.5,1,1.5, "
                f"got {text!r}",
                param_hint="--scale",
            )
    return scales


def _check_stdout(kinds: Sequence[str]) -> None:
    if len(kinds) > 1:
        raise typer.BadParameter(
            f"expected one of --{', --'.join(kinds)} for stdout, got {len(kinds)}; "
            "give one, or a folder with -o"
        )
    if sys.stdout.isatty():
        raise typer.BadParameter(
            "expected stdout to be a file or a pipe, got a terminal; write > edges.png, or give a "
            "folder with -o"
        )


def _find(inputs: Sequence[str]) -> tuple[list[Path], int]:
    """The pictures, each once, and how many of the inputs are none."""
    found, wrong = dict[Path, Path](), 0
    for given in inputs:
        try:
            for path in find_images(given, skip=tuple(ENDINGS.values())):
                found.setdefault(path.resolve(), path)
        except InputError as error:
            complain(str(error))
            wrong += 1
    return list(found.values()), wrong


def _detect(
    paths: Sequence[Path],
    folder: Path | None,
    kinds: Sequence[str],
    scales: Sequence[float],
    device: str | None,
) -> int:
    """Write what is asked for, to stdout if there is no folder; how many pictures could not be."""
    import torch

    from hnets.predict import EdgeDetector

    detector = EdgeDetector(device=device or ("cuda" if torch.cuda.is_available() else "cpu"))
    names = output_names(paths, folder or FOLDER, [ENDINGS[kind] for kind in kinds])
    if folder is not None:
        _explain(paths, names)
    written, wrong = list[Path](), 0
    with _bar(len(paths)) as show:
        for path, name in zip(paths, names, strict=True):
            show(str(path))
            try:
                image = _read(path)
            except InputError as error:
                complain(str(error))
                wrong += 1
                continue
            if folder is not None and not written:
                make_folder(folder)
            for kind, content in _made(detector, image, kinds, scales):
                if folder is None:
                    _save(content, sys.stdout.buffer)
                    continue
                written.append(folder / f"{name}{ENDINGS[kind]}")
                with replacing(written[-1]) as part, part.open("wb") as file:
                    _save(content, file)
    if len(written) > NAMED:
        typer.echo(f"wrote {len(written)} files for {len(paths) - wrong} pictures in {folder}")
    else:
        for path in written:
            typer.echo(f"wrote {path}")
    return wrong


def _explain(paths: Sequence[Path], names: Sequence[str]) -> None:
    for path, name in zip(paths, names, strict=True):
        if str(path) != STDIN and name != path.stem:
            end = ENDINGS["edges"]
            complain(f"{path} is written as {name}{end}: another has the name {path.stem}")


def _read(path: Path) -> NDArray[np.uint8]:
    import numpy as np

    from hnets.data.image_file import LARGEST, read_image

    if str(path) != STDIN:
        return np.asarray(read_image(path, smallest=1, largest=2 * LARGEST))
    held = io.BytesIO(sys.stdin.buffer.read())
    return np.asarray(read_image(held, smallest=1, largest=2 * LARGEST, name="stdin"))


def _made(
    detector: EdgeDetector,
    image: NDArray[np.uint8],
    kinds: Sequence[str],
    scales: Sequence[float],
) -> Iterator[tuple[str, Image.Image | Oriented]]:
    """What is asked for, pictures and arrays, one at a time: they may be large."""
    from hnets.predict import Oriented, thin_across
    from hnets.predict.rendering import edges_image, orientation_image, overlay_image

    if set(kinds) & {"thin", "orientation", "npz"}:
        strength, angle = detector.oriented(image, scales)
    else:
        strength = angle = detector(image, scales)  # nobody asks for the angle
    make: dict[str, Callable[[], Image.Image | Oriented]] = {
        "edges": lambda: edges_image(strength),
        "thin": lambda: edges_image(thin_across(strength, angle)),
        "orientation": lambda: orientation_image(strength, angle),
        "overlay": lambda: overlay_image(image, strength),
        "npz": lambda: Oriented(strength, angle),
    }
    for kind in kinds:
        yield kind, make[kind]()


def _save(content: Image.Image | Oriented, file: IO[bytes]) -> None:
    import numpy as np

    if isinstance(content, tuple):
        np.savez(file, magnitude=content.strength, angle=content.angle)
    else:
        content.save(file, format="PNG")


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    """Shows which of many pictures is being worked on."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    quiet = total < 2 or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=quiet) as progress:
        task = progress.add_task("", total=total)
        started = iter(range(total))
        yield lambda name: progress.update(task, description=name, completed=next(started))
