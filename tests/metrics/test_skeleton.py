"""Skeletons of binary images."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from skimage.morphology import thin as skimage_thin

from hnets.metrics.skeleton import skeletonise


@given(shape=st.tuples(st.integers(1, 14), st.integers(1, 14)), seed=st.integers(0, 2**32 - 1))
def test_skeletons_are_those_of_matlab(shape: tuple[int, int], seed: int) -> None:
    random = np.random.default_rng(seed)
    mask = random.random(shape) < random.random()
    assert (skeletonise(mask) == skimage_thin(mask)).all()  # which is known to agree


def test_skeletons_of_thick_shapes() -> None:
    y, x = np.mgrid[:120, :150]
    wave = np.sin(x / 9) + np.sin(y / 7) + np.sin((x + y) / 13)
    for level in np.linspace(-2, 2, 9):
        assert (skeletonise(wave > level) == skimage_thin(wave > level)).all()
