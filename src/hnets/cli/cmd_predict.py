"""``hnets predict``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hnets.cli.command_line import Device, app, check_folder, complain, progress_bar
from hnets.errors import InputError

if TYPE_CHECKING:
    from hnets.predict import ClassPrediction, ImageClassifier, Segmenter

FOLDER = Path("predict-out")
PORTION = 64
"""Images that are decoded, by threads, before they go through the network together.

So many rows of a table are lost at most when a job is killed.
"""


@app.command()
def predict(
    weights: Annotated[
        str,
        typer.Argument(
            help="What hnets train wrote: the folder of a run, or a file in it."
        ),
    ],
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE", help="Images, folders, or patterns.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE|FOLDER", show_default=f"{FOLDER} for masks",
            help="Of classes, a .csv file to write as well; of masks, the folder for them.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    probability: Annotated[
        bool, typer.Option("--probability", help="Masks also as grey: NAME.probability.png.")
    ] = False,
    overlay: Annotated[
        bool, typer.Option("--overlay", help="Masks also on the image: NAME.overlay.png.")
    ] = False,
    skip_existing: Annotated[
        bool,
        typer.Option(
            "--skip-existing",
            help="Skip images that have a row in the .csv file, or whose masks exist.",
        ),
    ] = False,
    device: Device = None,
) -> None:  # fmt: skip
    """Use a network that hnets train trained on a folder of images.

    A classifier prints the class of each image. A segmentation network writes
    NAME.mask.png for each image: of its size, white where pixels are foreground.

    \b
    hnets predict runs/pictures-small new.jpg            a table
    hnets predict runs/pictures-small photos -o new.csv  and all probabilities
    hnets predict runs/pictures-segment photos -o masks  a mask for each image
    hnets predict runs/pictures-small photos -o new.csv --skip-existing
                                                         resume an interrupted
                                                         job
    """
    from hnets.predict.batch import find_images

    wanted = {"mask": True, "probability": probability, "overlay": overlay}
    kinds = [kind for kind, is_wanted in wanted.items() if is_wanted]
    folders, errors = find_images(images, skip=[_ending(kind) for kind in wanted])
    for error in errors:
        complain(str(error))
    if not folders:
        raise typer.Exit(2)
    from hnets.devices import preferred
    from hnets.models import load
    from hnets.predict import ImageClassifier, Segmenter
    from hnets.predict.trained_network import learned_by

    network, place = load(weights), device or preferred()
    if learned_by(network, weights)[0] == "classes":
        if len(kinds) > 1:
            message = f"--{kinds[1]} is for masks, and {weights} learned classes; leave it out"
            raise typer.BadParameter(message)
        classifier = ImageClassifier(network, place)
        failed = _classify(classifier, list(folders), out, as_json, skip_existing)
    else:
        segmenter, folder = Segmenter(network, place), out or FOLDER
        failed = _segment(segmenter, folders, folder, kinds, as_json, skip_existing)
    if failed or errors:
        raise typer.Exit(2)


def _classify(
    classifier: ImageClassifier,
    paths: list[Path],
    out: Path | None,
    as_json: bool,
    skip_existing: bool,
) -> int:
    """Print and write the classes of images; how many could not be read."""
    from hnets.predict.batch import place_of
    from hnets.predict.table import GrowingTable

    if out is not None:
        if out.suffix.lower() != ".csv" or out.is_dir():
            message = f"expected a file that ends in .csv, got {str(out)!r}"
            raise typer.BadParameter(message, param_hint="--out")
        check_folder(out.parent)
    elif skip_existing:
        raise typer.BadParameter("--skip-existing needs the .csv file to go on with; name it by -o")
    header = ["file", "class", "confidence", *classifier.classes]
    rows: dict[Path, ClassPrediction] = {}
    with GrowingTable(out, header, skip_existing) if out else nullcontext() as table:
        done_before = {place_of(Path(name)) for name in table.names} if table else set()
        todo = [path for path in paths if place_of(path) not in done_before]
        for portion in _portions(todo, classifier.network.prepare):
            done = dict(zip(portion, classifier.predictions([*portion.values()]), strict=True))
            if table:
                table.add(_cells(path, each) for path, each in done.items())
            rows |= done
    failed, skipped = len(todo) - len(rows), len(paths) - len(todo)
    if as_json:
        typer.echo(json.dumps([_facts(path, each) for path, each in rows.items()]))
    elif rows:
        _print_classes(rows)
    if skip_existing:
        _summary(f"{len(rows)} rows to {out}", failed, skipped, as_json)
    elif rows and out is not None:
        typer.echo(f"wrote {out}", err=as_json)
    return failed


def _summary(what: str, failed: int, skipped: int, as_json: bool) -> None:
    typer.echo(f"wrote {what}: {failed} failed, {skipped} skipped", err=as_json)


def _portions(paths: list[Path], prepare: Callable[[Path], Any]) -> Iterator[dict[Path, Any]]:
    """What ``prepare`` makes of files, some at a time; a line for each that cannot be read."""

    def prepared(path: Path) -> Any:
        try:
            return prepare(path)
        except InputError as error:
            return error

    # Decoders warn of odd metadata; ignored for all threads: each would restore what another set.
    ignored = warnings.catch_warnings(action="ignore")
    with ignored, ThreadPoolExecutor() as pool, progress_bar(len(paths)) as show:
        for start in range(0, len(paths), PORTION):
            portion = paths[start : start + PORTION]
            good = dict[Path, Any]()
            for path, result in zip(portion, pool.map(prepared, portion), strict=True):
                show(path.name)
                if isinstance(result, InputError):
                    complain(str(result))
                else:
                    good[path] = result
            if good:
                yield good


def _print_classes(rows: Mapping[Path, ClassPrediction]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table()
    table.add_column("image", overflow="fold")
    table.add_column("class", overflow="fold", style="bold")
    table.add_column("%", justify="right", no_wrap=True)
    table.add_column("or", overflow="fold")
    table.add_column("%", justify="right", no_wrap=True)
    for path, prediction in rows.items():
        (name, first), (other, second) = prediction.ranked(2)  # there are two classes at least
        # As texts: square brackets in names are no markup.
        cells = (str(path), name, f"{100 * first:.1f}", other, f"{100 * second:.1f}")
        table.add_row(*map(Text, cells))
    Console().print(table)


def _facts(path: Path, prediction: ClassPrediction) -> dict[str, Any]:
    return {
        "file": str(path),
        "class": prediction.name,
        "confidence": round(prediction.confidence, 6),
        "probabilities": {name: round(value, 6) for name, value in prediction.ranked()},
    }


def _cells(path: Path, prediction: ClassPrediction) -> list[str]:
    """A row of the .csv file."""
    values = (prediction.confidence, *prediction.probabilities)
    return [str(path), prediction.name, *(f"{value:.6f}" for value in values)]


def _ending(kind: str) -> str:
    """How the names of files end that show a segmentation in one of the kinds of `Segmenter`."""
    return f".{kind}.png"


def _segment(
    segmenter: Segmenter,
    folders: Mapping[Path, Path],
    out: Path,
    kinds: list[str],
    as_json: bool,
    skip_existing: bool,
) -> int:
    """Write the masks of images, and say so; how many could not be written."""
    from hnets.files import FOR_ALL, remove_stale, replacing
    from hnets.predict.batch import output_names
    from hnets.predict.image_input import rgb

    check_folder(out)
    endings = [_ending(kind) for kind in kinds]
    todo = {
        image: [name.with_name(f"{name.name}{ending}") for ending in endings]
        for image, name in zip(folders, output_names(folders, out, endings), strict=True)
    }
    if skip_existing:
        todo = {
            image: files
            for image, files in todo.items()
            if not all(file.is_file() for file in files)
        }
    remove_stale({files[0].parent for files in todo.values()})
    rows = list[dict[str, Any]]()
    with progress_bar(len(todo)) as show:
        for image, files in todo.items():
            show(image.name)
            try:
                pixels = rgb(image)
                probability = segmenter(pixels)
                for file, kind in zip(files, kinds, strict=True):
                    with replacing(file) as part:
                        segmenter.render(pixels, probability, kind).save(part)
            except InputError as error:
                complain(str(error))
            except OSError as error:
                if error.errno in FOR_ALL:
                    raise
                complain(f"{error.filename} cannot be written ({error.strerror})")
            else:
                share = float((probability >= segmenter.threshold).mean())
                row = {"file": str(image), "marked": round(share, 6), "written": [*map(str, files)]}
                rows.append(row)
                if not as_json:
                    typer.echo(f"wrote {files[0]}  {100 * share:.1f} % of the pixels are marked")
    failed = len(todo) - len(rows)
    if as_json:
        typer.echo(json.dumps(rows))
    if skip_existing:
        number = len(rows) * len(kinds)
        _summary(f"{number} files in {out}", failed, len(folders) - len(todo), as_json)
    return failed
