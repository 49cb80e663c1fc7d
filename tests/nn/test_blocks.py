"""Residual and light blocks, and gates: equivariance, power at the start, what they refuse."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hnets
from hnets import Streams
from hnets import nn as hnn
from hnets.testing import assert_equivariant
from networks import lively, relative

CIRCLE = "4x0r + 4x1 + 4x2"
WIDE = "6x0r + 6x1 + 6x2"
MIXED = "4x0 + 2x1 + 2x-1"
EXACT = (90.0, 180.0, 270.0)
BLOCKS: list[type[hnn.ResidualBlock] | type[hnn.LightBlock]] = [hnn.ResidualBlock, hnn.LightBlock]


def trained(block: nn.Module, channels: int) -> nn.Module:
    """With statistics and filters as training leaves them; new filters of a sum are small."""
    lively(block, torch.randn(4, channels, 12, 12))
    for module in block.modules():
        if isinstance(module, hnn.HConv2d):
            module.reset_parameters()
    return block


@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize(
    ("into", "out", "options"),
    [
        (CIRCLE, CIRCLE, {}),
        (CIRCLE, WIDE, {"stride": 2, "squeeze": True}),
        (MIXED, MIXED, {"kernel_size": 3, "squeeze": True, "padding_mode": "reflect"}),
        (MIXED, "2x1 + 6x0 + 2x-1", {"rings": "exact"}),
    ],
)
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_are_equivariant(
    kind: Callable[..., nn.Module], into: str, out: str, options: dict[str, Any], mirror: bool
) -> None:
    channels = Streams(into).channels
    block = trained(kind(into, out, **{"kernel_size": 5, "mirror": mirror} | options), channels)
    assert_equivariant(block, EXACT, size=24)
    assert block.mirror == mirror
    if mirror:
        block = block.double().eval()
        x = torch.randn(1, channels, 12, 10, dtype=torch.float64)
        expected = hnets.functional.reflect(block(x), block.out_streams)
        actual = block(hnets.functional.reflect(x, block.in_streams))
        assert relative(actual, expected) < 1e-10


@pytest.mark.parametrize("streams", ["4x0r + 3x1", "4x0r + 2x0r + 3x1", "3x0 + 2x1"])
def test_gates_are_equivariant_and_depend_on_the_whole_image(streams: str) -> None:
    gates = hnn.SqueezeExcite(streams, reduction=1)
    assert_equivariant(gates, EXACT)
    x = torch.randn(1, gates.in_streams.channels, 6, 6)
    other = x.clone()
    other[:, :, 0, 0] += 5
    ratio = gates(other)[..., 3, 3] / gates(x)[..., 3, 3]
    assert (ratio - 1).abs().max() > 1e-3
    assert (gates(x).abs() < x.abs()).all()


def test_gates_leave_phases_alone() -> None:
    gates, x = hnn.SqueezeExcite("3x1"), torch.randn(2, 6, 5, 5)
    re, im = gates(x).chunk(2, 1)
    torch.testing.assert_close(torch.atan2(im, re), torch.atan2(*x.chunk(2, 1)[::-1]))


@pytest.mark.parametrize("kind", BLOCKS)
def test_the_middle_of_an_image_stays_a_centre_where_the_stride_divides_its_size(
    kind: Callable[..., nn.Module],
) -> None:
    block = trained(kind(CIRCLE, CIRCLE, stride=2), 20)
    assert block(torch.zeros(1, 20, 12, 8)).shape == (1, 20, 6, 4)
    assert_equivariant(block, EXACT, size=26)
    with pytest.raises(AssertionError, match="is not equivariant"):
        assert_equivariant(block, EXACT, size=27)


# The start ----------------------------------------------------------------------------------------


def powers(x: Tensor, streams: Streams) -> list[float]:
    """Mean squares per stream."""
    return [float(x.detach()[:, where].square().mean()) for where in streams.slices]


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("streams", ["8x0r + 8x1 + 8x2", "8x0 + 8x1"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_twenty_blocks_at_most_double_the_power_of_every_stream(
    kind: Callable[..., nn.Module], streams: str, mirror: bool, smooth: bool
) -> None:
    layout = Streams(streams)
    x = torch.randn(2, layout.channels, 24, 24)
    if smooth:
        coarse = torch.randn(2, layout.channels, 6, 6)
        x = nn.functional.interpolate(coarse, 24, mode="bicubic")
        x = x / x.std()
    before = powers(x, layout)
    with torch.no_grad():
        for _ in range(20):
            block = kind(layout, layout, 5, mirror=mirror)
            branch = block.body(x)
            assert branch.square().mean() > 0.001  # and every block adds something
            x = block(x)
    for start, end in zip(before, powers(x, layout), strict=True):
        assert 0.9 * start < end < 2 * start


@pytest.mark.parametrize("kind", BLOCKS)
def test_a_block_that_widens_keeps_the_power(kind: Callable[..., nn.Module]) -> None:
    block = kind("16x0r + 16x1", "32x0r + 32x1", 5, mirror=True)
    y = block(torch.randn(4, 48, 16, 16))
    assert all(0.7 < power < 1.6 for power in powers(y, block.out_streams))


def test_reset_parameters_draws_anew_and_as_small() -> None:
    block = hnn.LightBlock("32x0r + 32x1", "32x0r + 32x1", mirror=True)
    weights = block.body[-1].filters.radial["0"]
    before, spread = weights.detach().clone(), float(weights.detach().std())
    block.apply(lambda part: getattr(part, "reset_parameters", lambda: None)())
    assert not torch.equal(weights, before)
    assert float(weights.detach().std()) == pytest.approx(spread, rel=0.1)


# Forms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BLOCKS)
def test_gradients_reach_every_parameter_and_are_finite_at_zero(
    kind: Callable[..., nn.Module],
) -> None:
    block = kind(CIRCLE, WIDE, 5, stride=2, squeeze=True)
    for x in (torch.randn(2, 20, 8, 8), torch.zeros(2, 20, 8, 8)):
        block.zero_grad()
        block(x).square().sum().backward()
        for name, value in block.named_parameters():
            assert value.grad is not None, name
            assert value.grad.isfinite().all(), name
            assert value.grad.any() or not x.any(), name


@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks_freeze(kind: Callable[..., nn.Module]) -> None:
    block = trained(kind(CIRCLE, WIDE, 5, stride=2, squeeze=True, mirror=True), 20).eval()
    x = torch.randn(2, 20, 8, 8)
    frozen = hnets.freeze(block)
    torch.testing.assert_close(frozen(x), block(x))
    assert set(frozen.state_dict()) == set(block.state_dict())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"out_streams": "4x0r + 4x1"},
            "takes and gives the same orders.* make them with an HConv",
        ),
        ({"kernel_size": 4}, 'padding="same" needs an odd kernel_size, got 4'),
        ({"stride": 0}, "stride is a whole number from 1, got 0"),
        ({"mirror": 1}, "mirror is True or False"),
        ({"squeeze": "yes"}, "squeeze is True or False"),
        ({"rings": "square"}, "rings are .* got 'square'"),
    ],
)
@pytest.mark.parametrize("kind", BLOCKS)
def test_bad_arguments_are_named(
    kind: Callable[..., nn.Module], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**{"in_streams": CIRCLE, "out_streams": CIRCLE, "kernel_size": 5} | options)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (hnn.LightBlock, {"groups": 2}),
        (hnn.LightBlock, {"padding": 0}),
        (hnn.ResidualBlock, {"padding": 0}),
        (hnn.ResidualBlock, {"colour": "red"}),
    ],
)
def test_arguments_that_a_block_sets_or_does_not_have_are_refused(
    kind: Callable[..., nn.Module], options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=f"argument '{next(iter(options))}'"):
        kind(CIRCLE, CIRCLE, 5, **options)


@pytest.mark.parametrize("kind", BLOCKS)
def test_sizes_may_be_pairs_of_equal_numbers(kind: Callable[..., nn.Module]) -> None:
    block = kind(CIRCLE, CIRCLE, (5, 5), stride=(2, 2))
    assert block(torch.zeros(1, 20, 8, 8)).shape == (1, 20, 4, 4)
    with pytest.raises(ValueError, match="stride is one number for both sides"):
        kind(CIRCLE, CIRCLE, 5, stride=(1, 2))


def test_gates_name_an_input_of_another_type() -> None:
    with pytest.raises(TypeError, match="SqueezeExcite has parameters of"):
        hnn.SqueezeExcite(CIRCLE)(torch.zeros(1, 20, 8, 8, dtype=torch.float64))


@pytest.mark.parametrize("kind", BLOCKS)
def test_bad_input_is_named(kind: Callable[..., nn.Module]) -> None:
    block = kind(CIRCLE, CIRCLE)
    with pytest.raises(ValueError, match=f"{kind.__name__} expects 4x0r .* = 20 channels"):
        block(torch.zeros(1, 19, 8, 8))


def test_a_block_is_mapped_over_maps_that_are_not_contiguous() -> None:
    block = hnn.LightBlock("4x0r + 4x1", "4x0r + 4x1", mirror=True).eval()
    x = torch.randn(12, 2, 3, 9, 9).movedim(0, 2)  # (2, 3, channels, height, width)
    mapped = torch.func.vmap(block)(x)
    torch.testing.assert_close(mapped, torch.stack([block(each) for each in x]))
