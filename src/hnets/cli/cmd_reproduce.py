"""``hnets reproduce``: the paper's tables and figures, and what goes past them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hnets.cli.cmd_train import Changes
from hnets.cli.command_line import Device, app, make_folder, whole
from hnets.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["ablation", "beyond", "choices", "figures", "reproduce", "table1", "table2"]

reproduce = typer.Typer(
    help="The paper's tables and figures, and what goes past them: as they ship, or trained again."
)
app.add_typer(reproduce, name="reproduce")

Train = Annotated[bool, typer.Option("--train", help="Train again instead of showing what ships.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped.")]
Rows = Annotated[str, typer.Option(help="Recipes to show or train, with commas between; else all.")]
Seeds = Annotated[int, typer.Option(parser=whole(1, 100), metavar="N", help="Runs of each recipe.")]
Page = Annotated[
    Path | None,
    typer.Option(help="Write the page of what ships too, such as docs/results.md."),
]


@reproduce.callback(invoke_without_command=True)
def _root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@reproduce.command()
def table1(
    train: Train = False,
    rows: Rows = "",
    seeds: Seeds = 5,
    changes: Changes = None,
    out: Annotated[Path, typer.Option(help="Folder for what --train writes.")] = Path(
        "runs/table1"
    ),
    resume: Resume = False,
    device: Device = None,
    page: Page = None,
) -> None:
    """Table 1: test errors on rotated MNIST, beside the published ones.

    With --train every row is trained again: minutes on a GPU, where all rows train side by side,
    and days on a CPU; --rows and --set training.epochs=5 make it shorter.
    """
    from hnets import studies as paper
    from hnets.studies import table1 as table

    _check_page(page)
    chosen = _chosen(rows, [row.recipe for row in paper.TABLE1 if row.recipe])
    results, console = _results(chosen, train, seeds, changes, out, resume, device)
    console.print(table.rich_table(results))
    console.print(table.NOTE, highlight=False)
    _say_changes(changes, console)
    _write(page, console)


@reproduce.command()
def beyond(
    train: Train = False,
    rows: Rows = "",
    seeds: Seeds = 5,
    changes: Changes = None,
    out: Annotated[Path, typer.Option(help="Folder for what --train writes.")] = Path(
        "runs/beyond"
    ),
    resume: Resume = False,
    device: Device = None,
    page: Page = None,
) -> None:
    """Past the paper: networks whose nonlinearities mix orders, beside the best published.

    With --train every row is trained again: minutes a seed on a GPU. On a CPU take the
    smallest, --rows rotmnist-r-fourier-tiny, and fewer epochs.
    """
    from hnets import studies as paper
    from hnets.studies import beyond as table

    _check_page(page)
    chosen = _chosen(rows, [row.recipe for row in paper.BEYOND if row.recipe])
    results, console = _results(chosen, train, seeds, changes, out, resume, device)
    console.print(table.rich_table(results))
    console.print(table.NOTE, highlight=False)
    _say_changes(changes, console)
    _write(page, console)


@reproduce.command()
def choices(
    train: Train = False,
    seeds: Seeds = 3,
    changes: Changes = None,
    out: Annotated[Path, typer.Option(help="Folder for what --train writes.")] = Path(
        "runs/choices"
    ),
    resume: Resume = False,
    device: Device = None,
    page: Annotated[
        Path | None, typer.Option(help="Put the tables into a page too, between marks for them.")
    ] = None,
) -> None:
    """What nonlinearity, filters, phases, rings and orders are worth, changed one at a time.

    With --train all 14 networks are trained again, side by side on a GPU, for some minutes. What
    ships is of two seeds: --seeds 2.
    """
    from rich.console import Console

    from hnets import plot as inspect
    from hnets import studies as paper
    from hnets.studies import choices as study
    from hnets.studies import results_store as store
    from hnets.train import joined, read_recipe

    _check_train(train, changes, resume)
    console, leads = Console(), True
    if page is not None:  # before any work: can it be written, and is there something to draw with?
        study.check_page(page)
        with inspect.style():
            pass
    if train:
        recipe = read_recipe(study.RECIPE, changes or [])
        with joined(device) as team:
            make_folder(out)
            leads = team.leads
            console = Console(quiet=not leads)
            result = paper.train_choices(recipe, seeds, out, team, resume, console)
            if leads:
                store.write(result, study.NAME, out)
    else:
        result = study.shipped()
    console.print(study.rich_table(result))
    _say_changes(changes, console)
    if page is not None and leads:
        for path in study.write_page(page, result):
            console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


@reproduce.command()
def table2(
    train: Train = False,
    rows: Rows = "",
    seeds: Seeds = 3,
    changes: Changes = None,
    thresholds: Annotated[
        int, typer.Option(parser=whole(1, 999), metavar="1..999", help="Of the benchmark.")
    ] = 99,
    out: Annotated[Path, typer.Option(help="Folder for what --train writes.")] = Path(
        "runs/table2"
    ),
    resume: Resume = False,
    device: Device = None,
    page: Page = None,
) -> None:
    """Table 2: boundaries on BSDS500, beside the published scores.

    With --train every row is trained again, minutes on a GPU, and then scored on the
    test photographs, some minutes a network on two cores. A training can be scored on
    another machine: copy its folder there and add --resume.
    """
    from hnets import studies as paper
    from hnets.studies import table2 as table

    _check_page(page)
    chosen = _chosen(rows, [row.recipe for row in paper.TABLE2 if row.recipe])
    results, console = _results(chosen, train, seeds, changes, out, resume, device, thresholds)
    console.print(table.rich_table(results))
    console.print(table.NOTE, highlight=False)
    _say_changes(changes, console)
    _write(page, console)


@reproduce.command()
def ablation(
    train: Train = False,
    sizes: Annotated[
        str,
        typer.Option(
            help="Numbers of training pictures, with commas between, for --train; else from 500 "
            "to 8,000, each twice the one before.",
        ),
    ] = "",
    seeds: Seeds = 3,
    changes: Changes = None,
    out: Annotated[Path, typer.Option(help="Folder for what is written.")] = Path("runs/ablation"),
    resume: Resume = False,
    device: Device = None,
    page: Page = None,
) -> None:
    """The data ablation: accuracy against the number of training pictures, as a figure."""
    from rich.console import Console

    from hnets import plot as inspect
    from hnets import studies as paper
    from hnets.studies import ablation as study
    from hnets.studies import results_store as store
    from hnets.train import joined, read_recipe

    _check_train(train, changes, resume, sizes)
    _check_page(page)
    with inspect.style():  # is there something to draw with?
        pass
    wanted = _numbers(sizes) if sizes else paper.SIZES
    full = {name: store.read(name) for name in paper.METHODS.values()}
    console = Console()
    if train:
        recipes = {name: read_recipe(name, changes or []) for name in paper.METHODS.values()}
        with joined(device) as team:
            make_folder(out)
            console = Console(quiet=not team.leads)
            result = paper.train_ablation(recipes, wanted, seeds, out, team, resume, console)
            if team.leads:
                store.write(result, study.NAME, out)
    else:
        result = study.shipped()
        make_folder(out)
    curves = study.curves(result, full)
    console.print(study.rich_table(curves))
    _say_changes(changes, console)
    path = inspect.save(study.figure(curves), out / "ablation.png")
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    _write(page, console)


@reproduce.command()
def figures(
    out: Annotated[Path, typer.Option(help="Folder for the figures and the page.")] = Path(
        "figures-out"
    ),
    photo: Annotated[
        Path | None,
        typer.Option(help="A picture for those that need one; else one of scikit-image."),
    ] = None,
) -> None:
    """All figures from the weights that ship, and report.html, one page that holds them."""
    from hnets import plot as inspect
    from hnets.studies import write_figures
    from hnets.studies.turn import load

    with inspect.style():  # is there something to draw with?
        pass
    picture = load(photo)
    make_folder(out)
    page = write_figures(picture, out, lambda path: typer.echo(f"wrote {path}"))
    typer.echo(f"wrote {page}")


def _results(
    chosen: list[str],
    train: bool,
    seeds: int,
    changes: list[str] | None,
    out: Path,
    resume: bool,
    device: str | None,
    thresholds: int = 0,
) -> tuple[dict[str, dict[str, Any]], Console]:
    """What ships, or trained again and, with thresholds, scored; and where to print it."""
    from rich.console import Console

    from hnets import studies as paper
    from hnets.studies import results_store as store
    from hnets.train import joined, read_recipe

    _check_train(train, changes, resume)
    if not train:
        found = {name: store.read(name) for name in chosen}
        return {name: result for name, result in found.items() if result is not None}, Console()
    recipes = {name: read_recipe(name, changes or []) for name in chosen}
    for name, recipe in recipes.items():
        if recipe.data.test != "test":
            raise InputError(
                f'{name}: the table is of data.test = "test", got {recipe.data.test!r}'
            )
    with joined(device) as team:
        make_folder(out)
        console = Console(quiet=not team.leads)
        results = dict(paper.train_recipes(recipes, seeds, out, team, resume, console))
        if thresholds and team.leads:
            results = paper.score_results(results, out, team.device, thresholds, console)
    return results, console


def _check_train(train: bool, changes: list[str] | None, resume: bool, sizes: str = "") -> None:
    """What ships was trained by the recipes as they are: refuse what would change nothing."""
    for given, option in ((changes, "--set"), (resume, "--resume"), (sizes, "--sizes")):
        if given and not train:
            raise typer.BadParameter(
                "expected together with --train, got it alone; add --train", param_hint=option
            )


def _check_page(page: Path | None) -> None:
    """See that a page can be written, before any work is done for it."""
    if page is None:
        return
    make_folder(page.parent, "--page")
    if page.is_dir():
        raise typer.BadParameter(
            f"expected a file to write, got the folder {str(page)!r}; name one in it",
            param_hint="--page",
        )


def _say_changes(changes: list[str] | None, console: Console) -> None:
    if changes:
        told = f"Trained with {', '.join(changes)}, and not by the recipes as they ship."
        console.print(told, markup=False, highlight=False)


def _write(page: Path | None, console: Console) -> None:
    from hnets.studies import write_page

    for path in write_page(page) if page is not None else []:
        console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _chosen(text: str, known: list[str]) -> list[str]:
    chosen = [name.strip() for name in text.split(",") if name.strip()]
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(
                f"expected recipes of the table ({', '.join(known)}), got {name!r}",
                param_hint="--rows",
            )
    return chosen or known


def _numbers(text: str) -> tuple[int, ...]:
    parse = whole(10, 12000)
    try:
        return tuple(parse(part.strip()) for part in text.split(","))
    except typer.BadParameter as error:
        raise typer.BadParameter(error.message, param_hint="--sizes") from None
