"""Numbers against numbers: the ablation, choices, precision and recall, and the cost rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from hnets._cost import Cost, matching_width
from hnets.plot.style import (
    BLUE,
    FRAME,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PURPLE,
    RED,
    TEAL,
    Sheet,
    figure_style,
    light,
)
from hnets.studies.cost_rule import ORDERS, WIDTHS, CostRule

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hnets.metrics.berkeley import Point, Scores
    from hnets.studies.ablation import Curve
    from hnets.studies.choices import MeasuredChoice
    from hnets.studies.tables import FrontPoint

_EXAMPLE = (64, 2)
"""The paper's of the cost rule: 64 channels, and orders 0 and 1."""


@figure_style()
def ablation_figure(curves: Sequence[Curve]) -> Figure:
    """Left as in the paper: accuracy over the method's own best. Right: the error in percent."""
    figure = Sheet(9.2, 4.0).figure
    left, right = figure.subplots(1, 2)
    looks = zip((GREEN, BLUE, ORANGE, RED), "os^D", strict=True)
    for curve, (colour, mark) in zip(curves, looks, strict=True):
        look = {"label": curve.label, "color": colour, "marker": mark, "markersize": 4.5}
        left.plot(curve.x, [mean / max(curve.mean) for mean in curve.mean], **look)
        errors = [100 - mean for mean in curve.mean]
        right.errorbar(curve.x, errors, curve.spread, capsize=2, **look)
    left.set_ylabel("accuracy / the method's best")
    right.set_ylabel("test error, %")
    right.set_yscale("log")
    errors = [100 - mean for curve in curves for mean in curve.mean]
    ticks = [t for t in (1, 2, 5, 10, 20, 50) if min(errors) * 0.8 <= t <= max(errors) * 1.25]
    right.set_yticks(ticks, labels=[str(tick) for tick in ticks])
    sizes = sorted({size for curve in curves for size in curve.x})
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xticks(sizes, labels=[f"{size / 1000:g}" for size in sizes])
        axes.minorticks_off()
        axes.set_xlabel("training images, thousands")
        light(axes)
    left.legend(frameon=False, loc="lower right")
    figure.tight_layout()
    return figure


@figure_style()
def choices_figure(measured: Mapping[str, Sequence[MeasuredChoice]]) -> Figure:
    """One row per choice, by what they decide; a line at the error of the network itself."""
    figure = Sheet(7.2, 0.6 + 0.24 * sum(len(rows) + 1 for rows in measured.values())).figure
    axes = figure.subplots()
    labels, headings = list[str](), list[int]()
    for kind, rows in measured.items():
        headings.append(len(labels))
        labels.append(kind)
        for row in rows:
            colour = GREEN if row.choice.middle else MUTED
            mean, spread = row.test["mean"], row.test["std"]
            axes.errorbar(mean, -len(labels), xerr=spread, fmt="o", color=colour, capsize=2)
            labels.append(row.label)
    means = {row.test["mean"] for rows in measured.values() for row in rows if row.choice.middle}
    for mean in means:  # one, or none
        axes.axvline(mean, color=GREEN, linewidth=0.8, alpha=0.5, zorder=0)
    axes.set_yticks([-place for place in range(len(labels))], labels=labels)
    for place in headings:
        axes.get_yticklabels()[place].set_fontweight("bold")
    axes.set_ylim(0.4 - len(labels), 0.6)
    axes.set_xlabel("test error, %")
    light(axes, "x")
    figure.tight_layout()
    return figure


@figure_style()
def front_figure(points: Sequence[FrontPoint]) -> Figure:
    """ODS against parameters, and against time where that was measured: one dot per detector.

    A line joins the front: detectors better than all that cost no more.
    """
    from matplotlib.patheffects import withStroke

    figure = Sheet(9.2, 4.2).figure
    left, right = figure.subplots(1, 2, sharey=True)
    parameters: list[tuple[float | None, FrontPoint]] = [(each.parameters, each) for each in points]
    for axes, pairs in ((left, parameters), (right, [(each.time, each) for each in points])):
        measured = [(cost, point) for cost, point in pairs if cost is not None]
        for cost, point in measured:
            colour, kind = (GREEN, "trained here") if point.ours else (MUTED, "as published")
            axes.plot(cost, point.ods, "o", color=colour, markersize=6, label=kind)
            # Ours above and others below, so that names of neighbours do not meet.
            away, weight = (6, "bold") if point.ours else (-14, "normal")
            axes.annotate(
                point.name, (cost, point.ods), xytext=(0, away), textcoords="offset points",
                ha="center", fontsize=8.5, color=colour, weight=weight,
                path_effects=[withStroke(linewidth=2.5, foreground="white")],  # over the line
            )  # fmt: skip
        front = list[tuple[float, float]]()
        for cost, ods in sorted((cost, point.ods) for cost, point in measured):
            if all(ods > best for _, best in front):
                front.append((cost, ods))
        axes.plot(*zip(*front, strict=True), color=MUTED, linewidth=0.9, zorder=1, label="front")
    left.set(xlabel="parameters", ylabel="ODS on BSDS500, one scale")
    right.set_xlabel("CPU time, H-DSN = 1")
    _log_ticks(left, {**{1e3 * k: f"{k}k" for k in (20, 50, 100, 200, 500)}, 1e6: "1M"})
    _log_ticks(right, {times: f"{times:g}" for times in (0.2, 0.5, 1, 2, 5, 10)})
    handles, labels = left.get_legend_handles_labels()
    kinds = dict(zip(labels, handles, strict=True))
    left.legend(kinds.values(), kinds.keys(), frameon=False, loc="lower right")
    figure.tight_layout()
    return figure


