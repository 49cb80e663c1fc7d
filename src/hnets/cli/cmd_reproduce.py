"""``hnets reproduce``: the paper's tables and figures, and what goes past them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import partial
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_type_hints

import typer

from hnets.cli.cmd_train import Changes
from hnets.cli.command_line import Device, app, make_folder, whole
from hnets.errors import InputError
from hnets.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console

    from hnets.studies.tables import ResultTable

reproduce = typer.Typer(
    help="The paper's tables and figures, and what goes past them: as they ship, or trained again."
)
app.add_typer(reproduce, name="reproduce")

Rows = Annotated[str, typer.Option(help="Recipes to show or train, with commas between; else all.")]
Page = Annotated[
    Path | None, typer.Option(help="Write the page of what ships too, such as docs/results.md.")
]


@reproduce.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@dataclass(frozen=True)
class _Retraining:
    """How to train again what ships: options that five commands share."""

    train: Annotated[
        bool, typer.Option("--train", help="Train again instead of showing what ships.")
    ] = False
    seeds: Annotated[
        int, typer.Option(parser=whole(1, 100), metavar="N", help="Runs per recipe.")
    ] = 3
    changes: Changes = None
    out: Annotated[Path, typer.Option(help="Folder for what is written.")] = Path("runs")
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue a training that was stopped.")
    ] = False
    device: Device = None

    def __post_init__(self) -> None:
        self.check("--set", self.changes)
        self.check("--resume", self.resume)

    def check(self, option: str, value: object) -> None:
        """Refuse an option that has no effect on what ships."""
        if value and not self.train:
            raise typer.BadParameter(
                "expected together with --train, got it alone; add --train", param_hint=option
            )

    def results(
        self,
        names: Iterable[str],
        shipped: Callable[[list[str]], dict[str, Any]],
        retrain: Callable[..., dict[str, Any]],
    ) -> tuple[dict[str, Any], Console]:
        """What ships, or what is trained again, of the recipes; and where to print it."""
        from rich.console import Console

        from hnets.train import joined, read_recipe

        if not self.train:
            return shipped(list(names)), Console()
        recipes = {name: read_recipe(name, self.changes or []) for name in names}
        for name, recipe in recipes.items():
            if recipe.data.test != "test":
                raise InputError(
                    f'{name}: expected data.test = "test", got {recipe.data.test!r}; results are '
                    "of the test set"
                )
        with joined(self.device) as team:
            make_folder(self.out)
            console = Console(quiet=not team.leads)
            return retrain(recipes, self.seeds, self.out, team, self.resume, console), console

    def say_changes(self, console: Console) -> None:
        """Say that a result is not of the recipes as they ship."""
        if self.changes:
            text = f"Trained with {', '.join(self.changes)}, and not by the recipes as they ship."
            console.print(text, markup=False, highlight=False)


def _retrainable(**defaults: Any) -> Callable[[Callable[..., None]], None]:
    """Add a command to the group, with the options of `_Retraining` after its own."""

    def add(command: Callable[..., None]) -> None:
        defaults.setdefault("out", Path("runs") / command.__name__)
        hints = get_type_hints(command, include_extras=True)
        hints |= get_type_hints(_Retraining, include_extras=True)
        _, *parameters = signature(command).parameters.values()
        names = [field.name for field in fields(_Retraining)]
        for name in names:
            default = defaults.get(name, getattr(_Retraining, name))
            parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default))

        def run(**values: Any) -> None:
            retraining = _Retraining(**{name: values.pop(name) for name in names})
            command(retraining, **values)

        run.__doc__ = command.__doc__
        run.__annotations__ = {each.name: hints[each.name] for each in parameters}
        cast(Any, run).__signature__ = Signature(
            [each.replace(annotation=hints[each.name]) for each in parameters]
        )
        reproduce.command(command.__name__)(run)

    return add


@_retrainable(seeds=5)
def table1(retraining: _Retraining, rows: Rows = "", page: Page = None) -> None:
    """Table 1: test errors on rotated MNIST, beside the published ones.

    With --train every row is trained again: minutes on a GPU, where all rows train side by side,
    and days on a CPU; --rows and --set training.epochs=5 make it shorter.
    """
    from hnets.studies.retrain import train_recipes
    from hnets.studies.tables import TABLE1

    _show(TABLE1, rows, retraining, train_recipes, page)


@_retrainable(seeds=5)
def beyond(retraining: _Retraining, rows: Rows = "", page: Page = None) -> None:
    """Past the paper: networks whose nonlinearities mix orders, beside the best published.

    With --train every row is trained again: minutes per seed on a GPU. On a CPU take the
    smallest, --rows rotmnist-r-fourier-tiny, and fewer epochs.
    """
    from hnets.studies.retrain import train_recipes
    from hnets.studies.tables import BEYOND

    _show(BEYOND, rows, retraining, train_recipes, page)


@_retrainable()
def table2(
    retraining: _Retraining,
    rows: Rows = "",
    thresholds: Annotated[
        int, typer.Option(parser=whole(1, 999), metavar="1..999", help="Of the benchmark.")
    ] = 99,
    page: Page = None,
) -> None:
    """Table 2: edges on BSDS500, beside the published scores.

    With --train every row is trained again, minutes on a GPU, and then scored on the
    test photographs, some minutes per network on two cores. A training can be scored on
    another machine: copy its folder there and add --resume.
    """
    from hnets.studies.scoring import train_and_score
    from hnets.studies.tables import TABLE2

    _show(TABLE2, rows, retraining, partial(train_and_score, thresholds=thresholds), page)


@_retrainable()
def choices(
    retraining: _Retraining,
    page: Annotated[
        Path | None, typer.Option(help="Put the tables into a page too, between marks for them.")
    ] = None,
) -> None:
    """What nonlinearity, filters, phases, rings and orders are worth, changed one at a time.

    With --train all 14 networks are trained again, side by side on a GPU, for some minutes. What
    ships is of two seeds: --seeds 2.
    """
    from hnets import plot
    from hnets.studies import choices as study
    from hnets.studies.results_store import shipped

    if page is not None:
        study.marked_page(page)
        plot.check_matplotlib()
    result, console = retraining.results(
        [study.RECIPE], lambda _: shipped("choices"), study.train_choices
    )
    console.print(study.choices_numbers(result).rich())
    retraining.say_changes(console)
    if page is not None:
        figure = plot.choices_figure(study.measured_choices(result))
        _write(page, study.choices_page(page, result), figure, study.FIGURE, console)


@_retrainable()
def ablation(
    retraining: _Retraining,
    sizes: Annotated[
        str,
        typer.Option(
            help="Numbers of training images, with commas between, for --train; else from 500 to "
            "8,000, each twice the one before.",
        ),
    ] = "",
    page: Page = None,
) -> None:
    """The data ablation: accuracy against the number of training images, as a figure."""
    from hnets import plot
    from hnets.studies import ablation as study
    from hnets.studies.results_store import shipped

    retraining.check("--sizes", sizes)
    _check_page(page)
    plot.check_matplotlib()
    retrain = partial(study.train_ablation, sizes=_numbers(sizes) if sizes else study.SIZES)
    result, console = retraining.results(
        study.METHODS.values(), lambda _: shipped("ablation"), retrain
    )
    make_folder(retraining.out)
    curves = study.ablation_curves(result)
    console.print(study.ablation_numbers(curves).rich())
    retraining.say_changes(console)
    _say_written(console, plot.save(plot.ablation_figure(curves), retraining.out / "ablation.png"))
    _write_results(page, console)


@reproduce.command()
def figures(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the page.")] = Path(
        "figures-out"
    ),
    photo: Annotated[
        Path | None,
        typer.Option(help="An image for those that need one; else one of scikit-image."),
    ] = None,
) -> None:
    """All figures from the weights that ship, and report.html, one page that holds them."""
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
    retraining: _Retraining,
    retrain: Callable[..., dict[str, Any]],
    page: Path | None,
) -> None:
    """Print a table, and write the page of results if one is asked for."""
    _check_page(page)
    names = [name.strip() for name in rows.split(",") if name.strip()]
    for name in names:
        if name not in table.recipes:
            raise typer.BadParameter(
                f"expected recipes of the table ({', '.join(table.recipes)}), got {name!r}",
                param_hint="--rows",
            )
    results, console = retraining.results(names or table.recipes, table.shipped, retrain)
    console.print(table.terminal(results).rich())
    console.print(table.note, highlight=False)
    retraining.say_changes(console)
    _write_results(page, console)


def _check_page(page: Path | None) -> None:
    """See that a page and its figure can be written, before any work is done for them."""
    if page is None:
        return
    from hnets.plot import check_matplotlib

    check_matplotlib()
    make_folder(page.parent, "--page")
    if page.is_dir():
        raise typer.BadParameter(
            f"expected a file to write, got the folder {str(page)!r}; name one in it",
            param_hint="--page",
        )


def _write_results(page: Path | None, console: Console) -> None:
    """Write the page of what ships, and its figure."""
    if page is None:
        return
    from hnets.plot import ablation_figure
    from hnets.studies.ablation import ablation_curves
    from hnets.studies.results_page import FIGURE, results_page
    from hnets.studies.results_store import shipped

    figure = ablation_figure(ablation_curves(shipped("ablation")))
    _write(page, results_page(), figure, FIGURE, console)


def _write(page: Path, text: str, figure: Figure, name: str, console: Console) -> None:
    from hnets.plot import save

    if console.quiet:  # another process of the training writes it
        return
    path = save(figure, page.parent / name)
    with replacing(page) as part:
        part.write_text(text, encoding="utf-8")
    for written in (page, path):
        _say_written(console, written)


def _say_written(console: Console, path: Path) -> None:
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _numbers(text: str) -> tuple[int, ...]:
    parse = whole(10, 12000)
    try:
        return tuple(parse(part.strip()) for part in text.split(","))
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--sizes") from None
