"""Rotated MNIST: the set regenerated from MNIST, and the original where the user has it.

`rotmnist-r` follows the protocol of Larochelle et al. (2007), "An empirical evaluation of deep
architectures on problems with many factors of variation": digits of MNIST, each turned by an angle
of its own, 10,000 to train on, 2,000 to choose with and 50,000 to test on. It is not their set:
which digits they drew, their angles and their interpolation are not known. A result on one says
little about the third digit of a result on the other.
"""

from __future__ import annotations

import logging
import os

import numpy as np

from hnets.data import mnist
from hnets.data.spline import rotate, to_bytes
from hnets.data.storage import Arrays, Progress, stored

__all__ = ["SIZES", "regenerated"]

SIZES = (10_000, 2_000, 50_000)

log = logging.getLogger(__name__)

_SEED = 2007
_AT_ONCE = 2_000


def regenerated(
    root: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Arrays:
    """The images and labels of `rotmnist-r`: train, val, then test. The first call makes them."""
    return stored("rotmnist-r", "1", lambda: _make(mnist.arrays(root, progress), progress))


def _make(digits: Arrays, progress: Progress | None) -> Arrays:
    images, labels = digits
    n = sum(SIZES)
    # The old generator: its stream is frozen, whereas that of the new ones may change.
    random = np.random.RandomState(_SEED)
    chosen = random.permutation(len(labels))[:n]
    degrees = random.random_sample(n) * 360
    turned = np.empty((n, *images.shape[1:]), np.uint8)
    for i in range(0, n, _AT_ONCE):
        part = slice(i, i + _AT_ONCE)
        turned[part] = to_bytes(rotate(images[chosen[part]] / 255, degrees[part]))
        if progress:
            progress("rotmnist-r", min(i + _AT_ONCE, n), n)
    return turned, labels[chosen]
