"""Channels that are added to a convolution: when, how many, and their gradients."""

import pytest
import torch
from torch import Tensor

from hnets.functional._autograd import Grow, Shrink
from hnets.functional.assembly import wide


def convolution(into: int, out: int, side: int = 48, batch: int = 64) -> tuple[Tensor, Tensor]:
    x = torch.empty(batch, into, side, side, device="meta", dtype=torch.bfloat16)
    return x, torch.empty(out, into, 5, 5, device="meta", dtype=torch.bfloat16)


@pytest.fixture(autouse=True)
def _hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "_is_hopper", lambda device: True)


@pytest.mark.parametrize(
    ("channels", "grown"),
    [
        ((60, 60), (64, 64)),
        ((120, 168), (128, 192)),
        ((3, 216), (3, 256)),
        ((64, 256), (64, 256)),
        ((216, 288), (216, 288)),
        ((288, 216), (288, 216)),
        ((60, 20), (60, 20)),
    ],
)
def test_channels_grow_to_multiples_of_64(
    channels: tuple[int, int], grown: tuple[int, int]
) -> None:
    assert wide.grown_channels(*convolution(*channels, side=128)) == grown


def test_channels_stay_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    x, kernel = convolution(60, 60)
    assert wide.grown_channels(x.float(), kernel.float()) == (60, 60)
    assert wide.grown_channels(*convolution(60, 60, side=8)) == (60, 60)
    with torch.no_grad():
        assert wide.grown_channels(x, kernel) == (60, 60)
    monkeypatch.setattr(wide, "_is_hopper", lambda device: False)
    assert wide.grown_channels(x, kernel) == (60, 60)


def test_a_grown_convolution_is_the_convolution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "grown_channels", lambda x, kernel: (8, 8))
    x = torch.randn(2, 5, 6, 7, dtype=torch.float64, requires_grad=True)
    kernel = torch.randn(7, 5, 3, 3, dtype=torch.float64, requires_grad=True)
    y = wide.conv2d(x, kernel, (1, 1), (1, 1), (1, 1))
    assert y.is_contiguous(memory_format=torch.channels_last)
    expected = torch.nn.functional.conv2d(x, kernel, padding=1)
    torch.testing.assert_close(y, expected)
    grad = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad(y, [x, kernel], grad),
        torch.autograd.grad(expected, [x, kernel], grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_growing_and_shrinking_have_both_derivatives() -> None:
    x = torch.randn(1, 3, 2, 2, dtype=torch.float64, requires_grad=True)
    for function in (lambda z: Grow.apply(z, 5).square(), lambda z: Shrink.apply(z, 2).square()):
        torch.autograd.gradcheck(function, x)
        torch.autograd.gradgradcheck(function, x)
