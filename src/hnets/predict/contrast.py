"""Ink apart from paper: which is which, and how dark, under light that is not even."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Floats", "ink_on_paper"]

Floats: TypeAlias = NDArray[np.float32]

FAINTEST = 0.03
"""Contrast between ink and paper that is still seen, as a part of that of black and white."""
_GRID = 48
"""Side of the reduced picture that the paper is estimated from."""
_POWERS = ((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
"""Of y and x, in the surface that follows the paper; the first three are a plane."""


def ink_on_paper(grey: Floats) -> Floats | None:
    """From 0 where there is paper to 1 where there is ink; None where there is paper alone."""
    contrast = _contrast(grey)
    # A standard deviation, of the lowest third: ink is at most the other two.
    noise = 2.6 * float(np.percentile(np.abs(contrast), 30))
    level = _level(contrast)
    if level < max(FAINTEST, 6 * noise):
        return None
    floor = min(3 * noise, level / 3)
    return np.clip((contrast - np.float32(floor)) / np.float32(level - floor), 0, 1)


def _contrast(grey: Floats) -> Floats:
    """How far each pixel is from the paper, towards the ink."""
    paper = _paper(grey)
    difference: Floats = grey - paper
    # Ink is what is far from the paper, on either side of it.
    if float((difference * np.abs(difference)).sum()) < 0:
        difference /= -np.maximum(paper, 0.05)  # dark ink takes away a part of the light
    return difference


def _level(contrast: Floats) -> float:
    """The contrast of full ink: the median of what is above half of the highest."""
    highest = np.percentile(contrast, 99.9)  # but for a few pixels that are noise
    above = contrast[contrast > highest / 2]
    return float(np.median(above)) if above.size else 0.0


def _paper(grey: Floats) -> Floats:
    """A smooth surface through the picture's border, and through what inside is like it.

    A polynomial of second order follows a lamp at the side and the dark corners of a lens, but no
    stroke.
    """
    coarse = Image.fromarray(grey).resize((_GRID, _GRID), Image.Resampling.BOX)
    values = np.asarray(coarse, dtype=np.float64).ravel()
    at = _positions(_GRID)
    terms = np.stack([np.multiply.outer(at**i, at**j).ravel() for i, j in _POWERS], axis=-1)
    # The border is a quarter of the reduced picture, and counts for four fifths: paper is there.
    border = np.maximum.outer(np.abs(at), np.abs(at)).ravel() > 0.88
    plane = _fit(terms[:, :3], values, np.where(border, 14.0, 1.0))
    away = np.abs(values - terms[:, :3] @ plane)
    near = away <= max(0.3 * float(np.percentile(away, 98)), 0.01)
    weights = _fit(terms[near], values[near], np.ones(near.sum()))
    rows, columns = map(_positions, grey.shape)
    surface = np.zeros(grey.shape)
    for weight, (i, j) in zip(weights, _POWERS, strict=True):
        surface += weight * np.multiply.outer(rows**i, columns**j)
    return surface.astype(np.float32)


def _positions(count: int) -> NDArray[np.float64]:
    """The middles of ``count`` pixels between −1 and 1."""
    return (2 * np.arange(count, dtype=np.float64) + 1) / count - 1


def _fit(
    terms: NDArray[np.float64], values: NDArray[np.float64], importance: NDArray[np.float64]
) -> NDArray[np.floating]:
    """Weights of the terms with the least sum of absolute differences: most of it is paper."""
    weights: NDArray[np.floating] = np.zeros(terms.shape[1])
    weights[0] = np.median(values)
    for _ in range(20):
        root = np.sqrt(importance / np.maximum(np.abs(values - terms @ weights), 0.01))
        weights, *_ = np.linalg.lstsq(root[:, None] * terms, root * values, rcond=None)
    return weights
