"""Boundaries as pictures: in grey, coloured by their orientation, and laid over a photograph.

Colours are those of `hnets.inspect.phase_colours`, of twice the angle: a line is the same after
half a turn, and so is its colour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from hnets.inspect.figures import INK, MUTED, bare, new_figure, style
from hnets.inspect.phase import phase_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "edges_figure",
    "edges_picture",
    "orientation_colours",
    "orientation_picture",
    "orientation_wheel",
    "overlay_picture",
]

_STRIP = 2**18
"""Pixels that are coloured at once: in between they take a hundred bytes each."""
_WHEEL, _ROOM = (48, 160), 96
"""Sides of the legend, and the smallest side of a picture that has room for it."""
_PANEL, _GAP, _TOP, _LEGEND = 3.3, 0.1, 0.56, 1.55
"""Width of a panel of the figure, space between, room for titles and for the wheel, in inches."""
_MARK = np.array([214, 0, 60], np.float32)
"""The colour of boundaries on a photograph."""


def edges_picture(strength: NDArray[np.floating]) -> Image.Image:
    """Strengths from 0 to 1 in 8 bits, black to white."""
    return Image.fromarray(_bytes(lambda part: part[..., None], strength)[..., 0])


def orientation_picture(strength: NDArray[np.floating], angle: NDArray[np.floating]) -> Image.Image:
    """The hue is the direction of a boundary, the brightness its strength.

    A wheel in the corner says which: a line has the colour of the wheel where it points to. Small
    pictures have no room for it.
    """
    image = Image.fromarray(_bytes(orientation_colours, strength, angle))
    side = min(image.size)
    if side >= _ROOM:
        size = int(np.clip(side // 5, *_WHEEL))
        legend = Image.fromarray((255 * orientation_wheel(size)).round().astype(np.uint8))
        at = image.width - size - size // 8, image.height - size - size // 8
        image.paste(legend.convert("RGB"), at, legend.getchannel("A"))
    return image


def overlay_picture(image: NDArray[np.uint8], strength: NDArray[np.floating]) -> Image.Image:
    """Boundaries in red over a photograph ``(height, width, 3)`` that is made paler."""

    def laid(pixels: NDArray[Any], share: NDArray[Any]) -> NDArray[Any]:
        pale = 0.6 * pixels + 0.4 * 255
        return (pale + (_MARK - pale) * share[..., None]) / 255

    return Image.fromarray(_bytes(laid, image, strength))


def orientation_colours(
    strength: ArrayLike, angle: ArrayLike, ceiling: float = 1.0
) -> NDArray[np.float64]:
    """Colours ``(..., 3)`` from 0 to 1 of boundaries; those of strength ``ceiling`` are brightest.

    >>> lines = orientation_colours([1, 1, 0], [0, np.pi / 2, 1])     # lying, standing, none
    >>> lines.round(2)
    array([[1.  , 0.58, 0.54],
           [0.  , 0.85, 0.93],
           [0.  , 0.  , 0.  ]])
    """
    twice = 2j * np.asarray(angle, dtype=np.float64)
    return phase_colours(np.asarray(strength) * np.exp(twice), ceiling)


def orientation_wheel(size: int = 256) -> NDArray[np.float64]:
    """The legend of `orientation_colours`: ``(size, size, 4)``, with alpha.

    >>> orientation_wheel(64).shape
    (64, 64, 4)
    """
    offset = (np.arange(size) - (size - 1) / 2) / (size / 2)
    x, y = offset, -offset[:, None]
    radius = np.hypot(x, y)
    inside = np.clip((1 - radius) * size / 2, 0, 1)  # one pixel of soft edge
    colours = orientation_colours(np.minimum(radius, 1), np.arctan2(y, x))
    return np.concatenate([colours, inside[..., None]], axis=-1)


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


def _bytes(colour: Callable[..., NDArray[Any]], *maps: NDArray[Any]) -> NDArray[np.uint8]:
    """Colours ``(height, width, n)`` in 8 bits, made strip by strip: pictures may be large."""
    height, width = maps[0].shape[:2]
    rows = max(1, _STRIP // width)
    strips = []
    for top in range(0, height, rows):
        values = colour(*(each[top : top + rows] for each in maps))
        strips.append((255 * np.clip(values, 0, 1)).round().astype(np.uint8))
    return np.concatenate(strips)
