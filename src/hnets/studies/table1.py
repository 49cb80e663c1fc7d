"""Table 1: errors on rotated MNIST, ours beside the published ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hnets.studies.results_store import Result
from hnets.studies.rows import TABLE1, Row
from hnets.train import mean_and_spread

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["NOTE", "cells", "markdown", "rich_table"]

HEADER = ("method", "parameters", "published", "here", "recipe")
PREFIX = "rotmnist-r-"
"""What the recipes' names have in common, and a narrow terminal has no room for."""
NOTE = (
    "Percent of test pictures classified wrongly: mean and standard deviation over the seeds. "
    "Published numbers are on the original rotated MNIST, which could not be had; ours are on "
    "rotmnist-r, regenerated from MNIST by the same protocol, so compare rows within a column."
)


def cells(row: Row, result: Result | None) -> tuple[str, str, str, str, str]:
    """What the table says about one method."""
    published = "" if row.published is None else f"{row.published:.3f}".removesuffix("0")
    if result is None:
        return row.method, "", published, "", row.recipe
    parameters = f"{result['parameters']:,}" if result["parameters"] else ""
    found = result["summary"]["test"]
    return row.method, parameters, published, mean_and_spread(found), row.recipe


def rich_table(results: Mapping[str, Result | None]) -> Table:
    """The table for a terminal."""
    from rich.table import Table

    table = Table(title="Table 1: test error on rotated MNIST, %")
    table.add_column(HEADER[0])
    for name in HEADER[1:4]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"{PREFIX}…", no_wrap=True)
    for row in TABLE1:
        style = "bold" if row.method == "H-Net" else None
        *parts, recipe = cells(row, results.get(row.recipe))
        table.add_row(*parts, recipe.removeprefix(PREFIX), style=style)
    return table


def markdown(results: Mapping[str, Result | None]) -> str:
    """The table for a page; recipes are links to sections of it."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---|---|---|---|---|"]
    for row in TABLE1:
        *parts, recipe = cells(row, results.get(row.recipe))
        link = f"[{recipe}](#{recipe})" if recipe else "cannot be run again"
        lines.append("| " + " | ".join([*parts, link]) + " |")
    return "\n".join(lines)
