"""Layers commute with reflections, and layers broken on purpose are caught not to."""

import math
from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from hnets import Streams
from hnets import functional as F
from hnets import nn as hnn
from hnets.basis import Rings, harmonic_basis
from hnets.plan import Combine
from hnets.testing import assert_equivariant

EXACT = 1e-10
FIELDS = ("0r", *map(str, range(-3, 4)))


def image(x: Tensor, streams: Streams, quarters: int) -> Tensor:
    """A feature map flipped upside down and rotated by quarter turns, written out in full."""
    moved = torch.rot90(x.flip(2), quarters, (2, 3)) if x.dim() == 4 else x
    parts = []
    for stream, where in zip(streams, streams.slices, strict=True):
        part = moved[:, where]
        if not stream.real:
            re, im = part.chunk(2, dim=1)
            value = torch.complex(re, im).conj() * 1j ** (stream.order * quarters % 4)
            part = torch.cat([value.real, value.imag], dim=1)
        parts.append(part)
    return torch.cat(parts, dim=1)


def randomised(layer: nn.Module) -> nn.Module:
    """In float64, with random values everywhere."""
    for values in layer.double().parameters():
        nn.init.normal_(values)
    for name, buffer in layer.named_buffers():
        if "running" in name:
            buffer.uniform_(0.5, 1.5)
    return layer


def off(layer: nn.Module, into: Streams, out: Streams, size: int) -> float:
    """Largest deviation at the flips across all four axes of a square, of the largest output."""
    x = torch.randn(2, into.channels, size, size, dtype=torch.float64)
    with torch.no_grad():
        straight = layer(x)
        differences = [
            layer(image(x, into, quarters)) - image(straight, out, quarters)
            for quarters in range(4)
        ]
    return float(torch.stack(differences).abs().max() / straight.abs().max())


# Convolutions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rings", ["exact", "gaussian"])
@pytest.mark.parametrize("size", [4, 5, 6, 7])
def test_every_path_is_exact_in_a_mirror(size: int, rings: Rings) -> None:
    tried = set()
    for n, p in product(FIELDS, FIELDS):
        into, out = Streams(f"2x{n}"), Streams(f"2x{p}")
        orders = [out[0].order - into[0].order]
        if not (into[0].real or out[0].real):
            orders.append(out[0].order + into[0].order)
        if not any(len(harmonic_basis(size, order, rings)) for order in orders):
            continue
        layer = randomised(hnn.HConv2d(into, out, size, rings=rings, mirror=True))
        assert off(layer, into, out, size + 1) < EXACT
        tried.add((n, p))
    assert {("0r", "0r"), ("0r", "0"), ("0", "0"), ("3", "3"), ("-2", "1"), ("2", "0r")} <= tried


@pytest.mark.parametrize("combine", ["sum", "stack", "max"])
@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"share": True}, 8),
        ({"conjugate": False}, 8),
        ({"stride": 2, "padding": 2}, 9),
        ({"dilation": 2, "padding": "same", "padding_mode": "reflect"}, 9),
        ({"kernel_size": 1}, 4),
    ],
)
def test_every_option_is_exact_in_a_mirror(
    options: dict[str, object], size: int, combine: Combine
) -> None:
    streams = Streams("2x0r + 2x0 + 2x1 + 2x-2 + 2x2")
    options = {"kernel_size": 5, "combine": combine, **options}
    layer = hnn.HConv2d(streams, streams, mirror=True, **options)
    assert off(randomised(layer), layer.in_streams, layer.out_streams, size) < EXACT


@pytest.mark.parametrize("size", [1, 5])
@pytest.mark.parametrize("groups", [2, 4])
def test_groups_are_exact_in_a_mirror(groups: int, size: int) -> None:
    streams = Streams("4x0r + 4x0 + 4x1 + 4x-1")
    layer = hnn.HConv2d(streams, streams, size, mirror=True, groups=groups)
    assert off(randomised(layer), streams, streams, 7) < EXACT


# Everything else ---------------------------------------------------------------------------------

