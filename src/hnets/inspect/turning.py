"""A picture and its feature maps, before and after a turn: what equivariance looks like."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from hnets import functional as F

if TYPE_CHECKING:
    pass

__all__ = ["TurnedMap", "turning_figure"]

_DISC = 0.92
"""Radius, in half pictures, of the disc that is shown and compared."""


@dataclass(frozen=True)
class TurnedMap:
    """One feature map of a picture, and the same one of the turned picture."""

    title: str
    note: str
    """What to look at."""
    upright: NDArray[np.complex128]
    turned: NDArray[np.complex128]
    order: int = 0
    degrees: float = 0.0

    @property
    def moved_back(self) -> NDArray[np.complex128]:
        """The map of the turned picture with its pixels turned back, its phases left alone."""
        parts = np.stack([self.turned.real, self.turned.imag])[None]
        back = F.rotate_pixels(torch.from_numpy(parts), -math.radians(self.degrees))[0].numpy()
        return back[0] + 1j * back[1]

    @property
    def difference(self) -> NDArray[np.complex128]:
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
