"""Rotation and enlargement by cubic splines, against SciPy and exact cases."""

from pathlib import Path

import numpy as np
import pytest

from hnets import data
from hnets.data import spline


@pytest.mark.parametrize("angle", [0.0, 12.5, 45.0, 90.0, 133.7, 270.0, 359.99, -77.0])
def test_rotation_is_that_of_scipy(data_folder: Path, angle: float) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    images = data.load("mnist", "val").subset(12).images[:, 0].double().numpy()
    expected = [ndimage.rotate(image, angle, order=3, reshape=False) for image in images]
    assert np.abs(spline.rotate(images, angle) - expected).max() < 1e-9


def test_each_image_is_rotated_by_its_own_angle_however_many_there_are() -> None:
    random = np.random.default_rng(0)
    images, angles = random.random((70, 9, 12)), random.random(70) * 360
    one_by_one = [spline.rotate(p[None], a)[0] for p, a in zip(images, angles, strict=True)]
    assert np.array_equal(spline.rotate(images, angles), one_by_one)


def test_multiples_of_90_degrees_are_exact(data_folder: Path) -> None:
    images = (data.load("mnist", "val").subset(20).images[:, 0] * 255).double().numpy().round()
    for quarters in range(-4, 5):
        rotated = spline.to_bytes(spline.rotate(images / 255, 90.0 * quarters))
        assert np.array_equal(rotated, np.rot90(images, quarters, axes=(1, 2)))


def test_cosine_and_sine_are_right_to_the_last_bits() -> None:
    degrees = np.linspace(-720, 720, 5000)
    cos, sin = spline.cos_sin(degrees)
    assert np.abs(cos - np.cos(np.radians(degrees))).max() < 3e-15
    assert np.abs(sin - np.sin(np.radians(degrees))).max() < 3e-15


def test_enlarging_passes_through_the_pixels() -> None:
    image = np.random.default_rng(0).random((1, 7, 7))
    enlarged = spline.resize(image, side=13, scale=2)
    assert np.abs(enlarged[:, ::2, ::2] - image).max() < 1e-12
