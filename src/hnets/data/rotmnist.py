"""Rotated MNIST, regenerated from MNIST: `rotmnist-r`.

It follows the protocol of Larochelle et al. (2007), "An empirical evaluation of deep architectures
on problems with many factors of variation": digits of MNIST, each turned by an angle of its own,
10,000 to train on, 2,000 to choose with and 50,000 to test on. It is not their set: which digits
they drew, their angles and their interpolation are not known, so that errors on the two are not to
be compared. The original is `rotmnist`, in `hnets.data.rotmnist_original`.
"""

from __future__ import annotations

import logging
import os

import numpy as np
from numpy.typing import NDArray

from hnets.data import mnist
from hnets.data.cache import Arrays, Progress, sha256, stored
from hnets.data.spline import rotate, to_bytes

__all__ = ["SHA256", "SIZES", "draw", "regenerated"]

SIZES = (10_000, 2_000, 50_000)
SHA256 = "9de67b6d43b5d1d6b82f1eff5755c95ddf6cedf4c2f63616c2b537a66d1fa5dc"
"""Of the images and labels as bytes: the same on every machine, or it is not the same set."""

log = logging.getLogger(__name__)

_SEED = 2007
_AT_ONCE = 2_000


def regenerated(
    root: str | os.PathLike[str] | None = None, progress: Progress | None = None
) -> Arrays:
    """The images and labels of `rotmnist-r`: train, val, then test. The first call makes them."""
    return stored("rotmnist-r", SHA256, lambda: _make(mnist.arrays(root, progress), progress))


def draw() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Which of the 70,000 digits are in the set, in its order, and by how many degrees they turn.

    >>> chosen, degrees = draw()
    >>> len(set(chosen)), chosen[:3], degrees[:3].round(2)
    (62000, array([33454, 45101,  2459]), array([317.38, 272.75, 138.57]))
    """
    # The old generator: its stream is frozen, whereas that of the new ones may change.
    random = np.random.RandomState(_SEED)
    chosen = random.permutation(sum(mnist.SIZES))[: sum(SIZES)]
    return chosen.astype(np.int64), random.random_sample(len(chosen)) * 360


def _make(digits: Arrays, progress: Progress | None) -> Arrays:
    log.info("making rotmnist-r from MNIST, which takes some seconds, once")
    images, labels = digits
    chosen, degrees = draw()
    n = len(chosen)
    turned = np.empty((n, *images.shape[1:]), np.uint8)
    for i in range(0, n, _AT_ONCE):
        part = slice(i, i + _AT_ONCE)
        turned[part] = to_bytes(rotate(images[chosen[part]] / 255, degrees[part]))
        if progress:
            progress("rotmnist-r", min(i + _AT_ONCE, n), n)
    made = turned, labels[chosen]
    if sha256(made) != SHA256:
        log.warning("rotmnist-r has come out otherwise than it should on this machine")
    return made
