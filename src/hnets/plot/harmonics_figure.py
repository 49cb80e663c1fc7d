"""The circular harmonics with a Gaussian envelope: the paper's first figure of its filters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hnets.basis import grid
from hnets.plot.style import MUTED, bare, new_figure, style
from hnets.predict.rendering import colour_wheel, phase_colours

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
    with style():
        from matplotlib.colors import LinearSegmentedColormap

        signed = LinearSegmentedColormap.from_list("signed", ["#1b5fa8", "white", "#c0392b"])
        columns = len(orders) + 1  # the last holds the legend
        side, left, top = 1.3, 0.42, 0.36
        width, height = left + side * columns, top + 3 * side
        figure = new_figure(width, height)
        axes = figure.subplots(3, columns, squeeze=False)
        figure.subplots_adjust(left / width, 0, 1, 1 - top / height, wspace=0.05, hspace=0.05)
        for column, order in enumerate(orders):
            w = circular_harmonic(order, size)
            for row, part in enumerate((w.real, w.imag)):
                axes[row, column].imshow(part, cmap=signed, vmin=-1, vmax=1)
            axes[2, column].imshow(_round(phase_colours(w, ceiling=1)))
            axes[0, column].set_title(f"m = {order}".replace("-", "−"), fontsize=10, pad=4)
        for row, name in enumerate(("real part", "imaginary part", "phase as colour")):
            axes[row, 0].set_ylabel(name, fontsize=9, labelpad=4)
        axes[2, -1].imshow(colour_wheel(size))
        axes[2, -1].set(xlim=(-0.35 * size, 1.35 * size), ylim=(1.35 * size, -0.35 * size))
        axes[2, -1].set_title("phase", fontsize=8.5, color=MUTED, y=0.84)
        for one in axes.flat:
            bare(one)
    return figure


def _round(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """Colours with a fourth channel that is 1 in the largest disc and 0 outside."""
    radius, _ = grid(len(colours))
    inside = np.clip(len(colours) / 2 - radius, 0, 1)
    return np.concatenate([colours, inside[..., None]], axis=-1)
