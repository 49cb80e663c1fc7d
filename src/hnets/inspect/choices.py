"""Errors of networks that differ by one choice each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hnets.inspect.figures import MUTED, new_figure, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Measured", "choices_figure"]

OWN = "#0b6e4f"


@dataclass(frozen=True)
class Measured:
    """The error of one choice, in percent."""

    label: str
    mean: float
    spread: float
    own: bool
    """Whether it is that of the network that all others are compared with."""


def choices_figure(found: Mapping[str, Sequence[Measured]]) -> Figure:
    """A row for each choice, by what they decide; a line at the error of the network itself."""
    with style():
        figure = new_figure(7.2, 0.6 + 0.24 * sum(len(rows) + 1 for rows in found.values()))
        axes = figure.subplots()
        labels, own = list[str](), list[float]()
        for kind, rows in found.items():
            labels.append(kind)
            for row in rows:
                place = -len(labels)
                labels.append(row.label)
                colour = OWN if row.own else MUTED
                axes.errorbar(row.mean, place, xerr=row.spread, fmt="o", color=colour, capsize=2)
                own += [row.mean] if row.own else []
        for mean in own[:1]:
            axes.axvline(mean, color=OWN, linewidth=0.8, alpha=0.5, zorder=0)
        axes.set_yticks([-place for place in range(len(labels))], labels=labels)
        for label in axes.get_yticklabels():
            if label.get_text() in found:
                label.set_fontweight("bold")
        axes.set_ylim(0.4 - len(labels), 0.6)
        axes.set_xlabel("test error, %")
        axes.grid(axis="x", color=MUTED, alpha=0.2, linewidth=0.6)
        axes.tick_params(axis="y", length=0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        figure.tight_layout()
    return figure
