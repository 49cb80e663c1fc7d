"""Rotation of pixels and feature maps."""

import math

import pytest
import torch
from torch import Tensor

from hnets import Streams
from hnets import functional as F


def dot(right: float, up: float, height: int, width: int) -> Tensor:
    """A smooth spot at a position seen from the middle of the image."""
    y = (height - 1) / 2 - torch.arange(height, dtype=torch.float64)[:, None]
    x = torch.arange(width, dtype=torch.float64)[None, :] - (width - 1) / 2
    return torch.exp(-((x - right) ** 2 + (y - up) ** 2) / (2 * 2.0**2))[None, None]


@pytest.mark.parametrize("shape", [(33, 33), (32, 32), (33, 48), (50, 31)])
@pytest.mark.parametrize("degrees", [20, 90, 137, 180, 270, -45])
def test_rotation_is_counter_clockwise_on_the_screen(
    degrees: float, shape: tuple[int, int]
) -> None:
    theta = math.radians(degrees)
    actual = F.rotate_pixels(dot(7.0, 0.0, *shape), theta)
    right, up = 7 * math.cos(theta), 7 * math.sin(theta)
    assert (actual - dot(right, up, *shape)).abs().max() < 0.025  # what bicubic interpolation costs
    if degrees != 180:
        assert (actual - dot(right, -up, *shape)).abs().max() > 0.5


@pytest.mark.parametrize("mode", ["bicubic", "bilinear", "nearest"])
@pytest.mark.parametrize("quarters", [1, 2, 3, -1])
@pytest.mark.parametrize("size", [8, 9])
def test_interpolation_agrees_with_rot90(size: int, quarters: int, mode: str) -> None:
    x = torch.randn(2, 3, size, size, dtype=torch.float64)
    theta = quarters * math.pi / 2
    assert torch.equal(F.rotate_pixels(x, theta, mode), torch.rot90(x, quarters, (2, 3)))
    interpolated = F.rotate_pixels(x, theta + 1e-7, mode)
    torch.testing.assert_close(interpolated, torch.rot90(x, quarters, (2, 3)), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_rounds_values_but_no_places(dtype: torch.dtype) -> None:
    x = dot(30.0, 60.0, 200, 200).to(dtype)
    exact = F.rotate_pixels(x.double(), 0.3)
    rotated = F.rotate_pixels(x, 0.3)
    assert rotated.dtype == dtype
    assert (rotated - exact).abs().max() < torch.finfo(dtype).eps
    with torch.autocast("cpu", dtype):
        assert (F.rotate_pixels(x.float(), 0.3) - exact).abs().max() < 1e-4


def test_half_a_rotation_of_any_image_is_exact() -> None:
    x = torch.randn(1, 1, 5, 8)
    assert torch.equal(F.rotate_pixels(x, math.pi), torch.rot90(x, 2, (2, 3)))


@pytest.mark.parametrize("shape", [(33, 33), (33, 48)])
@pytest.mark.parametrize("degrees", [0, 20, 45, 90, -60])
def test_a_reflection_puts_things_across_its_axis(degrees: float, shape: tuple[int, int]) -> None:
    axis = math.radians(degrees)
    actual = F.reflect_pixels(dot(7.0, 3.0, *shape), axis)
    mirrored = complex(7.0, -3.0) * complex(math.cos(2 * axis), math.sin(2 * axis))
    assert (actual - dot(mirrored.real, mirrored.imag, *shape)).abs().max() < 0.025


def test_flips_and_transpositions_are_exact() -> None:
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    flips = (x.flip(2), x.mT.flip(2, 3), x.flip(3), x.mT)
    for degrees, expected in zip((0, 45, 90, 135), flips, strict=True):
        assert torch.equal(F.reflect_pixels(x, math.radians(degrees)), expected)
    oblong = x[..., :5]
    assert torch.equal(F.reflect_pixels(oblong, math.pi / 2), oblong.flip(3))


def test_reflection_of_a_feature_map_moves_pixels_and_conjugates() -> None:
    streams = Streams("1x0r + 1x0 + 1x1")
    x = torch.randn(1, streams.channels, 9, 9, dtype=torch.float64)
    sign = torch.tensor([1, 1, -1, -1, 1], dtype=torch.float64).view(1, -1, 1, 1)  # left and right
    actual = F.reflect(x, streams, math.pi / 2)
    torch.testing.assert_close(actual, sign * x.flip(3), rtol=0, atol=1e-14)


def test_rotation_of_a_feature_map_moves_pixels_and_phases() -> None:
    streams = Streams("1x0r + 1x1")
    x = torch.randn(1, streams.channels, 9, 9, dtype=torch.float64)
    actual = F.rotate(x, math.pi / 2, streams)
    pixels = torch.rot90(x, 1, (2, 3))
    expected = torch.cat([pixels[:, :1], -pixels[:, 2:], pixels[:, 1:2]], dim=1)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-14)
