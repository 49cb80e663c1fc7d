"""Curves against the number of training pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hnets.plot.style import MUTED, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curve", "ablation_figure"]

COLOURS = ("#0b6e4f", "#3366aa", "#d1791f", "#a2324a")
"""Told apart by readers who see few colours too, as their lightness differs."""
MARKS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class Curve:
    """Mean and standard deviation at some points."""

    label: str
    x: Sequence[int]
    mean: Sequence[float]
    spread: Sequence[float]


def ablation_figure(accuracies: Sequence[Curve]) -> Figure:
    """Left as in the paper: accuracy over the method's own best. Right: the error in percent."""
    with style():
        figure = new_figure(9.2, 4.0)
        left, right = figure.subplots(1, 2)
        for number, curve in enumerate(accuracies):
            best = max(curve.mean)
            look = {"color": COLOURS[number % 4], "marker": MARKS[number % 4], "markersize": 4.5}
            left.plot(curve.x, [mean / best for mean in curve.mean], label=curve.label, **look)
            right.errorbar(
                curve.x,
                [100 - mean for mean in curve.mean],
                curve.spread,
                label=curve.label,
                capsize=2,
                **look,
            )
        left.set_ylabel("accuracy / the method's best")
        right.set_ylabel("test error, %")
        right.set_yscale("log")
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50) if _within(tick, accuracies)]
        right.set_yticks(ticks, labels=[str(tick) for tick in ticks])
        right.minorticks_off()
        for axes in (left, right):
            _frame(axes, accuracies)
        left.legend(frameon=False, loc="lower right")
        figure.tight_layout()
    return figure


def _within(error: float, accuracies: Sequence[Curve]) -> bool:
    errors = [100 - mean for curve in accuracies for mean in curve.mean]
    return min(errors) * 0.8 <= error <= max(errors) * 1.25


def _frame(axes: Axes, accuracies: Sequence[Curve]) -> None:
    sizes = sorted({size for curve in accuracies for size in curve.x})
    axes.set_xscale("log")
    axes.set_xticks(sizes, labels=[f"{size / 1000:g}" for size in sizes])
    axes.minorticks_off()
    axes.set_xlabel("training pictures, thousands")
    axes.grid(color=MUTED, alpha=0.2, linewidth=0.6)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
