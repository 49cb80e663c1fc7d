"""Layers are equivariant, and layers broken on purpose are caught not to be."""

import copy
import math
from collections.abc import Callable
from itertools import accumulate, pairwise, product

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hnets import Stream, Streams
from hnets import nn as hnn
from hnets.basis import Rings, harmonic_basis
from hnets.functional import hconv2d
from hnets.plan import KernelSpec
from hnets.testing import assert_equivariant

EXACT = 1e-10
ORDERS = range(-3, 4)


def quarter_turn(x: Tensor, streams: Streams) -> Tensor:
    """A rotation by 90 degrees counter-clockwise: pixels move, and a field of order m meets i^m."""
    x = torch.rot90(x, 1, (2, 3))
    rotated = []
    for stream, where in zip(streams, streams.slices, strict=True):
        part = x[:, where]
        for _ in range(stream.order % 4):
            re, im = part.chunk(2, dim=1)
            part = torch.cat([-im, re], dim=1)
        rotated.append(part)
    return torch.cat(rotated, dim=1)


def randomised(layer: nn.Module) -> nn.Module:
    """In float64, with weights on every ring: the initial ones leave some rings at zero."""
    for values in layer.double().parameters():
        nn.init.normal_(values)
    return layer


def off_at_90_degrees(layer: nn.Module, x: Tensor) -> float:
    """Largest deviation from equivariance at 90 degrees, relative to the largest output."""
    twin = layer
    if isinstance(layer, hnn.HConv2d):  # padding above and below comes to lie left and right
        twin = copy.deepcopy(layer)
        twin.padding = layer.padding[::-1]
    into, out = layer.in_streams, layer.out_streams
    with torch.no_grad():
        expected = quarter_turn(layer(x), out)
        actual = twin(quarter_turn(x, into))
    assert actual.shape == expected.shape
    return float((actual - expected).abs().max() / (1 + expected.abs().max()))


# Exact at 90 degrees -----------------------------------------------------------------------------


@pytest.mark.parametrize("rings", ["exact", "gaussian"])
@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_every_path_is_exact_at_90_degrees(size: int, rings: Rings) -> None:
    tried = set()
    for n, p in product(ORDERS, ORDERS):
        conjugate = len(harmonic_basis(size, p + n, rings)) > 0
        if not (conjugate or len(harmonic_basis(size, p - n, rings))):
            continue
        layer = randomised(hnn.HConv2d(f"2x{n}", f"2x{p}", size, rings=rings, conjugate=conjugate))
        x = torch.randn(1, 4, size + 2, size + 1, dtype=torch.float64)
        assert off_at_90_degrees(layer, x) < EXACT
        tried.add((n, p))
    assert {(n, p) for n, p in product(ORDERS, ORDERS) if abs(p - n) <= 3} <= tried


def streams(most: int, groups: int) -> st.SearchStrategy[Streams]:
    fields = st.integers(1, 3).map(lambda share: share * groups)
    field = st.builds(Stream, st.sampled_from(list(ORDERS)), fields)
    real = st.builds(Stream, st.just(0), fields, st.just(True))
    return st.lists(field | real, min_size=1, max_size=most).map(Streams)


def connected(some: Streams, others: Streams, spec: KernelSpec) -> bool:
    """Whether each of some streams has a filter to one of the others."""

    def joined(a: Stream, b: Stream) -> bool:
        conjugate = spec.conjugate and not (a.real or b.real)
        orders = [a.order - b.order, *([a.order + b.order] if conjugate else [])]
        return any(len(spec.basis(order)) for order in orders)

    return all(any(joined(a, b) for b in others) for a in some)


