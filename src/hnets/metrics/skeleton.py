"""Thin a binary picture to lines one pixel wide, as MATLAB's ``bwmorph(…, 'thin', inf)`` does.

The parallel algorithm of Guo and Hall (1989), in two alternating passes, until neither of them
takes a pixel away. Whether a pass does so depends on the eight neighbours alone, so a pixel is
looked at again only when one of them has gone: each pass then costs as much as it changes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.metrics._jit import compiled

__all__ = ["thin"]


def _passes() -> NDArray[np.bool_]:
    """What each of the two passes takes away, by the bits of the neighbours; (2, 256).

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


_PASSES = _passes()


def thin(mask: ArrayLike) -> NDArray[np.bool_]:
    """The skeleton of a binary picture; lines of one pixel stay as they are.

    >>> thin(np.ones((3, 7))).astype(int)
    array([[0, 0, 0, 0, 0, 0, 0],
           [0, 1, 1, 1, 1, 1, 0],
           [0, 0, 0, 0, 0, 0, 0]])
    """
    return _thin(np.ascontiguousarray(mask, dtype=bool))


@compiled
def _thin(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    height, width = mask.shape
    stride = width + 2
    ink = np.zeros((height + 2) * stride, np.uint8)  # with a frame of zeros, flat
    for y in range(height):
        for x in range(width):
            ink[(y + 1) * stride + x + 1] = mask[y, x]
    around = np.array([1, 1 - stride, -stride, -1 - stride, -1, stride - 1, stride, stride + 1])

    queue = np.empty((2, ink.size), np.int32)  # what each pass has still to look at
    queued = np.zeros((2, ink.size), np.uint8)
    length = np.zeros(2, np.int64)
    for p in range(stride, ink.size - stride):
        if ink[p] and _neighbours(ink, p, around) != 255:  # the inside is not touched at first
            for turn in range(2):
                queue[turn, length[turn]] = p
                queued[turn, p] = 1
                length[turn] += 1

    gone = np.empty(ink.size, np.int32)
    while length[0] or length[1]:
        for turn in range(2):
            n = 0
            for k in range(length[turn]):
                p = queue[turn, k]
                queued[turn, p] = 0
                if ink[p] and _PASSES[turn, _neighbours(ink, p, around)]:
                    gone[n] = p
                    n += 1
            length[turn] = 0
            for p in gone[:n]:
                ink[p] = 0
            for p in gone[:n]:
                for step in around:
                    q = p + step
                    for later in range(2):
                        if ink[q] and not queued[later, q]:
                            queue[later, length[later]] = q
                            queued[later, q] = 1
                            length[later] += 1

    return ink.reshape(height + 2, stride)[1:-1, 1:-1].astype(np.bool_)


@compiled
def _neighbours(ink: NDArray[np.uint8], p: int, around: NDArray[np.int64]) -> int:
    bits = 0
    for k in range(8):
        bits |= ink[p + around[k]] << k
    return bits
