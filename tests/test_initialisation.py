"""Power through many layers at initialisation: in expectation exactly, and as drawn."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import Streams
from hnets import nn as hnn
from hnets.basis import Rings
from hnets.initialisation import radial_std
from hnets.plan import KernelSpec, Plan, make_plan

DEPTH = 10
PIXELS = 64
BOTH = Streams("8x0 + 8x1")
Spectrum = NDArray[np.float64]
Deviations = tuple[NDArray[np.float64], ...]


def natural_image() -> NDArray[np.float64]:
    """Part of scikit-image's photograph of a cameraman, with mean 0 and mean square 1."""
    skimage = pytest.importorskip("skimage.data", reason="needs scikit-image for a photograph")
    crop = skimage.camera()[128 : 128 + PIXELS, 192 : 192 + PIXELS].astype(np.float64)
    return (crop - crop.mean()) / crop.std()


def sample(kind: str) -> NDArray[np.float64]:
    if kind == "natural":
        return natural_image()
    return np.random.default_rng(0).standard_normal((PIXELS, PIXELS))


def spectrum(kind: str) -> Spectrum:
    """Power at every frequency, of mean 1."""
    if kind == "noise":
        return np.ones((PIXELS, PIXELS))
    return np.abs(np.fft.fft2(natural_image())) ** 2 / PIXELS**2


def equal(made: Plan) -> Deviations:
    """The same deviation on every ring, which keeps the power of white noise in one layer."""
    into = 0.0
    for block in made.blocks:
        for path in block.paths:
            columns = block.filters[path.filter].columns
            into += block.inputs[path.source].multiplicity * (columns.stop - columns.start)
    deviation = math.sqrt(len(made.outputs) / into)
    return tuple(np.full(block.columns, deviation) for block in made.blocks)


# In expectation ----------------------------------------------------------------------------------


def expected(powers: list[Spectrum], made: Plan, deviations: Deviations) -> list[Spectrum]:
    """Expected spectra of the output streams: weights are independent, so that powers add."""
    result = []
    for i, row in enumerate(made.rows):
        for target, out in enumerate(row[0].outputs):
            total = np.zeros((PIXELS, PIXELS))
            start = 0
            for j, block in enumerate(row):
                deviation = deviations[i * len(row) + j]
                for path in block.paths:
                    if path.target != target:
                        continue
                    source = block.inputs[path.source]
                    columns = block.filters[path.filter].columns
                    rings = np.fft.fft2(made.spec.basis(path.order), s=(PIXELS, PIXELS))
                    gain = np.tensordot(deviation[columns] ** 2, np.abs(rings) ** 2, 1)
                    share = 0.5 if out.real and not source.real else 1.0
                    total += share * source.multiplicity * gain * powers[start + path.source]
                start += len(block.inputs)
            result.append(total)
    return result


def expected_powers(kind: str, size: int, streams: Streams, equal_rings: bool) -> list[float]:
    """Mean squared magnitude of the fields, expected after 0 to 10 layers."""
    powers, before, actual = [spectrum(kind)], Streams("1x0r"), [1.0]
    for _ in range(DEPTH):
        made = make_plan(before, streams, KernelSpec(size))
        deviations = equal(made) if equal_rings else radial_std(made)
        powers, before = expected(powers, made, deviations), streams
        widths = [stream.multiplicity for stream in streams]
        actual.append(float(np.average([p.mean() for p in powers], weights=widths)))
    return actual


@pytest.mark.parametrize("streams", ["8x0 + 8x1", "16x0r + 16x1"])
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("kind", ["noise", "natural"])
def test_expected_power_stays_within_a_factor_of_two(kind: str, size: int, streams: str) -> None:
    powers = expected_powers(kind, size, Streams(streams), equal_rings=False)
    assert max(powers) < 2 * min(powers)


@pytest.mark.parametrize("streams", ["8x0 + 8x1 + 8x2", "16x0r + 16x1 + 16x2", "4x0 + 12x1"])
@pytest.mark.parametrize("size", [5, 7])
@pytest.mark.parametrize("kind", ["noise", "natural"])
def test_with_more_orders_the_layers_after_the_first_keep_it(
    kind: str, size: int, streams: str
) -> None:
    powers = expected_powers(kind, size, Streams(streams), equal_rings=False)
    assert max(powers[1:]) < 2 * min(powers[1:])
    assert powers[1] > 0.4  # of a smooth image, filters of high order see little


@pytest.mark.parametrize("kind", ["noise", "natural"])
def test_equal_variances_would_not(kind: str) -> None:
    powers = expected_powers(kind, 5, BOTH, equal_rings=True)
    assert powers[-1] > 30 * powers[0]


# As drawn ----------------------------------------------------------------------------------------


