"""Which nonlinearity, filters and orders to take: one network, one choice changed at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from hnets.errors import InputError
from hnets.studies.numbers import Numbers
from hnets.studies.retrain import StoredResult, train_recipes, write_study
from hnets.train import Recipe, Team, mean_and_spread

RECIPE = "rotmnist-r-choices"
MIDDLE = {
    "nonlinearity": "fourier",
    "share": False,
    "phase": "free",
    "rings": "gaussian",
    "orders": 3,
}
"""The choices of the recipe itself, which is trained once for all of them."""
MIDDLE_NAME = "choices-middle"


@dataclass(frozen=True)
class Choice:
    """An option of the network, and the value to which it is set."""

    option: str
    value: Any
    label: str

    @property
    def middle(self) -> bool:
        """Whether the recipe itself has it."""
        return bool(MIDDLE[self.option] == self.value)

    @property
    def name(self) -> str:
        """Under which its result is stored."""
        return MIDDLE_NAME if self.middle else f"choices-{self.option}-{self.value}".lower()


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
        Choice("phase", "ring", "one per ring"),
        Choice("phase", "filter", "one per filter, as in the paper"),
        Choice("phase", "none", "none"),
    ),
    "rings": (
        Choice("rings", "gaussian", "Gaussian, at whole pixels"),
        Choice("rings", "exact", "one for each distance, as the paper counts"),
    ),
    "highest order": tuple(Choice("orders", order, str(order)) for order in range(1, 7)),
}
"""By what they decide."""
BEGIN, END = "<!-- written by hnets reproduce choices -->", "<!-- end -->"
FIGURE = "images/choices.png"


@dataclass(frozen=True)
class MeasuredChoice:
    """A choice, and the test error of the network that has it."""

    choice: Choice
    parameters: str
    test: Mapping[str, float]
    """Mean, std and n, the number of seeds, of the error in percent."""

    @property
    def label(self) -> str:
        """Without marks for a page."""
        return self.choice.label.replace("`", "")

    @property
    def error(self) -> str:
        """Mean and deviation as text."""
        return mean_and_spread(self.test)


def train_choices(
    recipes: Mapping[str, Recipe], seeds: int, out: Path, team: Team, resume: bool, console: Console
) -> StoredResult:
    """Train every choice; the errors by the name of the choice, also written to ``out``."""
    recipe = recipes[RECIPE].replace(
        {f"model.options.{key}": value for key, value in MIDDLE.items()}
    )
    changed = {
        choice.name: recipe.replace({f"model.options.{choice.option}": choice.value})
        for choices in CHOICES.values()
        for choice in choices
        if not choice.middle
    }
    results = train_recipes({MIDDLE_NAME: recipe, **changed}, seeds, out, team, resume, console)
    facts = {
        "recipe": recipe.to_dict(),
        "choices": {
            name: {"parameters": result["parameters"], "test": result["summary"]["test"]}
            for name, result in results.items()
        },
    }
    return write_study("choices", facts, results, out, team)


def measured_choices(result: StoredResult) -> dict[str, list[MeasuredChoice]]:
    """The choices that were trained, by what they decide."""
    return {
        kind: [
            MeasuredChoice(choice, f"{one['parameters']:,}", one["test"])
            for choice in choices
            if (one := result["choices"].get(choice.name))
        ]
        for kind, choices in CHOICES.items()
    }


def choices_numbers(result: StoredResult) -> Numbers:
    """All choices in one table."""
    rows: list[tuple[str, ...]] = []
    bold = set()
    for kind, choices in measured_choices(result).items():
        for number, one in enumerate(choices):
            if one.choice.middle:
                bold.add(len(rows))
            rows.append(("" if number else kind, one.label, one.parameters, one.error))
    title = "One choice at a time: test error on rotated MNIST, %"
    return Numbers(title, ("choice", "of", "parameters", "error"), rows, frozenset(bold))


def marked_page(page: Path) -> tuple[str, str]:
    """What stands before and after the tables of a page that has lines to mark their place."""
    try:
        text = page.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InputError(f"{page} cannot be read; give a page of text") from None
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise InputError(f"expected {page} to have the lines {BEGIN} and {END}, got neither")
    return before, after


def choices_page(page: Path, result: StoredResult) -> str:
    """The text of a page, with the tables and the figure between the lines that mark them."""
    before, after = marked_page(page)
    seeds = result["choices"][MIDDLE_NAME]["test"]["n"]
    parts = [
        f"Percent of the test images, mean and standard deviation; seeds of each: {seeds}.",
        f"![Errors of the choices]({FIGURE})",
    ]
    for kind, rows in measured_choices(result).items():
        cells = []
        for row in rows:
            mark = "**" if row.choice.middle else ""
            label, error = (f"{mark}{text}{mark}" for text in (row.choice.label, row.error))
            cells.append((label, row.parameters, error))
        parts.append(Numbers("", (kind, "parameters", "error"), cells).markdown())
    return f"{before}{BEGIN}\n\n" + "\n\n".join(parts) + f"\n\n{END}{after}"
