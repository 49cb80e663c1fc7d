"""A detector on a GPU, which records what it does for shapes that come again."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import hnets
from hnets.devices import RECORDED_AT, RECORDINGS, Replayed

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def detector() -> hnets.EdgeDetector:
    return hnets.EdgeDetector("tiny", "cuda")


@pytest.fixture(scope="module")
def on_cpu() -> hnets.EdgeDetector:
    return hnets.EdgeDetector("tiny")


def image(seed: int, height: int = 60, width: int = 80) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_the_same_shape_again_and_again(detector, on_cpu) -> None:
    images = [image(seed) for seed in range(RECORDED_AT + 3)]
    maps = [detector(each) for each in images]  # all kept: none may be overwritten by a later one
    for each, strength in zip(images, maps, strict=True):
        np.testing.assert_allclose(strength, on_cpu(each), atol=2e-3)


def test_more_shapes_than_recordings_are_kept(detector, on_cpu) -> None:
    images = [image(seed, 40 + 4 * seed) for seed in range(RECORDINGS + 2)]
    for _ in range(RECORDED_AT + 1):
        for each in images:
            np.testing.assert_allclose(detector(each), on_cpu(each), atol=2e-3)


def test_orientations(detector, on_cpu) -> None:
    for seed in range(RECORDED_AT + 2):
        strength, angle = detector.oriented(image(seed))
        expected, expected_angle = on_cpu.oriented(image(seed))
        np.testing.assert_allclose(strength, expected, atol=2e-3)
        apart = np.exp(2j * angle) - np.exp(2j * expected_angle)  # π is 0
        assert np.median(abs(apart)) < 0.02


def test_several_threads(detector, on_cpu) -> None:
    images = [image(seed) for seed in range(24)]
    with ThreadPoolExecutor(6) as pool:
        for each, strength in zip(images, pool.map(detector, images), strict=True):
            np.testing.assert_allclose(strength, on_cpu(each), atol=2e-3)


def test_a_shape_is_recorded_when_it_comes_again() -> None:
    calls = []

    def network(x: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return 2 * x

    replayed = Replayed(network)
    for number in range(RECORDED_AT + 4):
        x = torch.full((5,), float(number), device="cuda")
        assert torch.equal(replayed(x), 2 * x)
    assert len(calls) == RECORDED_AT
    with torch.autocast("cuda", torch.bfloat16):  # is not what was recorded
        replayed(x)
    assert len(calls) == RECORDED_AT + 1
