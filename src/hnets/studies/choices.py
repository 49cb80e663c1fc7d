"""Which nonlinearity, filters and orders to take: one network, one choice changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from hnets import plot as inspect
from hnets.errors import InputError
from hnets.files import replacing
from hnets.studies import results_store as store
from hnets.studies.results_store import Result
from hnets.studies.retrain import train_recipes
from hnets.train import Recipe, Team, mean_and_spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

__all__ = [
    "CHOICES",
    "NAME",
    "RECIPE",
    "Choice",
    "check_page",
    "figure",
    "page",
    "rich_table",
    "shipped",
    "train_choices",
    "write_page",
]

NAME = "choices"
RECIPE = "rotmnist-r-choices"


@dataclass(frozen=True)
class Choice:
    """What is changed, and to what."""

    option: str
    value: Any
    told: str

    @property
    def name(self) -> str:
        """Under which its result is kept."""
        return f"{NAME}-{self.option}-{self.value}".lower()


CHOICES = {
    "nonlinearity": (
        Choice("nonlinearity", "fourier", "function of the angle (`FourierAct`)"),
        Choice("nonlinearity", "poly", "polynomial of it (`PolyAct`)"),
        Choice("nonlinearity", "gated", "gates (`Gated`)"),
        Choice("nonlinearity", "magnitude", "C-ReLU with batch norm (`HBatchNorm2d`)"),
    ),
    "filters": (
        Choice("share", False, "two for each pair of orders, one on the conjugate"),
        Choice(
            "share", True, "shared by difference of orders, none on the conjugate, as in the paper"
        ),
    ),
    "phases": (
        Choice("phase", "free", "complex weights"),
        Choice("phase", "ring", "one a ring"),
        Choice("phase", "filter", "one a filter, as in the paper"),
        Choice("phase", "none", "none"),
    ),
    "rings": (
        Choice("rings", "gaussian", "Gaussian, at whole pixels"),
        Choice("rings", "exact", "one for each distance, as the paper counts"),
    ),
    "highest order": tuple(Choice("orders", order, str(order)) for order in range(1, 7)),
}
"""By what they decide."""
MIDDLE = {
    "nonlinearity": "fourier",
    "share": False,
    "phase": "free",
    "rings": "gaussian",
    "orders": 3,
}
"""The choices of the recipe itself, which is trained once for all of them."""
MIDDLE_NAME = f"{NAME}-middle"
BEGIN = "<!-- written by hnets reproduce choices -->"
END = "<!-- end -->"
FIGURE = "images/choices.png"


def train_choices(
    recipe: Recipe, seeds: int, out: Path, team: Team, resume: bool, console: Console
) -> Result:
    """Train every choice; the errors by the name of the choice."""
    if recipe.data.test != "test":
        raise InputError(f'choices are compared by data.test = "test", got {recipe.data.test!r}')
    recipe = recipe.replace({f"model.options.{key}": value for key, value in MIDDLE.items()})
    wanted = {
        choice.name: recipe.replace({f"model.options.{choice.option}": choice.value})
        for choices in CHOICES.values()
        for choice in choices
        if not _is_middle(choice)
    }
    wanted = {MIDDLE_NAME: recipe, **wanted}
    results = train_recipes(wanted, seeds, out, team, resume, console)
    return {
        "recipe": recipe.to_dict(),
        "choices": {
            name: {"parameters": result["parameters"], "test": result["summary"]["test"]}
            for name, result in results.items()
        },
        "commit": results[MIDDLE_NAME]["commit"],
        "versions": results[MIDDLE_NAME]["versions"],
    }


def shipped() -> Result:
    """The table that comes with the package."""
    result = store.read(NAME)
    if result is None:
        raise InputError("no choices have been trained: run hnets reproduce choices --train")
    return result


def rich_table(result: Result) -> Table:
    """The table for a terminal."""
    from rich.table import Table

    table = Table(title="One choice at a time: test error on rotated MNIST, %")
    table.add_column("choice")
    table.add_column("of", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("error", justify="right", no_wrap=True)
    for kind, rows in _rows(result).items():
        for number, row in enumerate(rows):
            style = "bold" if row.middle else None
            label = kind if number == 0 else ""
            table.add_row(label, _plain(row), row.parameters, row.error, style=style)
        table.add_section()
    return table


def page(result: Result) -> str:
    """The figure and the tables as Markdown."""
    seeds = result["choices"][MIDDLE_NAME]["test"]["n"]
    parts = [
        f"Percent of the test pictures, mean and standard deviation; seeds of each: {seeds}.",
        f"![Errors of the choices]({FIGURE})",
    ]
    for kind, rows in _rows(result).items():
        lines = [f"| {kind} | parameters | error |", "|---|---|---|"]
        for row in rows:
            mark = "**" if row.middle else ""
            told = f"{mark}{row.choice.told}{mark}"
            lines.append(f"| {told} | {row.parameters} | {mark}{row.error}{mark} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def figure(result: Result) -> Figure:
    """Every error, and how far it is from that of the network itself."""
    return inspect.choices_figure(
        {
            kind: [
                inspect.MeasuredChoice(_plain(row), row.test["mean"], row.test["std"], row.middle)
                for row in rows
            ]
            for kind, rows in _rows(result).items()
        }
    )


def write_page(path: Path, result: Result) -> list[Path]:
    """Put the tables into a page, between the two lines that mark their place; what was written."""
    before, after = check_page(path)
    picture = inspect.save(figure(result), path.parent / FIGURE)
    with replacing(path) as part:
        part.write_text(f"{before}{BEGIN}\n\n{page(result)}\n\n{END}{after}", encoding="utf-8")
    return [path, picture]


def check_page(path: Path) -> tuple[str, str]:
    """What stands before and after the tables of a page that has marks for them."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{path} cannot be read; give a page of text") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"expected {path} to have the lines {BEGIN} and {END}, got neither")
    return before, after


@dataclass(frozen=True)
class _Row:
    choice: Choice
    parameters: str
    test: Mapping[str, float]
    middle: bool

    @property
    def error(self) -> str:
        return mean_and_spread(self.test)


def _is_middle(choice: Choice) -> bool:
    return bool(MIDDLE[choice.option] == choice.value)


def _plain(row: _Row) -> str:
    return row.choice.told.replace("`", "")


def _rows(result: Result) -> Mapping[str, list[_Row]]:
    """By what they decide, the choices that were trained."""
    rows = {}
    for kind, choices in CHOICES.items():
        names = [MIDDLE_NAME if _is_middle(choice) else choice.name for choice in choices]
        rows[kind] = [
            _Row(choice, f"{found['parameters']:,}", found["test"], _is_middle(choice))
            for choice, name in zip(choices, names, strict=True)
            if (found := result["choices"].get(name))
        ]
    return rows
