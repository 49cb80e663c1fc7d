"""Boundaries as lines, without a guess which way they run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hnets.metrics.suppression import suppress_across
from hnets.predict.windows import tiles

__all__ = ["thin_across"]

_FADING = 5
"""Pixels at the border of a map in which `suppress_across` lets it fade."""


def thin_across(
    strength: NDArray[np.floating], angle: NDArray[np.floating], reach: int = 1
) -> NDArray[np.float32]:
    """Set to zero what is weaker than its neighbours across the boundary.

    Non-maximum suppression as in `hnets.metrics.suppression`, but with the orientation that the
    network reports, where the literature takes it from second derivatives of the map.

    Args:
        strength: ``(height, width)``.
        angle: ``(height, width)``, the direction of the boundary as `BoundaryDetector` gives it.
        reach: how many pixels away neighbours are, up to which all are asked.
    """
    height, width = strength.shape
    thin = np.array(strength, dtype=np.float32)
    if min(height, width) < 2:
        return thin
    fringe = reach + _FADING
    for rows, columns in tiles(height, width):
        top, left = max(0, rows.start - fringe), max(0, columns.start - fringe)
        seen = np.s_[top : rows.stop + fringe, left : columns.stop + fringe]
        normal = -(angle[seen].astype(np.float64) + np.pi / 2)  # as suppression has it, y down
        kept = suppress_across(strength[seen].astype(np.float64), normal, reach)
        kept = kept[rows.start - top :, columns.start - left :][: len(rows), : len(columns)]
        thin[rows.start : rows.stop, columns.start : columns.stop] = kept
    return thin
