"""Table 2: boundaries on BSDS500, ours beside the published scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hnets.studies.results_store import Result
from hnets.studies.rows import TABLE2, EdgeRow

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["NOTE", "cells", "markdown", "rich_table"]

PREFIX = "bsds500-"
HEADER = (
    "method",
    "parameters",
    "published ODS / OIS",
    "here ODS / OIS",
    "with suppression",
    "across its own orientation",
    "recipe",
)
NOTE = (
    "Test photographs of BSDS500, nothing pretrained on other data unless marked †. Scores are of "
    "the maps as they come from the network, as in the paper, and after non-maximum suppression, "
    "which the paper did not use: that of the literature, and for the H-DSN one across the "
    "orientation in its own phases."
)


def cells(row: EdgeRow, result: Result | None) -> tuple[str, ...]:
    """What the table says about one method."""
    published = f"{_short(row.ods)} / {_short(row.ois)}"
    if result is None or "scores" not in result:
        return row.method, row.parameters, published, "", "", "", row.recipe
    ways = [_score(result["scores"].get(way)) for way in ("none", "standard", "phase")]
    return row.method, f"{result['parameters']:,}", published, *ways, row.recipe


def _score(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    parts = []
    for name in ("ods", "ois"):
        spread = f" ± {_short(found[name]['std'])}" if found[name]["n"] > 1 else ""
        parts.append(f"{_short(found[name]['mean'])}{spread}")
    return " / ".join(parts)


def _short(score: float) -> str:
    """As the field writes scores.

    >>> _short(0.7264)
    '.726'
    """
    return f"{score:.3f}".removeprefix("0")


def rich_table(results: Mapping[str, Result | None]) -> Table:
    """The table for a terminal."""
    from rich.table import Table

    table = Table(title="Table 2: boundaries on BSDS500, ODS/OIS")
    table.add_column(HEADER[0])
    table.add_column("weights", justify="right")
    for name in ("published", "here", "with sup-\npression", "across its\nphases"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in TABLE2:
        *parts, _ = cells(row, results.get(row.recipe))
        # A narrow terminal has room for two numbers in a line, and not for their deviations.
        narrow = [part.replace(" / ", "/" if "±" not in part else "\n") for part in parts]
        table.add_row(*narrow, style="bold" if row.method == "H-DSN" else None)
    return table


def markdown(results: Mapping[str, Result | None]) -> str:
    """The table for a page; recipes are links to sections of it."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    for row in TABLE2:
        *parts, recipe = cells(row, results.get(row.recipe))
        link = f"[{recipe}](#{recipe})" if recipe else "as published"
        lines.append("| " + " | ".join([*parts, link]) + " |")
    return "\n".join(lines)
