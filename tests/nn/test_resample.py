"""Pooling and upsampling: centres of equivariance, exact rotations, arguments."""

import pytest
import torch
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.testing import assert_equivariant

MIXED = "3x0r + 2x1 + 2x-2"


@pytest.mark.parametrize(
    "module",
    [hnn.HAvgPool2d(2), hnn.HBlurPool2d(2), hnn.HUpsample2d(2), hnn.HUpsample2d(3)],
    ids=repr,
)
def test_sampling_is_equivariant(module: nn.Module) -> None:
    assert_equivariant(module, tolerance=0.01, in_streams=MIXED, out_streams=MIXED)


def ramp(size: int) -> Tensor:
    return torch.arange(size, dtype=torch.float64).expand(1, 1, size, size)


@pytest.mark.parametrize("factor", [2, 3])
def test_centres_of_equivariance_are_where_documented(factor: int) -> None:
    middles = factor * ramp(12) + (factor - 1) / 2
    inside = (..., slice(2, -2))
    for pool in (hnn.HAvgPool2d(factor), hnn.HBlurPool2d(factor)):
        pooled = pool.double()(ramp(12 * factor))[..., :, :]
        torch.testing.assert_close(pooled[inside], middles[inside], rtol=0, atol=1e-9)
    finer = hnn.HUpsample2d(factor)(ramp(12))
    between = (ramp(12 * factor) - (factor - 1) / 2) / factor
    reach = (..., slice(factor, -factor))
    torch.testing.assert_close(finer[reach], between[reach], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "module",
    [
        hnn.HAvgPool2d(2),
        hnn.HAvgPool2d(3),
        hnn.HBlurPool2d(2),
        hnn.HBlurPool2d(3, sigma=1.3),
        hnn.HUpsample2d(2),
        hnn.HUpsample2d(3),
    ],
    ids=repr,
)
def test_sampling_is_exact_at_90_degrees(module: nn.Module) -> None:
    x = torch.randn(1, 2, 12, 18, dtype=torch.float64)
    rotated = module.double()(torch.rot90(x, 1, (2, 3)))
    torch.testing.assert_close(rotated, torch.rot90(module(x), 1, (2, 3)), rtol=0, atol=1e-13)


def test_blur_aliases_less_than_a_mean() -> None:
    stripes = torch.cos(0.9 * torch.pi * torch.arange(64.0)).expand(1, 1, 64, 64)
    inside = (..., slice(8, -8))
    mean, blur = (p(stripes)[inside].abs().max() for p in (hnn.HAvgPool2d(2), hnn.HBlurPool2d(2)))
    assert blur < 0.8 * mean


def test_blur_keeps_a_constant() -> None:
    x = torch.ones(1, 1, 8, 8, dtype=torch.float64)
    y = hnn.HBlurPool2d(2).double()(x)
    torch.testing.assert_close(y, torch.ones(1, 1, 4, 4, dtype=torch.float64), rtol=0, atol=1e-14)


@pytest.mark.parametrize("value", [0, -1, 1.5, None, "two", (2, 2, 2), True])
def test_sampling_names_a_bad_factor(value: object) -> None:
    for make, name in (
        (hnn.HAvgPool2d, "kernel_size"),
        (hnn.HBlurPool2d, "stride"),
        (hnn.HUpsample2d, "scale"),
    ):
        with pytest.raises(ValueError, match=f"{name} is a whole number from 1, got"):
            make(value)


def test_blur_names_a_bad_width() -> None:
    with pytest.raises(ValueError, match="sigma is a width in pixels above 0, got -1"):
        hnn.HBlurPool2d(2, sigma=-1.0)


def test_fixed_windows_are_not_in_the_state_dict() -> None:
    assert not hnn.HBlurPool2d(2).state_dict()


def test_global_mean_averages_the_image() -> None:
    x = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(hnn.GlobalMean()(x), x.flatten(2).mean(2))