def drawn_powers(
    kind: str,
    size: int,
    padding_mode: str,
    equal_rings: bool = False,
    draws: int = 16,
    out: Streams = BOTH,
    **options: Any,
) -> Tensor:
    """Mean squared magnitude after 0 to 10 layers, averaged over draws.

    One draw of ten narrow layers scatters: each multiplies the power by a random number.
    """
    image = torch.tensor(sample(kind), dtype=torch.float32)[None, None]
    powers = torch.zeros(draws, DEPTH + 1)
    for draw in range(draws):
        torch.manual_seed(draw)
        x, streams = image, Streams("1x0r")
        powers[draw, 0] = x.square().mean()
        for depth in range(1, DEPTH + 1):
            same = {"padding": "same", "padding_mode": padding_mode}
            layer = hnn.HConv2d(streams, out, size, **same, **options)
            if equal_rings:
                for weight, deviation in zip(
                    layer.filters.radial.values(), equal(layer.filters.plan), strict=True
                ):
                    nn.init.normal_(weight, std=float(deviation[0]))
            with torch.no_grad():
                x, streams = layer(x), out
            powers[draw, depth] = x.square().sum(1).mean() / out.fields
    return powers.mean(0)


@pytest.mark.parametrize(
    ("size", "padding_mode"), [(3, "reflect"), (5, "reflect"), (7, "reflect"), (5, "zeros")]
)
@pytest.mark.parametrize("kind", ["noise", "natural"])
def test_drawn_power_stays_within_a_factor_of_two(kind: str, size: int, padding_mode: str) -> None:
    powers = drawn_powers(kind, size, padding_mode)
    assert powers[1:].max() < 2 * powers[1:].min()
    if kind == "noise":  # a smooth image has little that filters of order 1 can pass on
        assert powers.min() > 0.5
        assert powers.max() < 2


@pytest.mark.parametrize("streams", ["8x0 + 8x1", "8x0r + 8x1"])
@pytest.mark.parametrize("kind", ["noise", "natural"])
def test_drawn_power_stays_in_a_mirror_too(kind: str, streams: str) -> None:
    powers = drawn_powers(kind, 5, "reflect", out=Streams(streams), mirror=True)
    assert powers[1:].max() < 2 * powers[1:].min()


@pytest.mark.parametrize("streams", ["8x0 + 8x1", "8x0r + 8x0r", "8x0r + 8x1 + 8x2"])
def test_drawn_power_stays_where_the_largest_response_wins(streams: str) -> None:
    powers = drawn_powers("noise", 5, "reflect", out=Streams(streams), combine="max")
    assert powers[1:].max() < 2 * powers[1:].min()


@pytest.mark.parametrize("kind", ["noise", "natural"])
def test_equal_variances_would_not_as_drawn(kind: str) -> None:
    powers = drawn_powers(kind, 5, "reflect", equal_rings=True, draws=4)
    assert powers[-1] > 10 * powers[0]


# One layer ---------------------------------------------------------------------------------------


# Gaussian rings are smooth, and white noise is not.
@pytest.mark.parametrize(("rings", "least"), [("exact", 0.5), ("gaussian", 0.2)])
@pytest.mark.parametrize("combine", ["sum", "stack", "max"])
@pytest.mark.parametrize("streams", ["16x0 + 16x1", "16x0r + 16x1", "4x0 + 24x1"])
def test_one_layer_keeps_most_of_the_power_in_every_stream(
    streams: str, combine: str, rings: Rings, least: float
) -> None:
    layer = hnn.HConv2d(streams, streams, 5, combine=combine, rings=rings)
    x = torch.randn(4, layer.in_streams.channels, 24, 24)
    for stream, where in zip(layer.in_streams, layer.in_streams.slices, strict=True):
        x[:, where] /= math.sqrt(stream.parts)
    with torch.no_grad():
        y = layer(x)
    for stream, where in zip(layer.out_streams, layer.out_streams.slices, strict=True):
        power = y[:, where].square().sum(1).mean() / stream.multiplicity
        assert least < power < 2, (stream, power)


def test_deviations_stand_one_a_column_and_are_cached() -> None:
    made = make_plan(BOTH, Streams("8x0 + 4x1"), KernelSpec(5))
    deviations = radial_std(made)
    assert [d.shape for d in deviations] == [(block.columns,) for block in made.blocks]
    assert all((d >= 0).all() for d in deviations)
    assert radial_std(made) is deviations


def test_radial_weights_are_drawn_with_these_deviations() -> None:
    layer = hnn.HConv2d("64x0 + 64x1", "64x0 + 64x1", 5)
    (weight,), (deviation,) = layer.filters.radial.values(), radial_std(layer.filters.plan)
    actual = weight.detach().square().mean((0, 1)).sqrt()
    torch.testing.assert_close(actual, torch.tensor(deviation).float(), rtol=0.05, atol=0)
