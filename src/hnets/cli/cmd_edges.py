"""``hnets edges``."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hnets.cli.command_line import (
    Device,
    PlainCommand,
    app,
    check_folder,
    complain,
    progress_bar,
)
from hnets.errors import InputError
from hnets.predict import EDGE_MODEL

if TYPE_CHECKING:
    from hnets.predict import EdgeWorker

FOLDER = Path("edges-out")
_ADDRESS = re.compile(r"auto|local|(ray://)?[^\s/]+:\d+")
"""What may follow --ray; what else does is an input."""
_ANY = "any"
"""The value of --ray without an address."""
NAMED = 12
"""Files that are named when they are written; of more, only the number is said."""


class _Edges(PlainCommand):
    """A command whose option --ray may come without an address, and whose help has scores."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from rich.console import Console

        from hnets.studies.model_cards import detectors_numbers

        super().format_help(ctx, formatter)
        Console(highlight=False).print(detectors_numbers().rich(), crop=False)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for place, word in enumerate(args):
            if word == "--ray" and not _ADDRESS.fullmatch("".join(args[place + 1 : place + 2])):
                args[place] = f"--ray={_ANY}"
        return super().parse_args(ctx, args)


@app.command(cls=_Edges)
def edges(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="INPUT", help="Images, folders, patterns, or - for stdin."),
    ],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", "-o", metavar="FOLDER", show_default="edges-out, or stdout for stdin",
            help="Where to write; - is stdout.",
        ),
    ] = None,
    thin: Annotated[
        bool, typer.Option("--thin", help="Also as lines one pixel wide: NAME.thin.png.")
    ] = False,
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
            metavar="X,X,...", show_default="1", help="Resize images by these factors, and average."
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            "--model", metavar="NAME|FILE",
            help="tiny, small, base or hdsn, as compared below, or weights of your own.",
        ),
    ] = EDGE_MODEL,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast",
            help="Compute in bfloat16, on GPUs and on newer CPUs, there up to 1.8 times as fast.",
        ),
    ] = False,
    skip_existing: Annotated[
        bool,
        typer.Option("--skip-existing", help="Skip images whose output files exist."),
    ] = False,
    device: Device = None,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:PORT]",
            help="Use a Ray cluster, by default of this machine; from and to folders or URLs.",
        ),
    ] = None,
    parquet: Annotated[
        bool,
        typer.Option(
            "--parquet", help="With --ray: rows of Parquet files, also if FOLDER ends in .parquet."
        ),
    ] = False,
) -> None:  # fmt: skip
    """Find the edges in images, and which way they run.

    Writes NAME.edges.png for each image: of its size, black where there is no
    edge, white where the network is sure of one.

    \b
    hnets edges photo.jpg                    edges-out/photo.edges.png
    hnets edges photos "more/*.png" -o maps  a folder with its subfolders, and a
                                             pattern
    hnets edges photos --skip-existing       resume an interrupted job
    hnets edges photo.jpg --orientation      and coloured by direction
    hnets edges photo.jpg --model base       slower, more accurate
    hnets edges photo.jpg --scale 0.5,1,1.5  average over three scales: likewise
    hnets edges - < photo.jpg > edges.png    in a pipe; with --thin, --overlay,
                                             --orientation or --npz, that instead
    hnets edges s3://bucket/photos -o s3://bucket/maps --ray HOST:PORT
                                             on a Ray cluster
    """
    from hnets.predict.batch import (
        KINDS,
        STDIN,
        EdgeWorker,
        find_images,
        output_names,
        outputs_of,
    )

    scales = _scales(scale or ["1"])
    asked = {"thin": thin, "orientation": orientation, "overlay": overlay, "npz": npz}
    kinds = [kind for kind, wanted in asked.items() if wanted]
    if ray is not None:
        address = None if ray == _ANY else ray
        _by_ray(
            inputs, out, ["edges", *kinds], scales, device, address, parquet, skip_existing,
            model, fast,
        )  # fmt: skip
        return
    for text in (*inputs, out or "", *(["--parquet"] if parquet else [])):
        if "://" in text or text == "--parquet":
            raise typer.BadParameter(f"expected --ray with {text}; add it")
    piped = out == STDIN or (out is None and inputs == [STDIN])
    folder = Path(out) if out else FOLDER
    if piped:
        _check_stdout(kinds)
    else:
        check_folder(folder)
        kinds = ["edges", *kinds]
    images, errors = find_images(inputs, skip=tuple(KINDS.values()))
    if piped and len(images) > 1:
        raise typer.BadParameter(
            f"expected one image for stdout, got {len(images)}; give a folder with -o"
        )
    for error in errors:
        complain(str(error))
    if not images:
        raise typer.Exit(2)
    paths = output_names(images, folder, [KINDS[kind] for kind in kinds])
    names = dict(zip(images, paths, strict=True))
    if skip_existing and not piped:
        names = {
            image: name
            for image, name in names.items()
            if not all(file.is_file() for file in outputs_of(name, kinds))
        }
    worker = EdgeWorker(kinds or ["edges"], scales, device, model, fast=fast)
    if piped:
        failed = _to_stdout(worker, *images)
    else:
        failed = _to_folder(worker, names, folder, len(images) - len(names))
    if failed or errors:
        raise typer.Exit(2)