def _log_ticks(axes: Axes, labels: Mapping[float, str]) -> None:
    """A logarithmic axis with those of the ticks that it reaches."""
    axes.set_xscale("log")
    axes.margins(0.2, 0.15)
    low, high = axes.get_xlim()
    shown = [tick for tick in labels if low <= tick <= high]
    axes.set_xticks(shown, labels=[labels[tick] for tick in shown])
    axes.minorticks_off()
    light(axes)


@figure_style()
def precision_recall_figure(
    curves: Mapping[str, Scores], human: Point | None = None, title: str = ""
) -> Figure:
    """Precision against recall on lines of equal F-measure: one curve per edge detector.

    A dot marks its best F, and another one that of people.
    """
    figure = Sheet(5.4, 5.2).figure
    axes = figure.subplots()
    for f in np.arange(1, 10) / 10:
        recall = np.linspace(f / (2 - f), 1, 200)  # where precision is at most 1
        axes.plot(recall, f * recall / (2 * recall - f), color="#d8e6d8", linewidth=0.8, zorder=0)
        axes.annotate(
            f"{f:.1f}", (1, f / (2 - f)), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=7, color="#7fa37f", annotation_clip=False,
        )  # fmt: skip
    if human is not None:
        label = f"F = {human.f:.3f}  people"
        axes.plot(human.recall, human.precision, "o", color=INK, markersize=7, label=label)
    best_first = sorted(curves.items(), key=lambda item: -item[1].ods.f)
    colours = (BLUE, RED, GREEN, PURPLE, ORANGE, TEAL)
    for number, (name, scores) in enumerate(best_first):
        points = [p for p in scores.curve if p.recall > 0]
        recalls, precisions = [p.recall for p in points], [p.precision for p in points]
        colour, label = colours[number % len(colours)], f"F = {scores.ods.f:.3f}  {name}"
        axes.plot(recalls, precisions, color=colour, linewidth=2, label=label)
        axes.plot(scores.ods.recall, scores.ods.precision, "o", color=colour, markersize=5)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="recall", ylabel="precision", title=title)
    axes.set_aspect("equal")
    axes.set_xticks(np.linspace(0, 1, 11))
    axes.set_yticks(np.linspace(0, 1, 11))
    axes.tick_params(labelsize=8, colors=MUTED)
    axes.spines[:].set_color(FRAME)
    axes.legend(loc="lower left", fontsize=8.5, framealpha=0.95, edgecolor=FRAME)
    figure.tight_layout()
    return figure


@figure_style()
def cost_rule_figure(rule: CostRule) -> Figure:
    """The rule, and the multiplications of its networks layer by layer."""
    figure = Sheet(10.4 if rule.networks else 5.2, 4.1).figure
    left, *rest = figure.subplots(1, 2 if rule.networks else 1, squeeze=False)[0]
    _rule(left, rule)
    for axes in rest:
        _networks(axes, rule.networks)
    figure.tight_layout(w_pad=3)
    return figure


def _rule(axes: Axes, rule: CostRule) -> None:
    colours = dict(zip(ORDERS, (GREEN, BLUE, PURPLE), strict=True))
    for orders, colour in colours.items():
        own = [each for each in rule.widths if each.orders == orders]
        axes.plot((0, WIDTHS[-1]), (0, WIDTHS[-1] / (2 * orders)), color=colour, linewidth=1.2)
        axes.plot(
            [each.plain for each in own], [each.harmonic for each in own], "o",
            color=colour, markersize=5, label=f"f = {orders}: i$_Z$ = {2 * orders} i$_H$",
        )  # fmt: skip
    width, orders = _EXAMPLE
    channels = matching_width(width, orders)
    axes.plot(width, channels, "o", color=colours[orders], markersize=9, markerfacecolor="white")
    axes.annotate(
        f"the paper's example:\n{width} channels cost as much as\n"
        f"{channels} of order 0 and {channels} of order 1",
        (width, channels), (75, 0.6), size=8, color=INK, linespacing=1.35, va="bottom",
        arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkB": 5},
    )  # fmt: skip
    axes.set_xlabel("channels of a plain layer, i$_Z$")
    axes.set_ylabel("complex channels per order of\na harmonic layer, i$_H$")
    axes.set_title("equal multiplications, counted", loc="left", weight="bold")
    axes.set(xlim=(0, 1.03 * WIDTHS[-1]), ylim=(0, 1.08 * WIDTHS[-1] / 2))
    light(axes, "y")
    axes.legend(frameon=False, loc="upper left", title="f orders", alignment="left")


def _networks(axes: Axes, networks: Mapping[str, Cost]) -> None:
    share, longest = 0.8 / len(networks), 0
    for number, (name, report) in enumerate(networks.items()):
        counts = [layer.multiplications / 1e6 for layer in report.layers if layer.multiplications]
        at = [1 + i + (number - (len(networks) - 1) / 2) * share for i in range(len(counts))]
        label = f"{name}: {report.multiplications / 1e6:.1f} M, {report.parameters:,} parameters"
        axes.bar(at, counts, 0.92 * share, color=(BLUE, ORANGE)[number % 2], label=label)
        longest = max(longest, len(counts))
    axes.set_xticks(range(1, longest + 1))
    axes.set_xlabel("layer")
    axes.set_ylabel("million multiplications per image")
    axes.set_title("networks, layer by layer", loc="left", weight="bold")
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
    light(axes, "y")
    axes.legend(frameon=False, loc="upper right")
