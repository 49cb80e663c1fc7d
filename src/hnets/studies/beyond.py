"""Past the paper: errors on rotated MNIST, ours beside what others have published since."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hnets.studies import table1
from hnets.studies.results_store import Result
from hnets.studies.rows import BEYOND, Row
from hnets.train import mean_and_spread

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["NOTE", "cells", "markdown", "rich_table"]

HEADER = ("method", "parameters", "published", "here", "averaged", "recipe")
NOTE = (
    "Percent of test pictures classified wrongly: mean and standard deviation over the seeds. "
    "Averaged: the answers to copies of each picture, turned by equal parts of a quarter turn, are "
    "averaged. Pointing: layers are told in which direction the centre of mass of a digit lies. "
    "Published numbers are on the original rotated MNIST, ours on rotmnist-r."
)


def cells(row: Row, result: Result | None) -> tuple[str, ...]:
    """What the table says about one network."""
    *first, recipe = table1.cells(row, result)
    averaged = None if result is None else result["summary"].get("test, averaged")
    return *first, "" if averaged is None else mean_and_spread(averaged), recipe


def rich_table(results: Mapping[str, Result | None]) -> Table:
    """The table for a terminal."""
    from rich.table import Table

    table = Table(title="Past the paper: test error on rotated MNIST, %")
    table.add_column(HEADER[0])
    for name in HEADER[1:5]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in BEYOND:
        *parts, _ = cells(row, results.get(row.recipe))
        if row.published is not None or row.recipe in results:
            table.add_row(*parts, style="bold" if row.published is None else None)
    return table


def markdown(results: Mapping[str, Result | None]) -> str:
    """The table for a page; recipes are links to sections of it."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for row in BEYOND:
        *parts, recipe = cells(row, results.get(row.recipe))
        lines.append("| " + " | ".join([*parts, f"[{recipe}](#{recipe})" if recipe else ""]) + " |")
    return "\n".join(lines)