@st.composite
def layer_and_image(draw: st.DrawFn) -> tuple[hnn.HConv2d, Tensor]:
    """An HConv2d with any options, and a image whose centre its stride keeps."""
    size, stride, dilation = (draw(st.integers(*r)) for r in ((4, 7), (1, 3), (1, 2)))
    reach = dilation * (size - 1)
    padding = draw(
        st.integers(0, 3)
        | st.tuples(st.integers(0, 3), st.integers(0, 3))
        | (st.nothing() if reach % 2 else st.just("same"))
    )
    spec = KernelSpec(
        size,
        rings=draw(st.sampled_from(["exact", "gaussian"])),
        phase=draw(st.sampled_from(["filter", "ring", "none"])),
        share=draw(st.booleans()),
        conjugate=draw(st.booleans()),
    )
    groups = draw(st.integers(1, 3))
    into, out = draw(streams(3, groups)), draw(streams(3, groups))
    assume(connected(into, out, spec) and connected(out, into, spec))
    layer = hnn.HConv2d(
        into,
        out,
        size,
        stride=stride,
        padding=padding,
        dilation=dilation,
        padding_mode=draw(st.sampled_from(["zeros", "reflect"])),
        rings=spec.rings,
        phase=spec.phase,
        share=spec.share,
        conjugate=spec.conjugate,
        combine=draw(st.sampled_from(["sum", "stack", "max"])) if groups == 1 else "sum",
        groups=groups,
    )
    outputs = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    height, width = (
        stride * (n - 1) + reach + 1 - 2 * pad
        for n, pad in zip(outputs, layer.padding, strict=True)
    )
    smallest = max(layer.padding) + 1 if layer.padding_mode == "reflect" else 1
    assume(min(height, width) >= smallest)
    return randomised(layer), torch.randn(
        2, layer.in_streams.channels, height, width, dtype=torch.float64
    )


@settings(max_examples=150)
@given(layer_and_image())
def test_every_option_is_exact_at_90_degrees(case: tuple[hnn.HConv2d, Tensor]) -> None:
    layer, x = case
    assert off_at_90_degrees(layer, x) < EXACT


# Bounded at every other angle --------------------------------------------------------------------

# Of the norm of the response at the centre of equivariance, for one layer on images without
# wavelengths under 16 pixels. What is left is aliasing of the sampled rings.
BOUNDS = {
    ("exact", 3): 0.03,
    ("exact", 5): 0.1,
    ("exact", 7): 0.2,
    ("gaussian", 3): 0.01,
    ("gaussian", 5): 0.02,
    ("gaussian", 7): 0.02,
}


def plane_waves(streams: Streams, theta: float, size: int = 15, wavelength: float = 16) -> Tensor:
    """Eight random images rotated by θ about their centre; no window, so none of its edges."""
    generator = torch.Generator().manual_seed(0)
    waves = (12, 8, streams.fields, 1, 1)
    radius, direction, shift = torch.rand(3, *waves, generator=generator, dtype=torch.float64)
    frequency, direction = 2 * math.pi / wavelength * radius.sqrt(), 2 * math.pi * direction + theta
    offset = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    y, x = -offset[:, None], offset[None, :]
    image = torch.zeros(8, streams.fields, size, size, dtype=torch.complex128)
    for f, d, s in zip(frequency, direction, shift, strict=True):
        image += torch.exp(1j * (f * (d.cos() * x + d.sin() * y) + 2 * math.pi * s))
    parts = []
    for block, stream in zip(
        image.split([s.multiplicity for s in streams], dim=1), streams, strict=True
    ):
        rotated = block * torch.exp(torch.tensor(1j * stream.order * theta))
        parts += [rotated.real] if stream.real else [rotated.real, rotated.imag]
    return torch.cat(parts, dim=1)


