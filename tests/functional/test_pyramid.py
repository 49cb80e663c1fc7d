"""Pooling, halving and enlarging: definitions, exact rotations, gradients, and the reference."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

import hnets
from hnets import functional as F
from hnets.functional.pyramid import reference

SIDES = (1, 2, 3, 4, 5, 8, 9)
sizes = st.tuples(st.integers(1, 40), st.integers(1, 40))
every_size = pytest.mark.parametrize("size", list(itertools.product(SIDES, SIDES)), ids=str)
Halve = Callable[[Tensor], Tensor]
FORMS: list[Callable[[Tensor], Tensor]] = [  # ways to lie in memory
    lambda x: x,
    lambda x: x.contiguous(memory_format=torch.channels_last),
    lambda x: x.transpose(2, 3).contiguous().transpose(2, 3),
    lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
    lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
]


def image(size: tuple[int, int], **options: object) -> Tensor:
    return torch.randn(2, 3, *size, **({"dtype": torch.float64} | options))


def by_definition(x: Tensor, dim: int) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one."""
    pixels = x.unbind(dim)
    last = len(pixels) - 1
    if last % 2:
        means = [(pixels[i] + pixels[i + 1]) / 2 for i in range(0, last, 2)]
    else:
        means = [
            (pixels[max(i - 1, 0)] + 2 * pixels[i] + pixels[min(i + 1, last)]) / 4
            for i in range(0, last + 1, 2)
        ]
    return torch.stack(means, dim)


def halved(side: int, times: int) -> int:
    """What halving several times leaves of a side as `pad_to_halve` makes it."""
    return side // 2 * 2 // 2**times + side % 2


def coordinates(side: int) -> Tensor:
    """Of the pixels of a side, counted from its centre."""
    return torch.arange(side, dtype=torch.float64) - (side - 1) / 2


# Halving ------------------------------------------------------------------------------------------


