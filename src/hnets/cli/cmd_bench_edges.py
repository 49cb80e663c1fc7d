"""The command that scores boundaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hnets.cli.command_line import app, make_folder, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console
    from rich.table import Table

    from hnets.metrics.benchmark import Result

__all__ = ["bench_edges"]

_TITLES = {"none": "without suppression", "standard": "with standard suppression"}


@app.command("bench-edges")
def bench_edges(
    pred_dir: Annotated[
        Path, typer.Argument(help="Folder with a map for each photograph: NAME.png or NAME.npy.")
    ],
    split: Annotated[
        str, typer.Option(help="Part of BSDS500: train, val, train+val or test.")
    ] = "test",
    thresholds: Annotated[
        int, typer.Option(parser=whole(1, 999), metavar="1..999", help="How many thresholds.")
    ] = 99,
    nms: Annotated[
        str,
        typer.Option(
            help="Non-maximum suppression before thresholding: one or more, with commas, of none, "
            "standard, two-pixels and unsmoothed."
        ),
    ] = "none,standard",
    jobs: Annotated[
        int | None,
        typer.Option(
            parser=whole(1, 1024), metavar="1..1024", help="How many at once; all cores if not set."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the scores and the figure; by default beside the maps.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Score boundary maps by the Berkeley benchmark: ODS, OIS and AP.

    Maps are PNG of 8 or 16 bits, or npy with values from 0 to 1, one for each
    photograph of BSDS500. That is looked for where HNETS_DATA says.
    """
    from rich.console import Console

    from hnets import plot as inspect
    from hnets.data.bsds import photos
    from hnets.files import replacing
    from hnets.metrics.benchmark import HUMAN, benchmark
    from hnets.metrics.edge_maps import find_maps
    from hnets.plot.precision_recall import precision_recall_figure

    suppressions = _suppressions(nms)
    with inspect.style():  # before any work: is there something to draw with?
        pass
    wanted = photos(split)
    maps = find_maps(pred_dir, wanted)
    folder = out or pred_dir.resolve().with_name(f"{pred_dir.resolve().name}-scores")
    make_folder(folder)
    console = Console()
    with _bar(len(wanted), console) as progress:
        results = benchmark(wanted, maps, thresholds, suppressions, jobs, progress)

    human = HUMAN if split == "test" else None
    title = f"BSDS500 {split}, {len(wanted)} photographs, {thresholds} thresholds"
    console.print(_table(results, title))
    if human:
        console.print(
            f"people, each against the others: F {human.f:.3f} (recall {human.recall:.3f}, "
            f"precision {human.precision:.3f})"
        )
    facts = {
        "data": f"BSDS500 {split}",
        "maps": str(pred_dir),
        "thresholds": thresholds,
        "suppression": {result.suppression: result.facts() for result in results},
    }
    with replacing(folder / "scores.json") as part:
        part.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"wrote {folder / 'scores.json'}")
    curves = {_TITLES.get(r.suppression, r.suppression): r.scores for r in results}
    figure = precision_recall_figure(curves, human, title)
    typer.echo(f"wrote {inspect.save(figure, folder / 'precision-recall.png')}")


def _suppressions(text: str) -> list[str]:
    from hnets.metrics.suppression import VARIANTS

    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in VARIANTS:
            raise typer.BadParameter(
                f"expected --nms to name some of {', '.join(VARIANTS)}, got {name!r}"
            )
    return names


@contextmanager
def _bar(total: int, console: Console) -> Iterator[Callable[[], None]]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("photographs", total=total)
        yield lambda: progress.advance(task)


def _table(results: Sequence[Result], title: str) -> Table:
    from rich.table import Table

    table = Table(title=title)
    table.add_column("suppression")
    for name in ("ODS", "OIS", "AP", "threshold", "recall", "precision"):
        table.add_column(name, justify="right")
    for result in results:
        ods = result.scores.ods
        numbers = (ods.f, result.scores.ois.f, result.scores.ap)
        table.add_row(
            result.suppression,
            *(f"{number:.4f}" for number in numbers),
            *(f"{number:.3f}" for number in (ods.threshold or 0.0, ods.recall, ods.precision)),
        )
    return table
