"""Accuracy against the angle of rotation, and answers to some of the turned pictures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hnets.plot.style import INK, MUTED, bare, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AnsweredPicture", "accuracy_figure"]

# After Okabe and Ito: colour-blind readers tell them apart. Answers have a mark besides.
_CURVES = ("#0072b2", "#b07c00")
_RIGHT, _WRONG = "#00805f", "#c8480c"


@dataclass(frozen=True)
class AnsweredPicture:
    """A turned picture, what it shows, and what each network takes it for."""

    picture: NDArray[np.floating]
    """``(h, w)``, from 0 to 1."""
    degrees: float
    """By how much it was turned, counter-clockwise."""
    truth: str
    answers: tuple[str, ...]


def accuracy_figure(
    title: str,
    degrees: Sequence[float],
    accuracies: Mapping[str, Sequence[float]],
    pictures: Sequence[AnsweredPicture],
    guessing: float,
) -> Figure:
    """Draw the accuracy of two networks at every angle, and their answers to pictures below.

    Args:
        title: stands above.
        degrees: angles from 0 up; the curves are closed at 360.
        accuracies: in per cent at these angles, by the name of the network.
        pictures: each is drawn below its own angle.
        guessing: what blind guessing reaches, in per cent.
    """
    if len(accuracies) != len(_CURVES):
        raise ValueError(f"the figure compares two networks, got {len(accuracies)}")
    with style():
        sheet = _Sheet()
        sheet.text(0, 0.24, title, size=12.5, weight="bold")
        _curves(sheet.plot, degrees, list(accuracies.values()), guessing)
        for row, (name, values) in enumerate(accuracies.items()):
            sheet.legend(row, f"{name}: {np.mean(values):.1f} % over all angles")
            sheet.whose(row, f"{name} says")
        for each in pictures:
            _disc(sheet.panel(each.degrees), each)
            for row, answer in enumerate(each.answers):
                sheet.answer(row, each.degrees, answer, answer == each.truth)
    return sheet.figure


class _Sheet:
    """A plot and, below its angles, rooms for pictures and for answers; all in inches."""

    LEFT, ACROSS, RIGHT = 1.78, 8.04, 0.64
    TOP, PLOT, AXIS, SIDE, ROW, BOTTOM = 0.82, 2.5, 0.46, 0.98, 0.34, 0.1

    def __init__(self) -> None:
        self.width = self.LEFT + self.ACROSS + self.RIGHT
        self.answers = self.TOP + self.PLOT + self.AXIS + self.SIDE
        self.height = self.answers + 2 * self.ROW + self.BOTTOM
        self.figure = new_figure(self.width, self.height)
        self.plot = self._axes(self.LEFT, self.TOP, self.ACROSS, self.PLOT)

    def panel(self, degrees: float) -> Axes:
        """Room for a picture, below its angle."""
        left = self._at(degrees) - self.SIDE / 2
        axes = self._axes(left, self.answers - self.SIDE, self.SIDE, self.SIDE)
        bare(axes)
        return axes

    def text(self, degrees: float, down: float, text: str, right: float = 0, **look: Any) -> None:
        """Write at an angle and a distance from the upper edge, moved ``right`` a little."""
        x, y = (self._at(degrees) + right) / self.width, 1 - down / self.height
        self.figure.text(x, y, text, **{"va": "center_baseline", **look})

    def legend(self, row: int, text: str) -> None:
        """Name a curve above the plot, where none can run through its name."""
        from matplotlib.lines import Line2D

        down, colour = 0.55, _CURVES[row]
        x, y = self._at(180 * row) / self.width, 1 - down / self.height
        line = Line2D((x, x + 0.26 / self.width), (y, y), color=colour, linewidth=2.6)
        self.figure.add_artist(line)
        self.text(180 * row, down, text, 0.36, size=10, weight="bold", color=colour)

    def whose(self, row: int, text: str) -> None:
        """Say at the left whose answers a row holds."""
        down = self.answers + (row + 0.5) * self.ROW
        self.text(0, down, text, -0.55, color=_CURVES[row], weight="bold", ha="right")

    def answer(self, row: int, degrees: float, text: str, right: bool) -> None:
        """Write an answer below a picture, with a mark that says whether it is right."""
        mark, colour = ("✓", _RIGHT) if right else ("✗", _WRONG)
        down = self.answers + (row + 0.5) * self.ROW
        self.text(degrees, down, text, -0.02, size=14, weight="bold", color=colour, ha="right")
        self.text(degrees, down, mark, 0.05, size=11, color=colour)

    def _at(self, degrees: float) -> float:
        return self.LEFT + degrees / 360 * self.ACROSS

    def _axes(self, left: float, down: float, width: float, height: float) -> Axes:
        low = self.height - down - height
        return self.figure.add_axes(
            (left / self.width, low / self.height, width / self.width, height / self.height)
        )


def _curves(
    axes: Axes, degrees: Sequence[float], curves: Sequence[Sequence[float]], guessing: float
) -> None:
    for values, colour, height in zip(curves, _CURVES, (4, 3), strict=True):
        axes.plot([*degrees, 360], [*values, values[0]], color=colour, linewidth=2.6, marker="o",
                  markersize=4.2, clip_on=False, zorder=height)  # fmt: skip
    axes.axhline(guessing, color=MUTED, linewidth=1, linestyle=(0, (2, 3)), zorder=1)
    axes.annotate("guessing", (1, guessing), (6, 0), size=8, color=MUTED, va="center",
                  xycoords=("axes fraction", "data"), textcoords="offset points")  # fmt: skip
    axes.set(xlim=(0, 360), ylim=(0, 100))
    axes.set_xticks(range(0, 361, 45), [f"{angle}°" for angle in range(0, 361, 45)])
    axes.set_yticks(range(0, 101, 25), [f"{part} %" for part in range(0, 101, 25)])
    axes.set_ylabel("test digits read correctly", labelpad=8)
    axes.grid(color="#d8dee4", linewidth=0.7)
    axes.tick_params(length=0, labelcolor=INK, pad=7)
    axes.set_frame_on(False)


def _disc(axes: Axes, each: AnsweredPicture) -> None:
    """A picture in a disc, and a pointer on its rim to where its upper edge has turned."""
    from matplotlib.patches import Circle, RegularPolygon

    shown = axes.imshow(each.picture, cmap="gray", vmin=0, vmax=1, extent=(-1, 1, -1, 1),
                        interpolation="bicubic")  # fmt: skip
    shown.set_clip_path(Circle((0, 0), 1, transform=axes.transData))
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3))
    turn = math.radians(each.degrees)
    tip = (-1.13 * math.sin(turn), 1.13 * math.cos(turn))
    axes.add_patch(RegularPolygon(tip, 3, radius=0.12, orientation=turn, color=INK))
