"""What every layer has: equivariance, finite gradients, errors that name the input."""

import pickle
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.testing import assert_equivariant

BOTH = "4x0 + 4x1"
MIXED = "3x0r + 2x1 + 2x-2"


def squash(r: Tensor) -> Tensor:
    return r**2 / (1 + r**2)


def network() -> nn.Sequential:
    """Every kind of layer after another."""
    gated = hnn.Gated(BOTH)
    return nn.Sequential(
        hnn.HConv2d("3x0r", BOTH, 5, padding="same"),
        hnn.ModReLU(BOTH),
        hnn.HConv2d(BOTH, gated.in_streams, 3, padding="same"),
        gated,
        hnn.HBlurPool2d(2),
        hnn.HConv2d(BOTH, MIXED, 5, padding="same", combine="max"),
        hnn.HBatchNorm2d(MIXED),
        hnn.HDropout2d(MIXED, 0.2),
        hnn.HUpsample2d(2),
        hnn.ModAct(MIXED, torch.tanh),
        hnn.HAvgPool2d(2),
        hnn.Magnitude(MIXED),
        hnn.GlobalMean(),
    )


@pytest.mark.parametrize(
    "module",
    [
        hnn.ModReLU(MIXED),
        hnn.ModAct(MIXED, functional.softplus),
        hnn.ModAct(MIXED, torch.tanh),
        hnn.ModAct(MIXED, squash),
        hnn.Gated(MIXED),
        hnn.HBatchNorm2d(MIXED),
        hnn.HDropout2d(MIXED),
        hnn.Magnitude(MIXED),
        hnn.Magnitude("3x0r + 3x1", combine="sum"),
    ],
    ids=repr,
)
def test_modules_are_equivariant(module: nn.Module) -> None:
    for values in module.parameters():
        nn.init.normal_(values)
    assert_equivariant(module, tolerance=0.1)  # edges that a nonlinearity makes interpolate badly


def test_a_network_of_every_layer_is_equivariant() -> None:
    net = network()
    net(torch.randn(4, 3, 32, 32))  # statistics for the norm
    assert_equivariant(net, tolerance=0.1)
    assert_equivariant(net[:-1], tolerance=0.2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_a_network_are_finite_at_zero(dtype: torch.dtype) -> None:
    net = network().to(dtype)
    x = torch.zeros(2, 3, 16, 16, dtype=dtype, requires_grad=True)
    net(x).sum().backward()
    for name, values in [("x", x), *net.named_parameters()]:
        assert values.grad is not None, name
        assert values.grad.isfinite().all(), name


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_gradients_of_a_network_are_finite_under_bf16_autocast(value: float) -> None:
    net = network()
    x = torch.full((2, 3, 16, 16), value, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        loss = net(x).float().sum()
    loss.backward()
    for name, values in [("x", x), *net.named_parameters()]:
        assert values.grad is not None, name
        assert values.grad.isfinite().all(), name
        assert values.grad.dtype == torch.float32, name


def test_modules_take_vectors_where_they_need_no_pixels() -> None:
    for module in (hnn.ModReLU(MIXED), hnn.ModAct(MIXED, squash), hnn.Magnitude(MIXED)):
        x = torch.randn(2, 11)
        flat, image = module(x), module(x[:, :, None, None])
        torch.testing.assert_close(flat, image[:, :, 0, 0])


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (hnn.ModReLU, "ModReLU"),
        (lambda s: hnn.ModAct(s, squash), "ModAct"),
        (hnn.HBatchNorm2d, "HBatchNorm2d"),
        (hnn.HDropout2d, "HDropout2d"),
        (hnn.Magnitude, "Magnitude"),
    ],
)
def test_bad_input_is_named(make: Callable[[str], nn.Module], name: str) -> None:
    module = make("2x0 + 2x1")
    with pytest.raises(ValueError, match=rf"{name} expects 2x0 \+ 2x1 = 8 .*\(1, 7, 5, 5\)"):
        module(torch.zeros(1, 7, 5, 5))
    with pytest.raises(TypeError, match=f"{name} expects a floating-point input, got torch.int64"):
        module(torch.zeros(1, 8, 5, 5, dtype=torch.int64))
    with pytest.raises(ValueError, match='cannot read streams from "8y0"'):
        make("8y0")