def _to_folder(worker: EdgeWorker, names: Mapping[Path, Path], folder: Path, skipped: int) -> int:
    """Write the edges of images under their names, and say so; how many could not be written."""
    from hnets.data.image_file import stderr_lock
    from hnets.files import remove_stale
    from hnets.predict.batch import KINDS, STDIN, EncodedImage, write_edges

    images, targets, failed = list[EncodedImage](), list[Path](), 0
    for path, name in names.items():
        if str(path) == STDIN:
            try:
                images.append(EncodedImage("stdin", _stdin()))
            except InputError as error:
                complain(str(error))
                failed += 1
                continue
        else:
            images.append(EncodedImage(str(path), path))
            if name.name != path.stem:
                file = f"{name.name}{KINDS['edges']}"
                complain(f"{path} is written as {file}: another has the name {path.stem}")
        targets.append(name)
    remove_stale({name.parent for name in targets})
    few = len(images) <= NAMED
    written, files, started = dict[int, list[Path]](), 0, time.monotonic()
    with progress_bar(len(images)) as show:
        for index, result in write_edges(worker, images, targets):
            show(images[index].name)
            if isinstance(result, InputError):
                with stderr_lock:
                    complain(str(result))
                failed += 1
                continue
            files += len(result)
            if few:
                written[index] = result
    seconds = time.monotonic() - started
    if few and not skipped:
        for _, paths in sorted(written.items()):
            for path in paths:
                typer.echo(f"wrote {path}")
    else:
        number = files // len(worker.kinds)
        _summary(f"{files} files", number, failed, skipped, str(folder), seconds)
    return failed


def _by_ray(
    inputs: Sequence[str],
    out: str | None,
    kinds: Sequence[str],
    scales: Sequence[float],
    device: str | None,
    address: str | None,
    parquet: bool,
    skip_existing: bool,
    model: str,
    fast: bool,
) -> None:
    """Write the edges of the images in a folder or behind a URL, by a Ray cluster."""
    from hnets.predict.cluster import edges_on_ray
    from hnets.predict.storage import is_url

    if len(inputs) > 1 or inputs == ["-"]:
        raise typer.BadParameter(
            f"expected one folder, image or URL with --ray, got {' '.join(inputs)}; an address is "
            "HOST:PORT"
        )
    target = out or str(FOLDER)
    if target == "-":
        raise typer.BadParameter(
            "expected a folder or URL with --ray, got stdout; give one with -o"
        )
    if not is_url(target):
        check_folder(Path(target))
    parquet = parquet or target.split("?")[0].rstrip("/").endswith(".parquet")
    # When the command is interrupted, a thread may still wait for results: Ray would start another
    # cluster for it. Read when Ray is imported.
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    with contextlib.ExitStack() as stack:
        # Where Ray tells at length of workers that died, which its logs do too.
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        outcome = edges_on_ray(
            inputs[0], target, kinds, scales, device, address, parquet, skip_existing,
            weights=model, fast=fast,
            begin=lambda total: stack.enter_context(progress_bar(total)),
        )  # fmt: skip
    what = f"{outcome.written} rows" if parquet else f"{outcome.written * len(kinds)} files"
    _summary(what, outcome.written, outcome.failed, outcome.skipped, target, outcome.seconds)
    if outcome.failed:
        complain(f"{outcome.failed} images failed; {outcome.report} says why")
        raise typer.Exit(2)


def _summary(
    what: str, written: int, failed: int, skipped: int, target: str, seconds: float
) -> None:
    rate = f"{written / seconds:.3g} images/s, " if written else ""
    typer.echo(
        f"wrote {what} for {written} images in {target}: {rate}{failed} failed, {skipped} skipped"
    )


def _to_stdout(worker: EdgeWorker, path: Path) -> int:
    """Write the edges of one image to stdout; 1 if it could not be read."""
    from hnets.predict.batch import STDIN, EncodedImage, Renderings

    stdout = sys.stdout.buffer
    stdin = str(path) == STDIN
    image = EncodedImage("stdin", _stdin()) if stdin else EncodedImage(str(path), path)

    def write(position: int, renderings: Renderings) -> None:
        for _, save in renderings:
            try:
                save(stdout)
                stdout.flush()  # a full disk is an error here, not at the end of the process
            except OSError as error:
                raise OSError(error.errno, error.strerror, stdout.name) from None

    for _, error in worker.stream([image], write):
        if error is not None:
            complain(str(error))
            return 1
    return 0


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


def _stdin() -> bytes:
    if sys.stdin is None:
        raise InputError("stdin is closed; write < photo.jpg, or give the path of an image")
    return sys.stdin.buffer.read()