ANY, CIRCLE = Streams("2x0r + 2x0 + 2x1 + 2x-2"), Streams("2x0r + 2x1 + 2x2 + 2x3")
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "ModReLU": lambda: hnn.ModReLU(ANY),
    "ModAct": lambda: hnn.ModAct(ANY, torch.tanh),
    "Gated": lambda: hnn.Gated(ANY),
    "HDropout2d": lambda: hnn.HDropout2d(ANY),
    "Magnitude": lambda: hnn.Magnitude(ANY),
    "Magnitude, summed": lambda: hnn.Magnitude(ANY, combine="sum"),
    "HBatchNorm2d": lambda: hnn.HBatchNorm2d(ANY),
    "AngularNorm2d": lambda: hnn.AngularNorm2d(CIRCLE),
    "FourierAct": lambda: hnn.FourierAct(CIRCLE, norm=True),
    "FourierAct of tanh": lambda: hnn.FourierAct(CIRCLE, torch.tanh, samples=16),
    "PolyAct": lambda: hnn.PolyAct(CIRCLE, norm=True),
    "SqueezeExcite": lambda: hnn.SqueezeExcite(ANY),
    "ResidualBlock": lambda: hnn.ResidualBlock(ANY, ANY, stride=2, squeeze=True, mirror=True),
    "LightBlock": lambda: hnn.LightBlock(CIRCLE, CIRCLE, squeeze=True, mirror=True),
    "HAvgPool2d": lambda: hnn.HAvgPool2d(2),
    "HBlurPool2d": lambda: hnn.HBlurPool2d(2),
    "HUpsample2d": lambda: hnn.HUpsample2d(2),
    "GlobalMean": lambda: hnn.GlobalMean(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_every_other_layer_is_exact_in_a_mirror(name: str) -> None:
    layer = randomised(LAYERS[name]()).eval()
    into = getattr(layer, "in_streams", ANY)
    assert off(layer, into, getattr(layer, "out_streams", into), 8) < EXACT


@pytest.mark.parametrize("name", ["HBatchNorm2d", "AngularNorm2d", "FourierAct", "PolyAct"])
def test_batch_statistics_are_the_same_in_a_mirror(name: str) -> None:
    layer = randomised(LAYERS[name]()).train()
    assert off(layer, layer.in_streams, layer.out_streams, 8) < EXACT


def test_dropped_fields_are_dropped_in_a_mirror_too() -> None:
    layer = hnn.HDropout2d(ANY).train()
    x = torch.randn(2, ANY.channels, 8, 8, dtype=torch.float64)
    for quarters in range(4):
        torch.manual_seed(0)
        expected = image(layer(x), ANY, quarters)
        torch.manual_seed(0)
        torch.testing.assert_close(layer(image(x, ANY, quarters)), expected, rtol=0, atol=EXACT)


@pytest.mark.parametrize("sides", [(8, 8), (9, 9), (11, 11)])
def test_halving_and_enlarging_are_exact_in_a_mirror(sides: tuple[int, int]) -> None:
    def up_and_down(x: Tensor) -> Tensor:
        padded = F.pad_to_halve(x, 2)
        return F.enlarge2d(F.halve2d(F.halve2d(padded)), *sides, 2)

    x = torch.randn(1, 2, *sides, dtype=torch.float64)
    real = Streams("2x0r")
    for quarters in range(4):
        actual = up_and_down(image(x, real, quarters))
        torch.testing.assert_close(
            actual, image(up_and_down(x), real, quarters), rtol=0, atol=EXACT
        )


def test_a_centre_of_mass_points_across_the_mirror() -> None:
    x = torch.rand(3, 1, 9, 9, dtype=torch.float64)
    for axis in (0.0, math.pi / 4, math.pi / 2):
        actual = F.mass_direction(F.reflect_pixels(x, axis))
        expected = Streams("1x1").reflect(F.mass_direction(x), axis)
        torch.testing.assert_close(actual, expected, rtol=0, atol=EXACT)


# Mutants: each of these mistakes rotates as it should, and is caught in a mirror ------------------

FIRST = Streams("2x0r + 2x0 + 2x1")
EVEN, ODD = slice(2, 4), slice(4, 6)
"""The parts of the complex order 0 of these streams."""


class Mutant(nn.Module):
    """Layers that commute with reflections, and a mistake before the last one.

    Only a nonlinearity makes an odd part: no linear map from an image to one commutes.
    """

    def __init__(self, mistake: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        options = {"padding": "same", "rings": "gaussian", "mirror": True}
        self.first = nn.Sequential(
            hnn.HConv2d("1x0r", FIRST, 5, **options),
            hnn.ModAct(FIRST, torch.tanh),
            hnn.HConv2d(FIRST, FIRST, 5, **options),
        )
        self.mistake = mistake
        self.last = hnn.HConv2d(FIRST, FIRST, 5, **options)

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.last(self.mistake(self.first(x)))
        return maps


def changed(where: slice, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A function that changes some channels and leaves the others alone."""
    return lambda x: torch.cat([x[:, : where.start], change(x[:, where]), x[:, where.stop :]], 1)


def conjugate_path(factor: complex) -> Callable[[Tensor], Tensor]:
    """Add to order 1 the response of a filter of order 2 to its conjugate, times a factor."""
    values = torch.tensor(harmonic_basis(5, 2, "gaussian")[0] * factor).expand(2, 1, 5, 5)

    def add(x: Tensor) -> Tensor:
        (re, im), conv = x[:, 6:].chunk(2, 1), partial(conv2d, padding=2, groups=2)
        real = conv(re, values.real) + conv(im, values.imag)
        imaginary = conv(re, values.imag) - conv(im, values.real)
        return torch.cat([x[:, :6], x[:, 6:] + torch.cat([real, imaginary], 1)], 1)

    return add


def off_the_axis(x: Tensor) -> Tensor:
    """A function of the angle, sampled at angles that a mirror does not map to one another."""
    circle = Streams("2x0r + 2x1")
    f = circle.rotate(x[:, [0, 1, 6, 7, 8, 9]], 0.2)
    f = circle.rotate(F.fourier_act(f, torch.relu, torch.tensor(F.synthesis(1, 12))), -0.2)
    return torch.cat([f[:, :2], x[:, 2:6], f[:, 2:]], dim=1)


MISTAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "a phase": lambda x: FIRST.rotate(x, 0.5),
    "a phase of order 0": changed(slice(2, 6), lambda z: Streams("2x1").rotate(z, 0.5)),
    "an imaginary conjugate path": conjugate_path(1j),
    "a bias on the odd part": changed(ODD, lambda odd: odd + 0.1),
    "a bias on a sum of both parts": changed(slice(2, 6), lambda z: z + 0.1),
    "ReLU of the odd part": changed(ODD, torch.relu),
    "even and odd exchanged": lambda x: torch.cat([x[:, :2], x[:, ODD], x[:, EVEN], x[:, 6:]], 1),
    "an odd gate": lambda x: torch.cat([x[:, :6], x[:, 6:] * x[:, [4, 5, 4, 5]].sigmoid()], 1),
    "a little odd in the even": lambda x: torch.cat([x[:, :2] + 1e-7 * x[:, ODD], x[:, 2:]], 1),
    "samples off the axis": off_the_axis,
}


def test_without_a_mistake_all_is_well() -> None:
    for harmless in (nn.Identity(), conjugate_path(1), hnn.ModReLU(FIRST)):
        assert_equivariant(Mutant(harmless), mirror=True, size=32)


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught_in_a_mirror_alone(name: str) -> None:
    net = Mutant(MISTAKES[name])
    assert_equivariant(net, size=32)
    with pytest.raises(AssertionError, match=r"Mutant is not equivariant: in a mirror"):
        assert_equivariant(net, mirror=True, size=32)


def test_a_pointing_bias_without_mirror_is_caught_and_named() -> None:
    class Pointing(nn.Module):
        def __init__(self, mirror: bool) -> None:
            super().__init__()
            self.conv = hnn.HConv2d("1x0r", FIRST, 5, padding="same", mirror=True)
            self.bias = hnn.PointingBias(FIRST, mirror=mirror)

        def forward(self, x: Tensor) -> Tensor:
            biased: Tensor = self.bias(self.conv(x), F.mass_direction(x.abs()))
            return biased

    assert_equivariant(Pointing(mirror=True), mirror=True, size=32)
    with pytest.raises(AssertionError, match=r"in a mirror.* without mirror=True: bias\n"):
        assert_equivariant(Pointing(mirror=False), mirror=True, size=32)
