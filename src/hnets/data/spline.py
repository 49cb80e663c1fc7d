"""Rotate and enlarge images by a cubic spline, to the same bits on every machine.

The spline is the one of `scipy.ndimage`: a cubic B-spline through the pixels, mirrored at the
border, and zero outside of the image. Here it is made of single additions, subtractions,
multiplications and divisions of float64 in a fixed order, which IEEE 754 rounds in one way only; a
matrix product, a fused multiply-add or the cosine of a C library may differ in the last bit from
one machine to the next.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]

_POLE = math.sqrt(3) - 2  # of the recursion from pixels to the weights of B-splines
_BLOCK = 32  # images: the arrays of a step then stay in the cache of the processor


def rotate(images: ArrayLike, degrees: ArrayLike, centres: ArrayLike | None = None) -> Floats:
    """Images (n, h, w), each rotated counter-clockwise about its centre by its own angle.

    Given ``centres`` (n, 2), in pixels down and right of the first, an image is rotated about that
    point instead, which comes to lie in the middle. Without them it is what
    `scipy.ndimage.rotate(image, angle, order=3, reshape=False)` computes. Values may leave the
    range of the pixels by a little, as those of a cubic spline do.

    >>> image = np.zeros((1, 5, 5))
    >>> image[0, 0, 2] = 1  # a dot at the top goes to the left
    >>> to_bytes(rotate(image, 90))[0, 2]
    array([255,   0,   0,   0,   0], dtype=uint8)
    """
    images = np.asarray(images, dtype=np.float64)
    n, h, w = images.shape
    cos, sin = (a[:, None, None] for a in cos_sin(np.broadcast_to(degrees, n)))
    middle = np.array([(h - 1) / 2, (w - 1) / 2])
    down, right = np.arange(h)[:, None] - middle[0], np.arange(w)[None, :] - middle[1]
    centres = np.broadcast_to(middle if centres is None else centres, (n, 2))[:, :, None, None]
    rotated = np.empty_like(images)
    for i in range(0, n, _BLOCK):
        part = slice(i, i + _BLOCK)
        rows = cos[part] * down + sin[part] * right + centres[part, 0]
        columns = cos[part] * right - sin[part] * down + centres[part, 1]
        rotated[part] = _sample(images[part], rows, columns)
    return rotated


def resize(images: ArrayLike, side: int, scale: float) -> Floats:
    """Images (n, h, w) enlarged ``scale`` times about their centre, on ``side``² pixels.

    >>> resize(np.ones((1, 3, 3)), side=5, scale=2).round(9)[0, 2]
    array([1., 1., 1., 1., 1.])
    """
    images = np.asarray(images, dtype=np.float64)
    n, h, w = images.shape
    steps = (np.arange(side) - (side - 1) / 2) / scale
    rows = np.broadcast_to(steps[:, None] + (h - 1) / 2, (n, side, side))
    columns = np.broadcast_to(steps[None, :] + (w - 1) / 2, (n, side, side))
    return _sample(images, rows, columns)


def to_bytes(images: Floats) -> NDArray[np.uint8]:
    """Values in [0, 1] as 0 to 255, rounded; others are clipped.

    >>> to_bytes(np.array([-0.1, 0.5, 1.2]))
    array([  0, 128, 255], dtype=uint8)
    """
    return np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8)


def cos_sin(degrees: ArrayLike) -> tuple[Floats, Floats]:
    """Cosine and sine of angles in degrees, exact at multiples of 90°.

    >>> cos_sin([0, 90, 180, 270])
    (array([ 1.,  0., -1.,  0.]), array([ 0.,  1.,  0., -1.]))
    """
    degrees = np.asarray(degrees, dtype=np.float64)
    quarters = np.rint(degrees / 90)
    x = (degrees - 90 * quarters) * (math.pi / 180)  # within 45° of zero, where Taylor is quick
    cos, sin = _taylor(x, 0), _taylor(x, 1)
    quarters = quarters % 4
    cases = [quarters == k for k in range(4)]
    return (
        np.select(cases, [cos, 0 - sin, 0 - cos, sin]),
        np.select(cases, [sin, cos, 0 - sin, 0 - cos]),
    )


def _taylor(x: Floats, first: int) -> Floats:
    """``x^k/k! − x^(k+2)/(k+2)! + …`` from ``k = first``, smallest terms first."""
    total = np.zeros_like(x)
    for k in range(first + 18, first, -2):
        total = (1 - total) * (x * x) / (k * (k - 1))
    return (1 - total) * (x if first else 1)


def _sample(images: Floats, rows: Floats, columns: Floats) -> Floats:
    """The splines through images (n, h, w) at their own points (n, …); zero outside of them."""
    n, h, w = images.shape
    # Each point needs the four weights around it in either direction: mirror one before, two after.
    weights = np.pad(_weights(images), ((0, 0), (1, 2), (1, 2)), mode="reflect")
    stride = w + 3
    inside = (rows >= 0) & (rows <= h - 1) & (columns >= 0) & (columns <= w - 1)
    top, vertical = _taps(np.clip(rows, 0, h - 1))
    left, horizontal = _taps(np.clip(columns, 0, w - 1))
    first = np.arange(n).reshape(-1, *[1] * (rows.ndim - 1)) * ((h + 3) * stride)
    corner = first + top * stride + left

    flat = weights.ravel()
    total = np.zeros(rows.shape)
    for i, down in enumerate(vertical):
        line = np.zeros(rows.shape)
        for j, right in enumerate(horizontal):
            line += right * flat.take(corner + (i * stride + j))
        total += down * line
    return np.where(inside, total, 0)


def _taps(at: Floats) -> tuple[NDArray[np.intp], list[Floats]]:
    """The pixel before each coordinate, and the B-spline at the four pixels around it."""
    before = np.floor(at)
    t = at - before
    s = 1 - t
    first, last = s * s * s / 6, t * t * t / 6
    second = (t * t * (t - 2) * 3 + 4) / 6
    return before.astype(np.intp), [first, second, 1 - first - second - last, last]


def _weights(images: Floats) -> Floats:
    """The weights of the B-splines that pass through the pixels (Unser, 1999)."""
    once = _recursion(images.transpose(1, 0, 2) * 36)  # (h, n, w); 36 is the gain, 6 for each axis
    return _recursion(once.transpose(2, 1, 0)).transpose(1, 2, 0)


def _recursion(values: Floats) -> Floats:
    """The filter along the first axis, mirrored at both ends."""
    c = np.ascontiguousarray(values)
    n = len(c)
    # The state of the forward pass after an infinite mirrored past.
    start, power = c[0].copy(), 1.0
    for k in range(1, 2 * n - 2):
        power *= _POLE
        start += power * c[k if k < n else 2 * n - 2 - k]
    c[0] = start / (1 - power * _POLE)
    for k in range(1, n):
        c[k] += _POLE * c[k - 1]
    c[-1] = (c[-1] + _POLE * c[-2]) * (_POLE / (_POLE * _POLE - 1))
    for k in range(n - 2, -1, -1):
        c[k] = _POLE * (c[k + 1] - c[k])
    return c
