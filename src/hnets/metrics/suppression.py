"""Non-maximum suppression: keep the maxima of a soft map across its lines.

As in the edge-detection literature (Dollár and Zitnick, 2015), before a map is thresholded. Scores
differ between the variants of the literature, so they have names:

| name | compares with neighbours | smooths the map with [1 2 1]/4 first |
|---|---|---|
| `none` | no suppression | no |
| `standard` | one pixel away | yes |
| `two-pixels` | one and two pixels away | yes |
| `unsmoothed` | one pixel away | no |
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.errors import InputError, suggest

VARIANTS = {
    "none": (0, False),
    "standard": (1, True),
    "two-pixels": (2, True),
    "unsmoothed": (1, False),
}
"""How far the neighbours are that a pixel is compared with, and whether the map is smoothed."""

_MARGIN = 1.01  # a pixel is suppressed if its neighbour is stronger by more than this factor
_BORDER = 5
Floats: TypeAlias = NDArray[np.float64]

_SMALL = np.array([1, 2, 1]) / 4
_WIDE = np.array([1, 2, 3, 4, 5, 4, 3, 2, 1]) / 25


def suppress(soft: ArrayLike, variant: str = "standard", normal: ArrayLike | None = None) -> Floats:
    """A soft map (h, w) after a variant of `VARIANTS`, across the lines estimated from the map.

    If their directions are known, ``normal`` holds the angle across them at each pixel, in radians,
    x to the right and y down.

    >>> line = np.zeros((16, 16))
    >>> line[:, 6:9] = 0.3, 0.9, 0.3
    >>> suppress(line)[8, 5:10].round(2)
    array([0. , 0. , 0.6, 0. , 0. ])
    """
    if variant not in VARIANTS:
        raise InputError(f"there is no suppression {variant!r}{suggest(variant, VARIANTS)}")
    values = np.asarray(soft, dtype=np.float64)
    if values.ndim != 2 or min(values.shape) < 2:
        raise InputError(f"expected a map of at least 2×2 pixels, got shape {values.shape}")
    reach, smooth = VARIANTS[variant]
    if not reach:
        return values
    if smooth:
        values = _filtered(values, _SMALL)
    across = normals(values) if normal is None else np.asarray(normal, dtype=np.float64)
    return suppress_across(values, across, reach)


def normals(soft: Floats) -> Floats:
    """The angle across the line at each pixel, in [0, π), x to the right and y down.

    By the formula of the literature, which takes an exactly horizontal line for a vertical one.
    """
    xx, xy, yy = _curvature(soft)
    with np.errstate(divide="ignore", invalid="ignore"):  # the arctangent of infinity is π/2
        return np.mod(np.arctan(yy * np.sign(-xy) / (xx + 1e-5)), np.pi)


def ridge_normals(soft: Floats) -> Floats:
    """The angle across the ridge at each pixel: the direction in which the map curves most.

    As `normals`, x to the right and y down, but right for lines in all directions.
    """
    xx, xy, yy = _curvature(soft)
    upwards = np.arctan2(2 * xy, xx - yy) / 2  # of the larger second derivative
    return np.where(xx + yy < 0, upwards + np.pi / 2, upwards)  # beside a ridge the map curves up


def _curvature(soft: Floats) -> tuple[Floats, Floats, Floats]:
    """Second derivatives of the smoothed map: along x, mixed, along y."""
    down, right = np.gradient(_filtered(soft, _WIDE))
    return np.gradient(right, axis=1), np.gradient(down, axis=1), np.gradient(down, axis=0)


def suppress_across(soft: Floats, normal: Floats, reach: int = 1) -> Floats:
    """Set to zero the pixels weaker than the map 1 to ``reach`` pixels away along ``normal``.

    Beyond its border the map continues with its outermost values; in the five pixels next to the
    border it fades, since the directions of its lines are unreliable there.
    """
    y, x = np.indices(soft.shape)
    keep = np.ones(soft.shape, bool)
    for step in [*range(-reach, 0), *range(1, reach + 1)]:
        neighbour = _sampled(soft, y + step * np.sin(normal), x + step * np.cos(normal))
        keep &= soft * _MARGIN >= neighbour
    border = min(_BORDER, *(side // 2 for side in soft.shape))
    fade = [np.minimum(np.arange(n), np.arange(n)[::-1]) / border for n in soft.shape]
    return soft * keep * np.minimum(fade[0], 1)[:, None] * np.minimum(fade[1], 1)


def _filtered(values: Floats, taps: Floats) -> Floats:
    """Filtered along both axes, with the map mirrored at its border."""
    for axis in (0, 1):
        width = [(len(taps) // 2,) * 2 if a == axis else (0, 0) for a in (0, 1)]
        padded = np.pad(values, width, mode="symmetric")
        windows = np.lib.stride_tricks.sliding_window_view(padded, len(taps), axis)
        values = windows @ taps
    return values


def _sampled(values: Floats, y: Floats, x: Floats) -> Floats:
    """The map between its pixels, by bilinear interpolation."""
    height, width = values.shape
    y, x = np.clip(y, 0, height - 1.001), np.clip(x, 0, width - 1.001)
    top, left = y.astype(np.intp), x.astype(np.intp)
    down, right = y - top, x - left
    above = values[top, left] * (1 - right) + values[top, left + 1] * right
    below = values[top + 1, left] * (1 - right) + values[top + 1, left + 1] * right
    return above * (1 - down) + below * down
