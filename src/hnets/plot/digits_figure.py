"""Digits and the answers to them, all round the circle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
from PIL import Image

from hnets.plot.style import INK, MUTED, bare, new_figure, style
from hnets.predict import DigitPrediction, RotatedPredictions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

__all__ = ["TurnedDigit", "digits_figure"]

_SAME, _OTHER, _LINES = "#1b5fa8", "#c0392b", "#d0d7de"
_SIDE, _GAP, _TOP = 1.9, 0.2, 0.34
"""Of a panel, of the space between panels, and of the line of titles above, in inches."""


@dataclass(frozen=True)
class TurnedDigit:
    """A picture and the answers to it."""

    name: str
    picture: Image.Image
    turning: RotatedPredictions


def digits_figure(digits: Sequence[TurnedDigit]) -> Figure:
    """Draw pictures, what the network sees of them, and its confidence at every angle.

    The distance from the middle is the probability of the answer to the picture as it is. Angles at
    which another digit is more probable are marked in red, with that digit.
    """
    with style():
        across = 1 if len(digits) < 4 else 2
        rows = -(-len(digits) // across)
        wide, high = 3 * (_SIDE + _GAP) + _GAP, _SIDE + _TOP + _GAP
        figure = new_figure(across * wide, rows * high)
        for number, digit in enumerate(digits):
            row, column = divmod(number, across)
            _draw(figure, column * wide + _GAP, (rows - row) * high - _TOP, digit)
    return figure


def _draw(figure: Figure, left: float, top: float, digit: TurnedDigit) -> None:
    """Three panels below a line of titles, which begin at a place given in inches."""
    width, height = figure.get_size_inches()
    given = digit.turning.original
    titles = (_short(digit.name), "what the network sees", _answer(given))
    for place, title in enumerate(titles):
        x = left + place * (_SIDE + _GAP)
        figure.text(
            (x + _SIDE / 2) / width, (top + 0.09) / height, title,
            ha="center", color=MUTED if place == 1 else INK, parse_math=False,
        )  # fmt: skip
        inset = 0.24 if place == 2 else 0  # room for what is written round the circle
        inner = _SIDE - 2 * inset
        box = ((x + inset) / width, (top - _SIDE + inset) / height, inner / width, inner / height)
        if place == 2:
            _round(cast("PolarAxes", figure.add_axes(box, projection="polar")), digit.turning)
            continue
        axes = figure.add_axes(box)
        bare(axes)
        if place == 0:
            axes.imshow(digit.picture.convert("RGB"), interpolation="antialiased")
        else:
            axes.imshow(given.seen, cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def _answer(given: DigitPrediction) -> str:
    return f"{given.digit}, {100 * given.confidence:.1f} %"


def _short(name: str, length: int = 26) -> str:
    return name if len(name) <= length else f"{name[: length // 2 - 1]}…{name[-length // 2 :]}"


def _round(axes: PolarAxes, turning: RotatedPredictions) -> None:
    angles = np.radians(turning.angles)
    order = np.argsort(angles % (2 * np.pi))
    closed = np.append(order, order[0])
    axes.plot(angles[closed], turning.confidences[closed], color=MUTED, linewidth=0.8, zorder=2)
    for wanted, colour in ((turning.same, _SAME), (~turning.same, _OTHER)):
        axes.scatter(
            angles[wanted], turning.confidences[wanted], 12, colour, zorder=3, clip_on=False
        )
    for angle, other in zip(angles[~turning.same], turning.digits[~turning.same], strict=True):
        axes.text(angle, 1.15, str(other), color=_OTHER, fontsize=7.5, ha="center", va="center")
    axes.set_theta_zero_location("N")  # the picture as it is; turns go counter-clockwise
    axes.set_ylim(0, 1)
    axes.set_yticks([0.5, 1], ["", ""])
    axes.set_xticks(np.radians([0, 90, 180, 270]), ["0°", "90°", "180°", "270°"])
    axes.tick_params(labelsize=7, labelcolor=MUTED, pad=4)
    axes.grid(color=_LINES, linewidth=0.6)
    axes.spines["polar"].set_color(_LINES)
