"""`hnets bench-edges`: score edge maps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from hnets.cli.command_line import app, make_folder, whole

_TITLES = {"none": "without suppression", "standard": "with standard suppression"}


@app.command("bench-edges")
def bench_edges(
    pred_dir: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="Folder with one map per photograph: NAME.png, NAME.npy, or the NAME.edges.png of "
            "hnets edges.",
        ),
    ],
    split: Annotated[
        str,
        typer.Option(metavar="NAME", help="Part of BSDS500: train, val, train+val or test."),
    ] = "test",
    thresholds: Annotated[int, whole(1, 999, "How many thresholds.")] = 99,
    nms: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Non-maximum suppression before thresholding: one or more, with commas, of none, "
            "standard, two-pixels and unsmoothed.",
        ),
    ] = "none,standard",
    jobs: Annotated[int | None, whole(1, 1024, "How many at once; default: all cores.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for the scores and the figure; by default beside the maps.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Score edge maps by the Berkeley benchmark: ODS, OIS and AP.

    Maps are PNG of 8 or 16 bits, or npy with values from 0 to 1, one per
    photograph of BSDS500, which is looked for in the folder HNETS_DATA.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
    from rich.table import Table

    from hnets.data.bsds import photos
    from hnets.files import replacing
    from hnets.metrics.benchmark import HUMAN, find_maps, score_maps
    from hnets.metrics.suppression import VARIANTS
    from hnets.plot import check_matplotlib, precision_recall_figure, save

    suppressions = list(dict.fromkeys(name.strip() for name in nms.split(",")))
    for name in suppressions:
        if name not in VARIANTS:
            raise typer.BadParameter(
                f"expected --nms to name some of {', '.join(VARIANTS)}, got {name!r}"
            )
    check_matplotlib()
    chosen = photos(split)
    maps = find_maps(pred_dir, chosen)
    folder = out or pred_dir.resolve().with_name(f"{pred_dir.resolve().name}-scores")
    make_folder(folder)
    console = Console()
    columns = (BarColumn(bar_width=None), MofNCompleteColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("photographs", total=len(chosen))
        results = score_maps(
            chosen, maps, thresholds, suppressions, jobs, lambda: bar.advance(task)
        )

    human = HUMAN if split == "test" else None
    title = f"BSDS500 {split}, {len(chosen)} photographs, {thresholds} thresholds"
    table = Table("suppression", title=title)
    for name in ("ODS", "OIS", "AP", "threshold", "recall", "precision"):
        table.add_column(name, justify="right")
    for result in results:
        ods = result.scores.ods
        scores = (ods.f, result.scores.ois.f, result.scores.ap)
        best = (ods.threshold or 0.0, ods.recall, ods.precision)
        numbers = [f"{value:.4f}" for value in scores] + [f"{value:.3f}" for value in best]
        table.add_row(result.suppression, *numbers)
    console.print(table)
    if human:
        console.print(
            f"people, each against the others: F {human.f:.3f} (recall {human.recall:.3f}, "
            f"precision {human.precision:.3f})"
        )
    report = {
        "data": f"BSDS500 {split}",
        "maps": str(pred_dir),
        "thresholds": thresholds,
        "suppression": {result.suppression: result.as_dict() for result in results},
    }
    with replacing(folder / "scores.json") as part:
        part.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    typer.echo(f"wrote {folder / 'scores.json'}")
    curves = {_TITLES.get(r.suppression, r.suppression): r.scores for r in results}
    figure = precision_recall_figure(curves, human, title)
    typer.echo(f"wrote {save(figure, folder / 'precision-recall.png')}")
