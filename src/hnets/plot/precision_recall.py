"""Precision against recall, on lines of equal F-measure: how boundary detectors are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from hnets.plot.style import INK, MUTED, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from hnets.metrics.berkeley import Point, Scores

__all__ = ["precision_recall_figure"]

_COLOURS = ("#1b5fa8", "#c0392b", "#1f8a5b", "#8e5bb5", "#c27c0e", "#3f8f9f")


def precision_recall_figure(
    curves: Mapping[str, Scores], human: Point | None = None, title: str = ""
) -> Figure:
    """Draw a curve for each detector, a dot at its best F, and a mark where people are."""
    with style():
        figure = new_figure(5.4, 5.2)
        axes = figure.subplots()
        _equal_f(axes)
        if human is not None:
            axes.plot(
                human.recall,
                human.precision,
                "o",
                color=INK,
                markersize=7,
                label=f"F = {human.f:.3f}  people",
            )
        best_first = sorted(curves.items(), key=lambda item: -item[1].ods.f)
        for k, (name, scores) in enumerate(best_first):
            drawn = [p for p in scores.curve if p.recall > 0]
            colour = _COLOURS[k % len(_COLOURS)]
            axes.plot(
                [p.recall for p in drawn],
                [p.precision for p in drawn],
                color=colour,
                linewidth=2,
                label=f"F = {scores.ods.f:.3f}  {name}",
            )
            axes.plot(scores.ods.recall, scores.ods.precision, "o", color=colour, markersize=5)
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="recall", ylabel="precision", title=title)
        axes.set_aspect("equal")
        axes.set_xticks(np.linspace(0, 1, 11))
        axes.set_yticks(np.linspace(0, 1, 11))
        axes.tick_params(labelsize=8, colors=MUTED)
        for side in axes.spines.values():
            side.set_color("#d0d7de")
        axes.legend(loc="lower left", fontsize=8.5, framealpha=0.95, edgecolor="#d0d7de")
        figure.tight_layout()
    return figure


def _equal_f(axes: Axes) -> None:
    """Lines on which F is 0.1, 0.2 … 0.9."""
    for f in np.arange(1, 10) / 10:
        recall = np.linspace(f / (2 - f), 1, 200)  # where precision is at most 1
        axes.plot(recall, f * recall / (2 * recall - f), color="#d8e6d8", linewidth=0.8, zorder=0)
        axes.annotate(
            f"{f:.1f}",
            (1, f / (2 - f)),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            fontsize=7,
            color="#7fa37f",
            annotation_clip=False,
        )