@every_size
def test_halving_is_its_definition(size: tuple[int, int]) -> None:
    x = image(size)
    expected = by_definition(by_definition(x, 2), 3)
    assert expected.shape[2:] == tuple((side + 1) // 2 for side in size)
    for grad in (True, False):
        with torch.set_grad_enabled(grad):
            torch.testing.assert_close(F.halve2d(x), expected, rtol=0, atol=1e-14)


@given(sizes)
def test_graphs_halve_alike(size: tuple[int, int]) -> None:
    x = image(size)
    torch.testing.assert_close(reference.halve(x), F.halve2d(x), rtol=0, atol=1e-14)
    assert torch.equal(reference.halve_max(x), F.halve_max2d(x))


@given(sizes, st.sampled_from([F.halve2d, F.halve_max2d, reference.halve, reference.halve_max]))
def test_halving_rotates_and_mirrors_with_its_input(size: tuple[int, int], halve: Halve) -> None:
    x = image(size)
    for quarters in (1, 2, 3):
        rotated = halve(torch.rot90(x, quarters, (2, 3)))
        expected = torch.rot90(halve(x), quarters, (2, 3))
        torch.testing.assert_close(rotated, expected, rtol=0, atol=1e-14)
    torch.testing.assert_close(halve(x.flip(3)), halve(x).flip(3), rtol=0, atol=1e-14)


@given(sizes, st.floats(-1e3, 1e3))
def test_a_flat_image_stays_flat(size: tuple[int, int], value: float) -> None:
    x = torch.full((1, 1, *size), value, dtype=torch.float64)
    for halve in (F.halve2d, F.halve_max2d, reference.halve, reference.halve_max):
        assert torch.equal(halve(x), x[:, :, ::2, ::2])


@given(st.integers(1, 60))
def test_a_pixel_is_at_twice_its_coordinate_in_the_level_above(side: int) -> None:
    ramp = coordinates(side).view(1, 1, 1, side).expand(1, 1, 2, side)
    halved = F.halve2d(ramp)[0, 0, 0]
    inside = slice(1, -1) if side % 2 else slice(None)  # the ends of an odd side repeat a pixel
    expected = 2 * coordinates((side + 1) // 2)
    torch.testing.assert_close(halved[inside], expected[inside], rtol=0, atol=1e-13)


@every_size
def test_gradients_of_halving(size: tuple[int, int]) -> None:
    x = torch.randn(1, 1, *size, dtype=torch.float64, requires_grad=True)
    assert gradcheck(F.halve2d, x)
    assert gradgradcheck(F.halve2d, x)
    (actual,) = torch.autograd.grad(F.halve2d(x).square().sum(), x)
    (expected,) = torch.autograd.grad(reference.halve(x).square().sum(), x)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("size", [(7, 9), (7, 8), (8, 9), (8, 8)])
def test_halving_leaves_its_input_and_its_gradient_alone(size: tuple[int, int]) -> None:
    x = image(size, requires_grad=True)
    before = x.detach().clone()
    y = F.halve2d(x)
    grad = torch.randn_like(y)
    grad_before = grad.clone()
    y.backward(grad)
    assert torch.equal(x, before)
    assert torch.equal(grad, grad_before)


@pytest.mark.parametrize("size", [(7, 9), (7, 8), (8, 8), (1, 5)])
def test_halving_under_what_torch_users_put_around_it(size: tuple[int, int]) -> None:
    x = image(size, dtype=torch.float32)
    expected = F.halve2d(x)
    last = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(F.halve2d(last), expected)
    torch.testing.assert_close(torch.vmap(F.halve2d)(x[:, None])[:, 0], expected)
    assert F.halve2d(x[:0]).shape == (0, *expected.shape[1:])
    half = F.halve2d(x.bfloat16())
    assert half.dtype == torch.bfloat16
    torch.testing.assert_close(half.float(), expected, rtol=0.02, atol=0.02)


# Pooling ------------------------------------------------------------------------------------------


def ramp(height: int, width: int) -> Tensor:
    """The coordinates x + 10·y of pixel centres, y down from the top left pixel."""
    y, x = torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64)
    return (x[None, :] + 10 * y[:, None])[None, None]


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_pooling_puts_centres_at_the_middles_of_blocks(stride: int) -> None:
    x = ramp(12 * stride, 10 * stride)
    middles = stride * ramp(12, 10) + 11 * (stride - 1) / 2
    torch.testing.assert_close(F.mean_pool2d(x, stride), middles, rtol=0, atol=1e-11)
    window = F.gaussian_window(stride + 2 * math.ceil(2 * stride / 3), stride / 3)
    blurred = F.blur_pool2d(x, window, stride)
    assert blurred.shape == middles.shape
    inside = (..., slice(2, -2), slice(2, -2))  # where the reflected border does not reach
    torch.testing.assert_close(blurred[inside], middles[inside], rtol=0, atol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_mean_pooling_is_that_of_torch(
    size: int, dtype: torch.dtype, form: Callable[[Tensor], Tensor]
) -> None:
    x = form(torch.randn(2, 3, 7, 8, dtype=dtype))
    grad = torch.randn(2, 3, 7 // size, 8 // size, dtype=dtype)
    actual, expected = [], []
    for pool, results in ((F.mean_pool2d, actual), (functional.avg_pool2d, expected)):
        leaf = x.detach().requires_grad_()
        y = pool(leaf, size)
        results += [y, *torch.autograd.grad(y, leaf, grad)]
    torch.testing.assert_close(actual, expected)


def test_mean_pooling_can_be_differentiated_twice() -> None:
    x = torch.randn(1, 1, 5, 4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: F.mean_pool2d(x, 2), x)
    assert gradgradcheck(lambda x: F.mean_pool2d(x, 2), x)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pooling_is_exact_at_90_degrees(stride: int) -> None:
    x = torch.randn(1, 2, 6 * stride, 8 * stride, dtype=torch.float64)
    window = F.gaussian_window(stride + 2, 0.8)
    for pool in (lambda x: F.mean_pool2d(x, stride), lambda x: F.blur_pool2d(x, window, stride)):
        rotated = pool(torch.rot90(x, 1, (2, 3)))
        torch.testing.assert_close(rotated, torch.rot90(pool(x), 1, (2, 3)), rtol=0, atol=1e-13)


@pytest.mark.parametrize("size", [3, 4, 7])
def test_the_gaussian_window_is_symmetric_and_sums_to_one(size: int) -> None:
    window = F.gaussian_window(size, 1.1)
    assert window.dtype == torch.float64
    torch.testing.assert_close(window.sum(), torch.tensor(1.0, dtype=torch.float64))
    torch.testing.assert_close(window, window.flip(0), rtol=0, atol=0)
    ratio = window[size // 2] / window[size // 2 + 1]
    offset = (size // 2 - (size - 1) / 2, size // 2 + 1 - (size - 1) / 2)
    expected = math.exp((offset[1] ** 2 - offset[0] ** 2) / (2 * 1.1**2))
    assert math.isclose(float(ratio), expected, rel_tol=1e-12)


# Padding, and back --------------------------------------------------------------------------------


@given(sizes, st.integers(1, 5), st.booleans())
def test_padding_makes_sizes_that_can_be_halved(
    size: tuple[int, int], times: int, mirror: bool
) -> None:
    x = image(size)
    padded = F.pad_to_halve(x, times, mirror)
    for side, now in zip(size, padded.shape[2:], strict=True):
        assert now % 2**times == side % 2
        assert side <= now < side + 2**times
    assert torch.equal(F.crop(padded, *size), x)
    margins = [(now - side) // 2 for side, now in zip(size, padded.shape[2:], strict=True)]
    expected = np.pad(
        x.numpy(), [(0, 0), (0, 0), *((n, n) for n in margins)], "reflect" if mirror else "edge"
    )
    assert torch.equal(padded, torch.from_numpy(expected))
    again = F.pad_to_halve(padded, times, mirror)
    assert again is padded
    for quarters in (1, 2, 3):
        rotated = F.pad_to_halve(torch.rot90(x, quarters, (2, 3)), times, mirror)
        assert torch.equal(rotated, torch.rot90(padded, quarters, (2, 3)))


@given(st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans(), st.integers(0, 4))
def test_enlarging_is_bilinear_interpolation(
    k: int, m: int, odd_height: bool, odd_width: bool, times: int
) -> None:
    """Along an odd side of corners that stay corners, along an even one of pixels as squares."""
    height, width = (16 * max(n, 1 - odd) + odd for n, odd in ((k, odd_height), (m, odd_width)))
    x = image((halved(height, times), halved(width, times)))
    down, across = ({"mode": "bilinear", "align_corners": odd} for odd in (odd_height, odd_width))
    expected = functional.interpolate(x, (height, x.shape[3]), **down)
    expected = functional.interpolate(expected, (height, width), **across)
    actual = F.enlarge2d(x, height, width, times)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)
    inner_height, inner_width = height - 2 * (height // 5), width - 2 * (width // 3)
    middle = F.enlarge2d(x, inner_height, inner_width, times)
    torch.testing.assert_close(middle, F.crop(actual, inner_height, inner_width))


@given(sizes, st.integers(0, 4))
def test_enlarging_rotates_with_its_input(size: tuple[int, int], times: int) -> None:
    height, width = F.pad_to_halve(image(size), 4).shape[2:]
    x = image((halved(height, times), halved(width, times)))
    expected = torch.rot90(F.enlarge2d(x, height, width, times), 1, (2, 3))
    actual = F.enlarge2d(torch.rot90(x, 1, (2, 3)), width, height, times)
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("side", [80, 81])
@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_slope_survives_the_way_down_and_up(side: int, times: int) -> None:
    slope = coordinates(side).view(1, 1, side, 1) + 3 * coordinates(side)
    x = slope
    for _ in range(times):
        x = F.halve2d(x)
    back = F.enlarge2d(x, side, side, times)
    inside = slice(2 ** (times + 1), -(2 ** (times + 1)))
    torch.testing.assert_close(
        back[..., inside, inside], slope[..., inside, inside], rtol=0, atol=1e-11
    )


@pytest.mark.parametrize("size", [(4, 7), (5, 8)])
def test_gradients_of_enlarging(size: tuple[int, int]) -> None:
    x = torch.randn(1, 1, *((side + 1) // 2 for side in size), dtype=torch.float64)
    assert gradcheck(lambda z: F.enlarge2d(z, *size, 1), x.requires_grad_())
    assert gradcheck(F.halve_max2d, image(size, requires_grad=True))


def test_pixels_are_placed_exactly_under_autocast() -> None:
    x = torch.randn(1, 1, 31, 21)
    expected = F.enlarge2d(x, 481, 321, 4)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(F.enlarge2d(x, 481, 321, 4), expected)


class _Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.double2d(F.halve2d(x), x.shape[2], x.shape[3])


def test_doubling_is_exported_for_sides_of_either_parity() -> None:
    program = hnets.export.program(_Doubled(), (1, 2, 16, 24)).module()
    for size in ((16, 24), (17, 25), (17, 24), (32, 9)):
        x = torch.rand(1, 2, *size)
        torch.testing.assert_close(program(x), _Doubled()(x))
