"""The circular harmonics with a Gaussian envelope: the paper's first figure of its filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hnets.basis import grid
from hnets.inspect.figures import MUTED, bare, new_figure, style
from hnets.inspect.phase import colour_wheel, phase_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["circular_harmonic", "harmonics_figure"]

_REACH = 2.1
"""Radius at the edge of the picture: exp(−r²) has fallen to one part in a hundred."""


def circular_harmonic(order: int, size: int = 256) -> NDArray[np.complex128]:
    """exp(−r²)·exp(i·order·φ) on ``(size, size)`` pixels, y up.

    >>> w = circular_harmonic(1, size=64)
    >>> bool(np.allclose(circular_harmonic(-1, size=64), w.conj()))
    True
    """
    radius, phi = grid(size)
    r = radius * (2 * _REACH / size)
    return np.exp(-(r**2) + 1j * order * phi)


def harmonics_figure(orders: Sequence[int] = (-2, -1, 0, 1, 2, 3), size: int = 240) -> Figure:
    """Draw the real and imaginary parts of the harmonics, and their phases as colours."""
    columns = len(orders)
    width, wheel = 1.35, 1.0
    with style():
        figure = new_figure(width * columns + wheel + 0.75, 3 * width + 0.55)
        axes = figure.subplots(
            3,
            columns + 1,
            squeeze=False,
            width_ratios=[width] * columns + [wheel],
            gridspec_kw={
                "left": 0.08,
                "right": 0.99,
                "top": 0.92,
                "bottom": 0.02,
                "wspace": 0.06,
                "hspace": 0.06,
            },  # fmt: skip
        )
        for column, order in enumerate(orders):
            w = circular_harmonic(order, size)
            for row, part in enumerate((w.real, w.imag)):
                axes[row, column].imshow(part, cmap="RdBu_r", vmin=-1, vmax=1)
            axes[2, column].imshow(phase_colours(w, ceiling=1))
            axes[0, column].set_title(f"m = {order}".replace("-", "−"))
        for row, name in enumerate(("real", "imaginary", "phase\nas colour")):
            axes[row, 0].set_ylabel(name, color=MUTED)
        axes[2, -1].imshow(colour_wheel(size))
        for one in axes.flat:
            bare(one)
    return figure
