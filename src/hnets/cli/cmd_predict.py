"""``hnets predict``."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hnets.cli.command_line import Device, app, check_folder, complain, progress_bar
from hnets.errors import InputError

if TYPE_CHECKING:
    from hnets.predict import ClassPrediction, ImageClassifier, Segmenter

FOLDER = Path("predict-out")
PORTION = 64
"""Images that are decoded, by threads, before they go through the network together."""


@app.command()
def predict(
    weights: Annotated[
        str, typer.Argument(help="What hnets train wrote: the folder of a run, or a file in it.")
    ],
    images: Annotated[
        list[str], typer.Argument(metavar="IMAGE...", help="Images, folders, or patterns.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", show_default=f"{FOLDER} for masks",
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
    device: Device = None,
) -> None:  # fmt: skip
    """Use a network that hnets train taught on a folder of images.

    One that learned classes says which class each image is of. One that learned
    masks writes NAME.mask.png for each image: of its size, white where pixels
    are marked.

    \b
    hnets predict runs/pictures-small new.jpg            a table
    hnets predict runs/pictures-small photos -o new.csv  and all probabilities
    hnets predict runs/pictures-segment photos -o masks  a mask for each image
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
        failed = _classify(ImageClassifier(network, place), list(folders), out, as_json)
    else:
        failed = _segment(Segmenter(network, place), folders, out or FOLDER, kinds, as_json)
    if failed or errors:
        raise typer.Exit(2)


def _classify(
    classifier: ImageClassifier, paths: list[Path], out: Path | None, as_json: bool
) -> int:
    """Print and write the classes of images; how many could not be read."""
    if out is not None:
        if out.suffix.lower() != ".csv" or out.is_dir():
            message = f"expected a file that ends in .csv, got {str(out)!r}"
            raise typer.BadParameter(message, param_hint="--out")
        check_folder(out.parent)
    rows: dict[Path, ClassPrediction] = {}
    for portion in _portions(paths, classifier.network.prepare):
        rows |= zip(portion, classifier.predictions(list(portion.values())), strict=True)
    if as_json:
        typer.echo(json.dumps([_facts(path, each) for path, each in rows.items()]))
    elif rows:
        _print_classes(rows)
    if rows and out is not None:
        _write_csv(rows, classifier.classes, out)
        typer.echo(f"wrote {out}", err=as_json)
    return len(paths) - len(rows)


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


def _write_csv(rows: Mapping[Path, ClassPrediction], classes: tuple[str, ...], out: Path) -> None:
    from hnets.files import replacing

    with (
        replacing(out) as part,
        # A name of a file or a class that is not UTF-8 keeps its bytes.
        part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file,
    ):
        writer = csv.writer(file)
        writer.writerow(["file", "class", "confidence", *classes])
        for path, each in rows.items():
            values = (f"{value:.6f}" for value in each.probabilities)
            writer.writerow([path, each.name, f"{each.confidence:.6f}", *values])


def _ending(kind: str) -> str:
    """How the names of files end that show a segmentation in one of the kinds of `Segmenter`."""
    return f".{kind}.png"


def _segment(
    segmenter: Segmenter,
    folders: Mapping[Path, Path],
    out: Path,
    kinds: list[str],
    as_json: bool,
) -> int:
    """Write the masks of images, and say so; how many could not be written."""
    from hnets.files import replacing
    from hnets.predict.batch import FOR_ALL, output_names
    from hnets.predict.image_input import rgb

    check_folder(out)
    rows = list[dict[str, Any]]()
    paths = output_names(folders, out, [_ending(kind) for kind in kinds])
    with progress_bar(len(paths)) as show:
        for image, name in zip(folders, paths, strict=True):
            show(image.name)
            try:
                pixels = rgb(image)
                probability = segmenter(pixels)
                files = [name.with_name(f"{name.name}{_ending(kind)}") for kind in kinds]
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
    if as_json:
        typer.echo(json.dumps(rows))
    return len(paths) - len(rows)
