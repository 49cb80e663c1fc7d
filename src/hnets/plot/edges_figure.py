"""A photograph, its edges, and their orientations side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hnets.plot.style import INK, MUTED, bare, new_figure, style
from hnets.predict.rendering import orientation_colours, orientation_wheel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["edges_figure"]

_PANEL, _GAP, _TOP, _LEGEND = 3.3, 0.1, 0.56, 1.55
"""Width of a panel of the figure, space between, room for titles and for the wheel, in inches."""


def edges_figure(
    image: NDArray[np.uint8], strength: NDArray[np.floating], angle: NDArray[np.floating]
) -> Figure:
    """Draw a photograph ``(height, width, 3)``, its boundaries, and which way they run."""
    height, width = strength.shape
    with style():
        high = _PANEL * height / width
        body = max(high, _LEGEND + 0.5)  # the legend has two lines below it
        wide, tall = 3 * _PANEL + 4 * _GAP + _LEGEND, _TOP + body + _GAP
        figure = new_figure(wide, tall)

        def place(left: float, side: float, up: float) -> Axes:
            middle = _GAP + body / 2
            axes = figure.add_axes((left / wide, (middle - up / 2) / tall, side / wide, up / tall))
            bare(axes)
            return axes

        shown = (
            ("picture", "", image),
            ("boundaries", "how sure the network is", 1 - np.stack([strength] * 3, -1)),
            ("orientations", "from the phases of order 1", orientation_colours(strength, angle)),
        )
        for number, (title, note, pixels) in enumerate(shown):
            left = _GAP + number * (_PANEL + _GAP)
            place(left, _PANEL, high).imshow(pixels, interpolation="antialiased", vmin=0, vmax=1)
            for text, up, points, colour, weight in (
                (title, 0.32, 11, INK, "bold"), (note, 0.1, 8.5, MUTED, "normal"),
            ):  # fmt: skip
                at = (left + _PANEL / 2) / wide, (tall - _TOP + up) / tall
                figure.text(*at, text, ha="center", size=points, color=colour, weight=weight)
        side = _LEGEND - 0.15
        _legend(place(wide - side - 0.05, side, side))
    return figure


def _legend(axes: Axes) -> None:
    """The wheel, and some of the directions beside their colours."""
    axes.imshow(orientation_wheel(), extent=(-1, 1, -1, 1))
    for degrees in range(0, 360, 45):
        at = np.exp(1j * np.radians(degrees))
        axes.text(
            1.36 * at.real, 1.3 * at.imag, f"{degrees % 180}°",
            ha="center", va="center", fontsize=7.5, color=MUTED,
        )  # fmt: skip
    axes.set_xlim(-1.7, 1.7)
    axes.set_ylim(-1.7, 1.7)
    axes.text(
        0, -1.75, "a line has the colour\nof its direction",
        ha="center", va="top", fontsize=8.5, color=MUTED, linespacing=1.35,
    )  # fmt: skip
