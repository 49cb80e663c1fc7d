"""Skeletons of binary images, lines one pixel wide, as of MATLAB's ``bwmorph(…, 'thin', inf)``.

The parallel algorithm of Guo and Hall (1989): two alternating passes, until neither removes a
pixel. Whether a pixel is removed depends on its eight neighbours alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def _removals() -> NDArray[np.bool_]:
    """Whether each of the two passes removes a pixel, by the bits of its neighbours; (2, 256).

    Bit 0 is the neighbour to the east, and so on counter-clockwise: the x₁ to x₈ of the paper.
    """
    x = (np.arange(256) >> np.arange(8)[:, None] & 1).astype(bool)  # x₁ is x[0]
    after = np.roll(x, -1, axis=0)
    sides, corners = slice(0, None, 2), slice(1, None, 2)
    # G1: one run of neighbours. G2: neither the end of a line nor inside. G3: on this pass's side.
    g1 = (~x[sides] & (x[corners] | after[corners])).sum(0) == 1
    pairs = np.minimum((x | after)[sides].sum(0), (x | after)[corners].sum(0))
    g2 = (pairs >= 2) & (pairs <= 3)
    g3 = [~((x[i + 1] | x[i + 2] | ~x[(i + 7) % 8]) & x[i]) for i in (0, 4)]
    return np.array([g1 & g2 & side for side in g3])


_REMOVED = _removals()


def skeletonise(mask: ArrayLike) -> NDArray[np.bool_]:
    """The skeleton of a binary image; lines of one pixel stay as they are.

    >>> skeletonise(np.ones((3, 7))).astype(int)
    array([[0, 0, 0, 0, 0, 0, 0],
           [0, 1, 1, 1, 1, 1, 0],
           [0, 0, 0, 0, 0, 0, 0]])
    """
    height, width = np.shape(mask)
    padded = np.zeros((height + 2, width + 2), np.uint8)
    padded[1:-1, 1:-1] = np.asarray(mask, dtype=bool)
    image, stride = padded.reshape(-1), width + 2
    around = (1, 1 - stride, -stride, -1 - stride, -1, stride - 1, stride, stride + 1)
    left, idle, side = np.flatnonzero(image), 0, 0
    while idle < 2:
        neighbours = np.zeros(left.shape, np.uint8)
        for bit, step in enumerate(around):
            neighbours |= image[left + step] << bit
        removed = _REMOVED[side, neighbours]
        image[left[removed]] = 0
        left = left[~removed]
        idle = 0 if removed.any() else idle + 1
        side = 1 - side
    return padded[1:-1, 1:-1].astype(bool)
