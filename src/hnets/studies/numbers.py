"""The numbers of a study as rows of text, for a terminal or a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hnets.plot.style import percent
from hnets.studies.cost_rule import CostRule
from hnets.studies.equivariance import SOURCES, NetworkErrors
from hnets.studies.filters import FilterStudy, totals
from hnets.studies.stability import Stability

__all__ = [
    "Numbers",
    "cost_numbers",
    "equivariance_numbers",
    "filter_numbers",
    "stability_numbers",
]


@dataclass(frozen=True)
class Numbers:
    """A table; its first column holds names, the others numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def stability_numbers(study: Stability) -> Numbers:
    """Deviations by layer and order, a column for each kind of patch."""
    rows = []
    for layer in dict.fromkeys(response.layer for response in study.responses):
        columns = [study.find(layer, kind) for kind in study.shown]
        for row in zip(*columns, strict=True):
            name = layer if row[0].order is None else f"{layer}, m = {row[0].order}"
            rows.append((name, *(percent(each.deviation) for each in row)))
    title = "deviation of the magnitude from its mean over a full turn"
    return Numbers(title, ("layer", *(f"{kind} patches" for kind in study.shown)), tuple(rows))


def filter_numbers(study: FilterStudy) -> Numbers:
    """Blank filters and near-copies of every layer of both networks."""
    rows = []
    for name, layers in ((study.network, study.layers), (study.plain, study.plain_layers)):
        for layer in layers:
            phases = (f"{layer.phases.size:,}", f"{layer.evenness:.2f}")
            counts = (f"{layer.count:,}", str(layer.blank), str(layer.copies))
            told = phases if layer.phases.size else ("", "")
            rows.append((f"{name}, {layer.name}", *counts, *told))
        count, blank, copies = totals(layers)
        rows.append((f"{name}, all layers", f"{count:,}", percent(blank), percent(copies), "", ""))
    header = ("filters of", "number", "blank", "near-copies", "phases", "evenness")
    title = "filters that do nothing new, and how evenly phases are spread"
    return Numbers(title, header, tuple(rows))


def equivariance_numbers(study: NetworkErrors, angles: Sequence[float] = (45, 90, 180)) -> Numbers:
    """Errors at some angles, and where they come from, in percent."""
    shown = [float(angle) for angle in angles if angle in study.angles]
    rows = []
    for layer in study.layers:
        errors = [layer.errors[study.angles.index(angle)] for angle in shown]
        numbers = [*errors, layer.total, *(layer.sources[source] for source in SOURCES)]
        rows.append((layer.name, *(percent(number).removesuffix(" %") for number in numbers)))
    title = f"{study.network}: error of turned maps in percent, and where it comes from"
    header = ("step", *(f"{angle:g}°" for angle in shown), "all", *SOURCES)
    return Numbers(title, header, tuple(rows))


def cost_numbers(rule: CostRule) -> Numbers:
    """What the networks beside the rule cost."""
    rows = tuple(
        (name, f"{report.parameters:,}", f"{report.multiplications:,}")
        for name, report in rule.networks.items()
    )
    return Numbers("cost of a picture", ("network", "parameters", "multiplications"), rows)