def off_at_angle(layer: nn.Module, into: Streams, out: Streams, theta: float) -> float:
    """Deviation from exp(imθ) at the centre pixel, where nothing needs to be interpolated."""

    def centre(angle: float) -> Tensor:
        y = layer(plane_waves(into, angle))
        return y[:, :, y.shape[2] // 2, y.shape[3] // 2]

    with torch.no_grad():
        straight = centre(0.0)
        return float((centre(theta) - out.rotate(straight, theta)).norm() / straight.norm())


@settings(max_examples=20)
@given(st.data())
@pytest.mark.parametrize(("rings", "size"), BOUNDS)
def test_the_response_follows_exp_imθ_within_its_bound(
    rings: Rings, size: int, data: st.DataObject
) -> None:
    n, p = data.draw(
        st.tuples(st.sampled_from(ORDERS), st.sampled_from(ORDERS)).filter(
            lambda path: len(harmonic_basis(size, path[1] - path[0], rings))
        )
    )
    torch.manual_seed(data.draw(st.integers(0, 1000)))
    layer = hnn.HConv2d(f"4x{n}", f"4x{p}", size, rings=rings).double()
    theta = data.draw(st.floats(0, 2 * math.pi))
    off = off_at_angle(layer, layer.in_streams, layer.out_streams, theta)
    assert off < BOUNDS[rings, size]


@settings(max_examples=20)
@given(st.lists(st.sampled_from(ORDERS), min_size=2, max_size=3), st.floats(0, 2 * math.pi))
def test_chained_orders_add(filters: list[int], theta: float) -> None:
    orders = [0, *accumulate(filters)]
    assume(set(orders) <= set(ORDERS))
    chain = nn.Sequential(
        *(hnn.HConv2d(f"4x{n}", f"4x{p}", 5, rings="gaussian") for n, p in pairwise(orders))
    )
    off = off_at_angle(chain.double(), Streams("4x0"), Streams(f"4x{sum(filters)}"), theta)
    assert off < 0.05


class Converging(nn.Module):
    """Two branches through different orders that meet in one."""

    def __init__(self) -> None:
        super().__init__()
        self.in_streams, self.out_streams = Streams("1x0r"), Streams("4x2")
        options = {"kernel_size": 5, "padding": "same", "rings": "gaussian"}
        self.one = nn.Sequential(
            hnn.HConv2d("1x0r", "4x1", **options), hnn.HConv2d("4x1", "4x2", **options)
        )
        self.other = nn.Sequential(
            hnn.HConv2d("1x0r", "4x-1", **options), hnn.HConv2d("4x-1", "4x2", **options)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.one(x) + self.other(x)


def test_a_sum_of_branches_of_equal_order_has_that_order() -> None:
    net = Converging().double()
    x = torch.randn(1, 1, 12, 12, dtype=torch.float64)
    assert off_at_90_degrees(net, x) < EXACT
    for theta in (0.3, 1.1, 2.5):
        assert off_at_angle(net, net.in_streams, net.out_streams, theta) < 0.05


# Mutants: every one of these mistakes is caught --------------------------------------------------

Mutation = Callable[[Tensor, Streams, Streams], Tensor]


class Mutant(nn.Module):
    """An HConv2d whose assembled kernel is changed."""

    def __init__(self, layer: hnn.HConv2d, mutation: Mutation) -> None:
        super().__init__()
        self.layer, self.mutation = layer, mutation
        self.in_streams, self.out_streams = layer.in_streams, layer.out_streams

    def forward(self, x: Tensor) -> Tensor:
        kernel = self.mutation(self.layer.filters(), self.in_streams, self.out_streams)
        return hconv2d(x, kernel, padding=self.layer.padding)


def times_imaginary(
    kernel: Tensor, into: Streams, out: Streams, factor: Callable[[int], int]
) -> Tensor:
    """The imaginary part of every path's filter times a factor that depends on its order."""
    kernel = kernel.clone()
    for (o, rows), (i, columns) in product(
        zip(out, out.slices, strict=True), zip(into, into.slices, strict=True)
    ):
        block = kernel[rows, columns].unflatten(0, (2, -1)).unflatten(2, (2, -1))
        block[0, :, 1] *= factor(o.order - i.order)
        block[1, :, 0] *= factor(o.order - i.order)
    return kernel


def unchanged(kernel: Tensor, into: Streams, out: Streams) -> Tensor:
    return times_imaginary(kernel, into, out, lambda m: 1)


def without_conjugate(kernel: Tensor, into: Streams, out: Streams) -> Tensor:
    """W_m also where W_{−m} = conj(W_m) is due."""
    return times_imaginary(kernel, into, out, lambda m: -1 if m < 0 else 1)


def without_imaginary_part(kernel: Tensor, into: Streams, out: Streams) -> Tensor:
    return times_imaginary(kernel, into, out, lambda m: 0)


def without_imaginary_part_at_order_zero(kernel: Tensor, into: Streams, out: Streams) -> Tensor:
    """The phase multiplied by sign(m), which is 0 for m = 0."""
    return times_imaginary(kernel, into, out, lambda m: 0 if m == 0 else 1)


def y_down(kernel: Tensor, into: Streams, out: Streams) -> Tensor:
    return kernel.flip(-2)


def off_centre(kernel: Tensor, into: Streams, out: Streams) -> Tensor:
    return kernel.roll(1, -1)


def mutant(mutation: Mutation, streams: str = "2x0 + 2x1") -> Mutant:
    return Mutant(randomised(hnn.HConv2d(streams, streams, 5, padding="same")), mutation)


class PlainReLU(nn.ReLU):
    in_streams = out_streams = Streams("2x0r + 2x1")


class PlainMaxPool(nn.MaxPool2d):
    in_streams = out_streams = Streams("2x0r + 2x1")


class PlainConv(nn.Conv2d):
    in_streams = out_streams = Streams("2x0r + 2x1")


def test_the_unchanged_layer_passes() -> None:
    layer, x = mutant(unchanged), torch.randn(1, 8, 9, 9, dtype=torch.float64)
    assert off_at_90_degrees(layer, x) < EXACT
    assert torch.equal(layer(x), layer.layer(x))
    assert_equivariant(layer)


@pytest.mark.parametrize(
    "mutation", [without_conjugate, without_imaginary_part, y_down, off_centre]
)
def test_a_mutant_kernel_is_caught(mutation: Mutation) -> None:
    layer, x = mutant(mutation), torch.randn(1, 8, 9, 9, dtype=torch.float64)
    assert off_at_90_degrees(layer, x) > 0.01
    with pytest.raises(AssertionError, match="is not equivariant"):
        assert_equivariant(layer)
    with pytest.raises(AssertionError, match="is not equivariant"):
        assert_equivariant(layer, angles=[20.0, 50.0])


@pytest.mark.parametrize(
    "module", [PlainReLU(), PlainMaxPool(2), PlainConv(6, 6, 3, padding=1)], ids=repr
)
def test_a_plain_layer_is_caught(module: nn.Module) -> None:
    x = torch.randn(1, 6, 8, 8, dtype=torch.float64)
    assert off_at_90_degrees(module.double(), x) > 0.01
    with pytest.raises(AssertionError, match="is not equivariant"):
        assert_equivariant(module)


def phase_is_a_rotation(layer: Mutant, delta: float = 0.7) -> bool:
    """Whether δ added to the phases of order 0 multiplies a response of order 1 by exp(iδ)."""
    x = torch.randn(1, 4, 9, 9, dtype=torch.float64)
    with torch.no_grad():
        before = layer(x)
        for beta in layer.layer.filters.phase.values():
            beta += delta
        after = layer(x)
    return torch.allclose(after, Streams("2x1").rotate(before, delta), rtol=0, atol=EXACT)


def test_the_phase_of_order_zero_is_a_full_rotation() -> None:
    assert phase_is_a_rotation(mutant(unchanged, "2x1"))


def test_a_phase_lost_at_order_zero_is_caught_though_it_leaves_a_layer_equivariant() -> None:
    layer = mutant(without_imaginary_part_at_order_zero, "2x1")
    assert off_at_90_degrees(layer, torch.randn(1, 4, 9, 9, dtype=torch.float64)) < EXACT
    assert not phase_is_a_rotation(layer)
