"""Boundaries as lines, without a guess which way they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hnets.metrics.suppression import suppress
from hnets.predict.tiles import tiles

__all__ = ["thin_across"]

_FRINGE = 8
"""Pixels around a tile that decide what is left in it: a map fades in 5, and neighbours are asked
up to 3 pixels away, smoothing included."""


def thin_across(
    strength: NDArray[np.floating], angle: NDArray[np.floating], variant: str = "standard"
) -> NDArray[np.float32]:
    """Leave of boundaries the lines on which they are strongest.

    Non-maximum suppression as in `hnets.metrics.suppression`, but across the boundaries as the
    network itself reports them, where the literature estimates that from the map.

    Args:
        strength: ``(height, width)``.
        angle: ``(height, width)``, the direction of the boundary as `EdgeDetector` gives it.
        variant: a name in `hnets.metrics.suppression.VARIANTS`.
    """
    height, width = strength.shape
    thin = np.array(strength, dtype=np.float32)
    if min(height, width) < 2:  # there is no across
        return thin
    for rows, columns in tiles(height, width):
        top, left = max(0, rows.start - _FRINGE), max(0, columns.start - _FRINGE)
        seen = np.s_[top : rows.stop + _FRINGE, left : columns.stop + _FRINGE]
        normal = -(angle[seen] + np.pi / 2)  # as suppression has it, with y down
        kept = suppress(strength[seen], variant, normal)
        kept = kept[rows.start - top :, columns.start - left :][: len(rows), : len(columns)]
        thin[rows.start : rows.stop, columns.start : columns.stop] = kept
    return thin
