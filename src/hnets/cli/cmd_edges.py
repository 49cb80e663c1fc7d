"""``hnets edges``."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from hnets.cli.command_line import Device, app, check_folder, complain, progress_bar
from hnets.errors import InputError

FOLDER = Path("edges-out")
NAMED = 12
"""Files that are named when they are written; of more, only the number is said."""


@app.command()
def edges(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT...", help="Images, folders, patterns, or - for stdin."),
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
        bool, typer.Option("--overlay", help="Also on the image: NAME.overlay.png.")
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
            metavar="X,X,...", show_default="1", help="Average the outputs at these scales."
        ),
    ] = None,
    device: Device = None,
) -> None:  # fmt: skip
    """Find the edges in images, and which way they run.

    Writes NAME.edges.png for each image: of its size, black where there is no
    edge, white where the network is sure of one.

    \b
    hnets edges photo.jpg                    edges-out/photo.edges.png
    hnets edges photos "more/*.png" -o maps  a folder and a pattern
    hnets edges photo.jpg --orientation      and coloured by direction
    hnets edges photo.jpg --scale 0.5,1,1.5  slower, often better
    hnets edges - < photo.jpg > edges.png    in a pipe, also with --thin or
                                             another one of these
    """
    from hnets.predict.batch import KINDS, STDIN, EdgeWriter, find_images, output_names

    scales = _scales(scale or ["1"])
    asked = {"thin": thin, "orientation": orientation, "overlay": overlay, "npz": npz}
    kinds = [kind for kind, wanted in asked.items() if wanted]
    piped = str(out) == STDIN or (out is None and inputs == [STDIN])
    folder = out or FOLDER
    if piped:
        _check_stdout(kinds)
    else:
        check_folder(folder)
        kinds = ["edges", *kinds]
    paths, errors = find_images(inputs, skip=tuple(KINDS.values()))
    if piped and len(paths) > 1:
        raise typer.BadParameter(
            f"expected one image for stdout, got {len(paths)}; give a folder with -o"
        )
    for error in errors:
        complain(str(error))
    if not paths:
        raise typer.Exit(2)
    names = output_names(paths, folder, [KINDS[kind] for kind in kinds])
    work = EdgeWriter(kinds or ["edges"], scales, device)
    written, wrong = list[Path](), len(errors)
    with progress_bar(len(paths)) as show:
        for path, name in zip(paths, names, strict=True):
            show(str(path))
            stdin = str(path) == STDIN
            try:
                source = _stdin() if stdin else path
                if piped:
                    work.write_to(sys.stdout.buffer, source, name)
                    continue
                if not stdin and name != path.stem:
                    file = f"{name}{KINDS['edges']}"
                    complain(f"{path} is written as {file}: another has the name {path.stem}")
                written += work(source, folder, name)
            except InputError as error:
                complain(str(error))
                wrong += 1
    if len(written) > NAMED:
        images = len(written) // len(kinds)
        typer.echo(f"wrote {len(written)} files for {images} images in {folder}")
    else:
        for path in written:
            typer.echo(f"wrote {path}")
    if wrong:
        raise typer.Exit(2)


def _scales(texts: Sequence[str]) -> list[float]:
    from hnets.predict import SCALES

    low, high = SCALES
    scales = []
    for text in ",".join(texts).split(","):
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
    if sys.stdout is None or sys.stdout.isatty():
        kind = "closed stdout" if sys.stdout is None else "terminal"
        raise typer.BadParameter(
            f"expected stdout to be a file or a pipe, got a {kind}; write > edges.png, or give a "
            "folder with -o"
        )


def _stdin() -> io.BytesIO:
    if sys.stdin is None:
        raise InputError("stdin is closed; write < photo.jpg, or give the path of an image")
    return io.BytesIO(sys.stdin.buffer.read())
