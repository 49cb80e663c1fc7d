"""Errors of networks that differ by one choice each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hnets.plot.style import MUTED, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["MeasuredChoice", "choices_figure"]

MIDDLE = "#0b6e4f"


@dataclass(frozen=True)
class MeasuredChoice:
    """The error of one choice, in percent."""

    label: str
    mean: float
    spread: float
    middle: bool
    """Whether it is that of the network from which all others differ by one choice."""


def choices_figure(found: Mapping[str, Sequence[MeasuredChoice]]) -> Figure:
    """A row for each choice, by what they decide; a line at the error of the network itself."""
    with style():
        figure = new_figure(7.2, 0.6 + 0.24 * sum(len(rows) + 1 for rows in found.values()))
        axes = figure.subplots()
        labels, headings = list[str](), list[int]()
        for kind, rows in found.items():
            headings.append(len(labels))
            labels.append(kind)
            for row in rows:
                colour = MIDDLE if row.middle else MUTED
                place = -len(labels)
                axes.errorbar(row.mean, place, xerr=row.spread, fmt="o", color=colour, capsize=2)
                labels.append(row.label)
        middle = next((row.mean for rows in found.values() for row in rows if row.middle), None)
        if middle is not None:
            axes.axvline(middle, color=MIDDLE, linewidth=0.8, alpha=0.5, zorder=0)
        axes.set_yticks([-place for place in range(len(labels))], labels=labels)
        for place in headings:
            axes.get_yticklabels()[place].set_fontweight("bold")
        axes.set_ylim(0.4 - len(labels), 0.6)
        axes.set_xlabel("test error, %")
        axes.grid(axis="x", color=MUTED, alpha=0.2, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        figure.tight_layout()
    return figure
