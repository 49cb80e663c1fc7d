"""Tables of text, for a terminal or a page, and the numbers of studies in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hnets.studies.cost_rule import CostRule
from hnets.studies.equivariance import SOURCES, NetworkErrors
from hnets.studies.filters import FilterStudy, filter_totals
from hnets.studies.stability import Stability

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Numbers:
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    bold: frozenset[int] = frozenset()
    """Rows that stand out, counted from 0."""

    def rich(self, **look: Any) -> Table:
        """The table for a terminal, its numbers at the right; ``look`` is that of rich's Table."""
        from rich.table import Table
        from rich.text import Text

        table = Table(title=self.title or None, **look)
        for name, *cells in zip(self.header, *self.rows, strict=True):
            number = all(cell[:1] in "0123456789." or cell.startswith("exact") for cell in cells)
            justify: Any = "right" if number else "left"
            table.add_column(name, justify=justify, no_wrap=number, overflow="fold")
        for place, row in enumerate(self.rows):
            table.add_row(*map(Text, row), style="bold" if place in self.bold else None)
        return table

    def markdown(self) -> str:
        """The table for a page, without its title."""
        lines = ["| " + " | ".join(row) + " |" for row in (self.header, *self.rows)]
        return "\n".join([lines[0], "|" + "---|" * len(self.header), *lines[1:]])


def percent(share: float) -> str:
    """Two digits of a percentage; nothing for NaN, and "exact" for rounding.

    >>> percent(0.123), percent(0.0123), percent(0.00123), percent(1e-15), percent(0)
    ('12 %', '1.2 %', '0.12 %', 'exact', '0 %')
    """
    if math.isnan(share):
        return ""
    if 0 < share < 1e-9:
        return "exact"
    return f"{100 * share:.{0 if share >= 0.1 or not share else 1 if share >= 0.01 else 2}f} %"


def stability_numbers(study: Stability) -> Numbers:
    """Deviations by layer and order, one column per kind of patch."""
    rows = []
    for layer in dict.fromkeys(response.layer for response in study.responses):
        columns = [study.find(layer, kind) for kind in study.shown]
        for row in zip(*columns, strict=True):
            name = layer if row[0].order is None else f"{layer}, m = {row[0].order}"
            rows.append((name, *(percent(each.deviation) for each in row)))
    title = "deviation of the magnitude from its mean over a full rotation"
    return Numbers(title, ("layer", *(f"{kind} patches" for kind in study.shown)), rows)


def filter_numbers(study: FilterStudy) -> Numbers:
    """Blank filters and near-copies of every layer of both networks."""
    rows = []
    for name, layers in ((study.network, study.layers), (study.plain, study.plain_layers)):
        for layer in layers:
            counts = (f"{layer.count:,}", str(layer.blank), str(layer.copies))
            size = layer.phases.size
            phases = (f"{size:,}", f"{layer.evenness:.2f}") if size else ("", "")
            rows.append((f"{name}, {layer.name}", *counts, *phases))
        count, blank, copies = filter_totals(layers)
        rows.append((f"{name}, all layers", f"{count:,}", percent(blank), percent(copies), "", ""))
    header = ("filters of", "number", "blank", "near-copies", "phases", "evenness")
    title = "filters that do nothing new, and how evenly phases are spread"
    return Numbers(title, header, rows)


def equivariance_numbers(study: NetworkErrors, angles: Sequence[float] = (45, 90, 180)) -> Numbers:
    """Errors at some angles, and where they come from, in percent."""
    shown = [float(angle) for angle in angles if angle in study.angles]
    rows = []
    for layer in study.layers:
        errors = [layer.errors[study.angles.index(angle)] for angle in shown]
        numbers = [*errors, layer.total, *(layer.sources[source] for source in SOURCES)]
        rows.append((layer.name, *(percent(number).removesuffix(" %") for number in numbers)))
    title = f"{study.network}: error of rotated maps in percent, and where it comes from"
    header = ("step", *(f"{angle:g}°" for angle in shown), "all", *SOURCES)
    return Numbers(title, header, rows)


def cost_numbers(rule: CostRule) -> Numbers:
    """What the networks beside the rule cost."""
    rows = [
        (name, f"{report.parameters:,}", f"{report.multiplications:,}")
        for name, report in rule.networks.items()
    ]
    return Numbers("cost per image", ("network", "parameters", "multiplications"), rows)
