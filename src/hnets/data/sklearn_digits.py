"""The digits that come with scikit-learn: everything runs on them without a download."""

from __future__ import annotations

from functools import cache

import numpy as np

from hnets.data.dataset import Arrays
from hnets.data.spline import resize, rotate, to_bytes
from hnets.errors import MissingExtra

SIZES = (1_000, 297, 500)

_SEED = 1797


@cache
def upright() -> Arrays:
    """1,797 digits of 8×8 pixels, enlarged to 20×20 in the middle of 28×28.

    The frame is wide enough for a digit to be rotated in it without losing its corners.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("the embedded digits", "scikit-learn", "bench") from None
    pixels, labels = load_digits(return_X_y=True)
    order = np.random.RandomState(_SEED).permutation(len(labels))
    small = pixels[order].reshape(-1, 8, 8) / 16
    framed = np.pad(small, ((0, 0), (2, 2), (2, 2)))  # 12×12, of which the 28×28 cover 11.2
    return to_bytes(resize(framed, side=28, scale=2.5)), labels[order].astype(np.uint8)


@cache
def rotated() -> Arrays:
    """The same digits in the same order, each rotated by its own angle."""
    images, labels = upright()
    degrees = np.random.RandomState(_SEED + 1).random_sample(len(labels)) * 360
    return to_bytes(rotate(images / 255, degrees)), labels
