"""Skeletons of binary images, lines one pixel wide, as of MATLAB's ``bwmorph(…, 'thin', inf)``.

The parallel algorithm of Guo and Hall (1989): two alternating passes, until neither removes a
pixel. Whether a pixel is removed depends on its eight neighbours alone, so it is examined again
only when one of them has been removed: a pass costs as much as it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.errors import MissingExtra

try:
    import numba
except ImportError:
    raise MissingExtra("scores of edges", "numba", "bench") from None

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """A function as machine code, which runs without Python's lock: threads use all cores."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder can be written to: compiled in every process
        return numba.njit(nogil=True)(function)


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
    return _skeletonise(np.ascontiguousarray(mask, dtype=bool))


@compiled
def _skeletonise(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    height, width = mask.shape
    stride = width + 2
    image = np.zeros((height + 2) * stride, np.uint8)  # with a frame of zeros, flat
    for y in range(height):
        for x in range(width):
            image[(y + 1) * stride + x + 1] = mask[y, x]
    around = np.array([1, 1 - stride, -stride, -1 - stride, -1, stride - 1, stride, stride + 1])

    queue = np.empty((2, image.size), np.int32)  # the pixels that each pass has still to examine
    queued = np.zeros((2, image.size), np.uint8)
    length = np.zeros(2, np.int64)
    for p in range(stride, image.size - stride):
        if image[p] and _neighbours(image, p, around) != 255:  # the inside is left alone at first
            for side in range(2):
                queue[side, length[side]] = p
                queued[side, p] = 1
                length[side] += 1

    removed = np.empty(image.size, np.int32)
    while length[0] or length[1]:
        for side in range(2):
            n = 0
            for k in range(length[side]):
                p = queue[side, k]
                queued[side, p] = 0
                if image[p] and _REMOVED[side, _neighbours(image, p, around)]:
                    removed[n] = p
                    n += 1
            length[side] = 0
            for p in removed[:n]:
                image[p] = 0
            for p in removed[:n]:
                for step in around:
                    q = p + step
                    for later in range(2):
                        if image[q] and not queued[later, q]:
                            queue[later, length[later]] = q
                            queued[later, q] = 1
                            length[later] += 1

    return image.reshape(height + 2, stride)[1:-1, 1:-1].astype(np.bool_)


@compiled
def _neighbours(image: NDArray[np.uint8], p: int, around: NDArray[np.int64]) -> int:
    bits = 0
    for k in range(8):
        bits |= image[p + around[k]] << k
    return bits
