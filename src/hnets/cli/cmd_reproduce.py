"""``hnets reproduce``: the paper's tables and figures, and results beyond it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from hnets.cli.cmd_train import Changes
from hnets.cli.command_line import Device, check_page, group, make_folder, parser, whole
from hnets.errors import InputError
from hnets.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hnets.studies.tables import ResultTable
    from hnets.train import Recipe

reproduce = group(
    "reproduce",
    "The paper's tables and figures, and results beyond it: stored, or trained again.",
)

Rows = Annotated[
    str,
    typer.Option(
        metavar="NAME,...", help="Recipes to show or train, with commas between; else all."
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the page of what ships too, such as docs/results.md."),
]
Thresholds = Annotated[int, whole(1, 999, "How many the benchmark scores at.")]
Train = Annotated[
    bool, typer.Option("--train", help="Train again instead of showing stored results.")
]
Seeds = Annotated[int, whole(1, 100, "Runs per recipe.", "N")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for what is written.")]
Resume = Annotated[bool, typer.Option("--resume", help="Continue a training that was stopped.")]
_OF_TRAINING = ("changes", "device", "resume", "seeds", "sizes", "thresholds")
"""Parameters of commands that only a training has a use for."""


@dataclass(frozen=True)
class _Retraining:
    """Whether and how to train again: the options that six commands share."""

    context: typer.Context
    train: bool
    seeds: int
    changes: list[str] | None
    out: Path
    resume: bool
    device: str | None

    def __post_init__(self) -> None:
        """Refuse options that have no effect on what ships."""
        for name in _OF_TRAINING:
            source = self.context.get_parameter_source(name)
            if source is not None and source.name == "COMMANDLINE" and not self.train:
                raise typer.BadParameter(
                    "expected together with --train, got it alone; add --train",
                    param_hint="--set" if name == "changes" else f"--{name}",
                )

    def results(
        self,
        names: Iterable[str],
        shipped: Callable[[list[str]], dict[str, Any]],
        retrain: Callable[..., dict[str, Any]],
        read: Callable[[str, list[str]], Recipe] | None = None,
    ) -> tuple[dict[str, Any], Console]:
        """The stored results of the recipes, or those of training again; and where to print it."""
        from hnets.train import joined, read_recipe

        if not self.train:
            return shipped(list(names)), Console(markup=False, highlight=False)
        recipes = {name: (read or read_recipe)(name, self.changes or []) for name in names}
        for name, recipe in recipes.items():
            if recipe.data.test != "test":
                raise InputError(
                    f'{name}: expected data.test = "test", got {recipe.data.test!r}; results are '
                    "of the test set"
                )
        with joined(self.device) as team:
            make_folder(self.out)
            console = Console(quiet=not team.leads, markup=False, highlight=False)
            return retrain(recipes, self.seeds, self.out, team, self.resume, console), console

    def show(self, console: Console, *parts: Table | str) -> None:
        """Print a result, and whether it is not of the recipes as they ship."""
        for part in parts:
            console.print(part, crop=False)
        if self.changes:
            names = ", ".join(self.changes)
            console.print(f"Trained with {names}, and not by the recipes as they ship.")


def _error_table(name: str, text: str) -> None:
    """Add the command of a table of errors on rotated MNIST."""

    @reproduce.command(name, help=text)
    def show(
        context: typer.Context,
        rows: Rows = "",
        data: Annotated[
            str,
            typer.Option(
                metavar="NAME",
                help="Digits to learn: rotmnist-r, or rotmnist-c, whose centres do not tell which "
                "way was up.",
            ),
        ] = "rotmnist-r",
        page: Page = None,
        train: Train = False,
        seeds: Seeds = 5,
        changes: Changes = None,
        out: Out = Path("runs", name),
        resume: Resume = False,
        device: Device = None,
    ) -> None:
        from hnets.studies import tables
        from hnets.studies.retrain import train_recipes

        retraining = _Retraining(context, train, seeds, changes, out, resume, device)
        if data not in tables.DIGITS:
            raise typer.BadParameter(
                f"expected {' or '.join(tables.DIGITS)}, got {data!r}", param_hint="--data"
            )
        table = getattr(tables, name.upper()).on(data)
        _show(table, rows, page, train_recipes, retraining)


_error_table(
    "table1",
    """Table 1: test errors on rotated MNIST, beside the published ones.

    With --train every row is trained again: minutes on a GPU, where all rows
    train side by side, and days on a CPU; --rows and --set training.epochs=5
    make it shorter.
    """,
)
_error_table(
    "beyond",
    """Beyond the paper: networks whose nonlinearities mix orders, beside the best published.

    With --train every row is trained again: minutes per seed on a GPU. On a
    CPU take the smallest, --rows rotmnist-r-fourier-tiny, and fewer epochs.
    """,
)


@reproduce.command()
def table2(
    context: typer.Context,
    rows: Rows = "",
    thresholds: Thresholds = 99,
    page: Page = None,
    train: Train = False,
    seeds: Seeds = 3,
    changes: Changes = None,
    out: Out = Path("runs/table2"),
    resume: Resume = False,
    device: Device = None,
) -> None:
    """Table 2: edges on BSDS500, beside the published scores.

    With --train every row is trained again, minutes on a GPU, and then scored
    on the test photographs, some minutes per network on two cores. A training
    can be scored on another machine: copy its folder there and add --resume.
    """
    from hnets.studies.scoring import train_and_score
    from hnets.studies.tables import TABLE2

    retraining = _Retraining(context, train, seeds, changes, out, resume, device)
    retrain = partial(train_and_score, thresholds=thresholds, ways=TABLE2.measured)
    _show(TABLE2, rows, page, retrain, retraining)


@reproduce.command()
def edges(
    context: typer.Context,
    rows: Rows = "",
    thresholds: Thresholds = 99,
    page: Page = None,
    train: Train = False,
    seeds: Seeds = 3,
    changes: Changes = None,
    out: Out = Path("runs/edges"),
    resume: Resume = False,
    device: Device = None,
) -> None:
    """Edges beyond the paper: detectors trained from scratch, beside the best published.

    Prints the table and draws the scores against what each detector costs.
    With --train every row is trained again, minutes per seed on a GPU, and
    then scored as in table2.
    """
    from hnets import plot
    from hnets.studies.scoring import EDGE_WAYS, train_and_score
    from hnets.studies.tables import EDGES, edge_front

    retraining = _Retraining(context, train, seeds, changes, out, resume, device)
    plot.check_matplotlib()
    retrain = partial(train_and_score, thresholds=thresholds, ways=EDGE_WAYS)
    results, console = _show(EDGES, rows, page, retrain, retraining)
    if not console.quiet:
        make_folder(out)
        path = plot.save(plot.front_figure(edge_front(results)), out / "front.png")
        console.print(f"wrote {path}", soft_wrap=True)


@reproduce.command()
def choices(
    context: typer.Context,
    page: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Put the tables into a page too, between marks for them."
        ),
    ] = None,
    train: Train = False,
    seeds: Seeds = 3,
    changes: Changes = None,
    out: Out = Path("runs/choices"),
    resume: Resume = False,
    device: Device = None,
) -> None:
    """What nonlinearity, filters, phases, rings and orders are worth, changed one at a time.

    With --train all 14 networks are trained again, side by side on a GPU, for
    some minutes. What ships is of two seeds: --seeds 2.
    """
    from hnets import plot
    from hnets.studies import choices as study
    from hnets.studies.retrain import shipped_result

    retraining = _Retraining(context, train, seeds, changes, out, resume, device)
    if page is not None:
        study.marked_page(page)
        plot.check_matplotlib()
    result, console = retraining.results(
        [study.RECIPE], lambda _: shipped_result("choices"), study.train_choices
    )
    retraining.show(console, study.choices_numbers(result).rich())
    if page is not None:
        figure = plot.choices_figure(study.measured_choices(result))
        _write(page, study.choices_page(page, result), {study.FIGURE: figure}, console)


@reproduce.command()
def ablation(
    context: typer.Context,
    sizes: Annotated[
        str,
        typer.Option(
            metavar="N,...",
            help="Numbers of training images, with commas between, for --train; else from 500 to "
            "8,000, each twice the one before.",
        ),
    ] = "",
    page: Page = None,
    train: Train = False,
    seeds: Seeds = 3,
    changes: Changes = None,
    out: Out = Path("runs/ablation"),
    resume: Resume = False,
    device: Device = None,
) -> None:
    """The data ablation: accuracy against the number of training images, as a figure."""
    from hnets import plot
    from hnets.studies import ablation as study
    from hnets.studies.retrain import shipped_result

    retraining = _Retraining(context, train, seeds, changes, out, resume, device)
    _check_results_page(page)
    plot.check_matplotlib()
    parse = parser(10, 12000)
    try:
        chosen = tuple(parse(part.strip()) for part in sizes.split(",")) if sizes else study.SIZES
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--sizes") from None
    retrain = partial(study.train_ablation, sizes=chosen)
    result, console = retraining.results(
        study.METHODS.values(), lambda _: shipped_result("ablation"), retrain
    )
    make_folder(out)
    curves = study.ablation_curves(result)
    retraining.show(console, study.ablation_numbers(curves).rich())
    path = plot.save(plot.ablation_figure(curves), out / "ablation.png")
    console.print(f"wrote {path}", soft_wrap=True)
    _write_results(page, console)


@reproduce.command()
def figures(
    out: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder for the figures and the page.")
    ] = Path("figures-out"),
    photo: Annotated[
        Path | None,
        typer.Option(
            metavar="IMAGE", help="An image for those that need one; else one of scikit-image."
        ),
    ] = None,
) -> None:
    """All figures from pretrained weights, and report.html, a page with all of them."""
    from hnets.plot import check_matplotlib
    from hnets.plot.figures_page import write_figures
    from hnets.studies import find_image

    check_matplotlib()
    image = find_image(photo)
    make_folder(out)
    page = write_figures(image, out, lambda path: typer.echo(f"wrote {path}"))
    typer.echo(f"wrote {page}")


def _show(
    table: ResultTable,
    rows: str,
    page: Path | None,
    retrain: Callable[..., dict[str, Any]],
    retraining: _Retraining,
) -> tuple[dict[str, Any], Console]:
    """Print a table, and write the page of results if one is asked for; what is in the table."""
    _check_results_page(page)
    names = [name.strip() for name in rows.split(",") if name.strip()]
    for name in names:
        if name not in table.recipes:
            raise typer.BadParameter(
                f"expected recipes of the table ({', '.join(table.recipes)}), got {name!r}",
                param_hint="--rows",
            )
    results, console = retraining.results(
        names or table.recipes, table.shipped, retrain, table.read
    )
    if table.data and not results:
        chosen = f"of {', '.join(names)}" if names else f"on {table.data}"
        raise InputError(f"no results {chosen} ship: add --train, and take a GPU")
    retraining.show(console, table.terminal(results).rich(), table.note)
    _write_results(page, console)
    return results, console


def _check_results_page(page: Path | None) -> None:
    """See that a page and its figure can be written, before any work is done for them."""
    if page is None:
        return
    from hnets.plot import check_matplotlib

    check_matplotlib()
    check_page(page)


def _write_results(page: Path | None, console: Console) -> None:
    """Write the page of what ships, and its figures."""
    if page is None:
        return
    from hnets.plot import ablation_figure, front_figure
    from hnets.studies.ablation import ablation_curves
    from hnets.studies.retrain import shipped_result
    from hnets.studies.tables import EDGES, FIGURE, FRONT, edge_front, results_page

    figures = {
        FIGURE: ablation_figure(ablation_curves(shipped_result("ablation"))),
        FRONT: front_figure(edge_front(EDGES.shipped())),
    }
    _write(page, results_page(), figures, console)


def _write(page: Path, text: str, figures: Mapping[str, Figure], console: Console) -> None:
    """Write a page, and its figures by their paths from there."""
    from hnets.plot import save

    if console.quiet:  # another process of the training writes it
        return
    paths = [save(figure, page.parent / name) for name, figure in figures.items()]
    with replacing(page) as part:
        part.write_text(text, encoding="utf-8")
    for written in (page, *paths):
        console.print(f"wrote {written}", soft_wrap=True)
