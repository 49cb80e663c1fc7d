"""Layers commute with reflections, and layers broken on purpose are caught not to."""

import math
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor, nn

from hnets import Streams
from hnets import functional as F
from hnets import nn as hnn
from hnets.basis import Rings, harmonic_basis

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
    ],
)
def test_every_option_is_exact_in_a_mirror(
    options: dict[str, object], size: int, combine: hnn.kernel.Combine
) -> None:
    streams = Streams("2x0r + 2x0 + 2x1 + 2x-2")
    layer = hnn.HConv2d(streams, streams, 5, mirror=True, combine=combine, **options)
    assert off(randomised(layer), layer.in_streams, layer.out_streams, size) < EXACT


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