CIRCLE = "2x0r + 2x1 + 2x2"
ON_TEN_CHANNELS: list[Callable[[], nn.Module]] = [
    lambda: hnn.HConv2d(CIRCLE, CIRCLE, 5, padding="same", groups=2),
    lambda: hnn.ModReLU(CIRCLE),
    lambda: hnn.HBatchNorm2d(CIRCLE),
    lambda: hnn.AngularNorm2d(CIRCLE),
    lambda: hnn.FourierAct(CIRCLE),
    lambda: hnn.FourierAct(CIRCLE, torch.tanh),
    lambda: hnn.FourierAct(CIRCLE, norm=True),
    lambda: hnn.PolyAct(CIRCLE, norm=True),
    lambda: hnn.SqueezeExcite(CIRCLE),
    lambda: hnn.LightBlock(CIRCLE, CIRCLE, stride=2, squeeze=True),
    lambda: hnn.ResidualBlock(CIRCLE, CIRCLE),
    lambda: hnn.Magnitude(CIRCLE),
    lambda: hnn.HAvgPool2d(2),
    lambda: hnn.HBlurPool2d(2),
    lambda: hnn.HUpsample2d(2),
]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("make", ON_TEN_CHANNELS, ids=lambda make: repr(make()).split("(")[0])
def test_shapes_are_known_without_memory(make: Callable[[], nn.Module], training: bool) -> None:
    layer, x = make().train(training), torch.zeros(2, 10, 8, 8)
    y = layer.to("meta")(x.to("meta"))
    assert y.is_meta
    assert y.shape == make()(x).shape


@pytest.mark.parametrize(
    ("make", "bound"),
    [
        (lambda: hnn.FourierAct(CIRCLE), 1e-14),
        (lambda: hnn.FourierAct(CIRCLE, torch.tanh), 1e-14),
        (lambda: hnn.HBlurPool2d(2), 1e-14),
        (lambda: hnn.PolyAct(CIRCLE), 1e-14),  # whose numbers are halves
        (lambda: hnn.FourierAct(CIRCLE, norm=True), 1e-6),  # that of its parameters
    ],
)
def test_a_float64_input_keeps_its_precision_in_a_float32_layer(
    make: Callable[[], nn.Module], bound: float
) -> None:
    x, layer = torch.randn(2, 10, 8, 8, dtype=torch.float64), make()
    expected = make().double()(x)
    for call in (layer, torch.compile(layer, backend="aot_eager", fullgraph=True)):
        y = call(x)
        assert y.dtype == torch.float64
        assert (y - expected).abs().max() < bound
    assert layer(x.float()).dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int32])
@pytest.mark.parametrize(
    "make",
    [
        lambda **options: hnn.HConv2d("1x0r", "2x0 + 2x1", 5, **options),
        lambda **options: hnn.ModReLU("1x1", **options),
        lambda **options: hnn.HBatchNorm2d("1x1", **options),
        lambda **options: hnn.AngularNorm2d("1x0r + 1x1", **options),
        lambda **options: hnn.FourierAct("1x0r + 1x1", **options),
        lambda **options: hnn.PolyAct("1x0r + 1x1", **options),
        lambda **options: hnn.PointingBias("1x1", **options),
    ],
)
def test_parameters_are_of_a_floating_point_type(make, dtype: torch.dtype) -> None:
    with pytest.raises(ValueError, match=f"a floating-point type .* got {dtype}; a complex number"):
        make(dtype=dtype)
    assert make(dtype=torch.float64) is not None


@pytest.mark.parametrize(
    "module",
    [hnn.HAvgPool2d(2), hnn.HBlurPool2d(2), hnn.HUpsample2d(2), hnn.GlobalMean()],
    ids=repr,
)
def test_sampling_names_an_input_that_is_no_image(module: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"\(batch, channels, height, width\).*\(2, 8\)"):
        module(torch.zeros(2, 8))


def test_prints_its_streams() -> None:
    for module in (hnn.ModReLU(BOTH), hnn.ModAct(BOTH, squash), hnn.HDropout2d(BOTH)):
        assert BOTH in repr(module)
    assert "4x0 + 4x1 -> 8x0r" in repr(hnn.Magnitude(BOTH))
    assert "4x0 + 4x1 + 8x0r -> 4x0 + 4x1" in repr(hnn.Gated(BOTH))


def test_a_network_pickles() -> None:
    net = network().eval()
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(pickle.loads(pickle.dumps(net))(x), net(x))
