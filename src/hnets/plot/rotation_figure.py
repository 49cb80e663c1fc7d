"""A picture and its feature maps, before and after a turn: what equivariance looks like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hnets import functional as F
from hnets.plot.style import INK, MUTED, bare, new_figure, style
from hnets.predict.rendering import colour_wheel, phase_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["TurnedMap", "turning_figure"]

_DISC = 0.9
"""Radius, in half pictures, of the disc that is shown and compared."""


@dataclass(frozen=True)
class TurnedMap:
    """One feature map of a picture, and the same one of the turned picture."""

    title: str
    note: str
    """What to look at."""
    upright: NDArray[np.inexact]
    """``(h, w)``, complex, or real for a map without phases, which is drawn in greys."""
    turned: NDArray[np.inexact]
    order: int
    degrees: float
    """By how much the picture was turned, counter-clockwise."""

    @property
    def moved_back(self) -> NDArray[np.inexact]:
        """The map of the turned picture with its pixels turned back, its phases left alone."""
        parts = np.stack([self.turned.real, self.turned.imag])[None]
        back = F.rotate_pixels(torch.from_numpy(parts), -math.radians(self.degrees))[0].numpy()
        return back[0] + 1j * back[1] if np.iscomplexobj(self.turned) else back[0]

    @property
    def difference(self) -> NDArray[np.inexact]:
        """What is left of the map when its phases are turned back too: zero in the continuum."""
        phase = np.exp(-1j * self.order * math.radians(self.degrees))
        return self.moved_back * phase - self.upright

    @property
    def error(self) -> float:
        """The norm of the difference, relative to that of the map, inside the disc shown."""
        offsets = [(np.arange(n) - (n - 1) / 2) / (n / 2) for n in self.upright.shape]
        inside = np.hypot(*np.meshgrid(*offsets, indexing="ij")) < _DISC
        norm = np.linalg.norm(self.upright * inside)
        return float(np.linalg.norm(self.difference * inside) / norm) if norm else 0.0


def turning_figure(
    picture: NDArray[np.floating],
    turned: NDArray[np.floating],
    maps: Sequence[TurnedMap],
    degrees: float,
) -> Figure:
    """Draw a picture ``(h, w, 3)`` and its maps: upright, turned, moved back, and what is left.

    A phase is a hue and a magnitude a brightness, as in `hnets.predict.rendering.phase_colours`.
    Each map keeps one scale of brightness down its column.
    """
    with style():
        sheet = _Sheet(rows=4, columns=1 + len(maps))
        names = ("upright", f"turned by {degrees:g}°", "pixels moved back", "what is left")
        for row, name in enumerate(names):
            sheet.label(row, name)
        sheet.title(0, "input", f"a picture, turned by θ = {degrees:g}°")
        _disc(sheet.panel(0, 0), picture)
        _disc(sheet.panel(1, 0), turned)
        _legend(sheet.panel(2, 0), degrees)
        _explanation(sheet.panel(3, 0))
        for column, one in enumerate(maps, start=1):
            sheet.title(column, one.title, one.note)
            ceiling = float(np.percentile(np.abs(one.upright), 99.5))
            for row, z in enumerate((one.upright, one.turned, one.moved_back)):
                colours = phase_colours if np.iscomplexobj(z) else _greys
                _disc(sheet.panel(row, column), colours(z, ceiling))
            axes = sheet.panel(3, column)
            _disc(axes, _greys(one.difference, ceiling))
            axes.set_title(f"{100 * one.error:.0f} %", pad=4)
    return sheet.figure


class _Sheet:
    """A grid of square panels, in inches, with room for titles above and labels at the left."""

    SIDE, GAP, LEFT, TOP, LAST = 2.0, 0.09, 0.36, 0.56, 0.24

    def __init__(self, rows: int, columns: int) -> None:
        self.rows = rows
        self.width = self.LEFT + self.SIDE * columns + 0.1
        self.height = self.TOP + self.SIDE * rows + self.LAST + 0.1
        self.figure = new_figure(self.width, self.height)

    def _corner(self, row: int, column: int) -> tuple[float, float]:
        below = self.LAST if row == self.rows - 1 else 0.0
        return self.LEFT + self.SIDE * column, self.height - self.TOP - self.SIDE * row - below

    def panel(self, row: int, column: int) -> Axes:
        x, y = self._corner(row, column)
        inner = self.SIDE - self.GAP
        box = (x + self.GAP / 2, y - self.SIDE + self.GAP / 2, inner, inner)
        axes = self.figure.add_axes(
            (box[0] / self.width, box[1] / self.height, inner / self.width, inner / self.height)
        )
        bare(axes)
        return axes

    def label(self, row: int, text: str) -> None:
        _, y = self._corner(row, 0)
        self.figure.text(
            0.2 / self.width, (y - self.SIDE / 2) / self.height, text,
            rotation=90, ha="center", va="center", fontsize=10,
        )  # fmt: skip

    def title(self, column: int, text: str, note: str) -> None:
        x = (self._corner(0, column)[0] + self.SIDE / 2) / self.width
        for line, up, size, colour, weight in (
            (text, 0.32, 11, INK, "bold"), (note, 0.1, 8.5, MUTED, "normal"),
        ):  # fmt: skip
            y = (self.height - self.TOP + up) / self.height
            self.figure.text(x, y, line, ha="center", size=size, color=colour, weight=weight)


def _greys(z: NDArray[np.inexact], ceiling: float) -> NDArray[np.float64]:
    bright = np.clip(np.abs(z) / (ceiling or 1), 0, 1)
    return np.repeat(bright[..., None], 3, axis=-1)


def _disc(axes: Axes, colours: NDArray[np.floating]) -> None:
    from matplotlib.patches import Circle

    shown = axes.imshow(colours, extent=(-1, 1, -1, 1), interpolation="antialiased")
    shown.set_clip_path(Circle((0, 0), _DISC, transform=axes.transData))
    axes.set_xlim(-_DISC, _DISC)
    axes.set_ylim(-_DISC, _DISC)


def _legend(axes: Axes, degrees: float) -> None:
    """The colour wheel, with the turn drawn on it."""
    from matplotlib.patches import FancyArrowPatch

    axes.imshow(colour_wheel(), extent=(-1, 1, -1, 1))
    axes.set_xlim(-1.55, 1.55)
    axes.set_ylim(-1.75, 1.35)
    end = math.radians(degrees)
    axes.add_patch(
        FancyArrowPatch(
            (1.12, 0), (1.12 * math.cos(end), 1.12 * math.sin(end)),
            connectionstyle=f"arc3,rad={math.tan(end / 4):.4f}", arrowstyle="-|>",
            mutation_scale=10, color=INK, linewidth=1.2, shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip
    middle = end / 2
    axes.text(1.22 * math.cos(middle), 1.22 * math.sin(middle), f"{degrees:g}°", va="center")
    note = "colour: phase\nbrightness: magnitude"
    axes.text(0, -1.2, note, ha="center", va="top", fontsize=8.5, color=MUTED, linespacing=1.35)


def _explanation(axes: Axes) -> None:
    text = (
        "Moved back, a map of\norder m differs from the\nupright one by exp(imθ).\n"
        "Without that factor this\nis left, in per cent of\nthe map: the error of\n"
        "working with pixels."
    )
    axes.text(0.5, 0.5, text, ha="center", va="center", fontsize=8.5, color=MUTED,
              linespacing=1.35, transform=axes.transAxes)  # fmt: skip
