"""Activations, norm, dropout, sampling and read-outs as modules."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as functional
from torch import Tensor, nn

from hnets import Streams
from hnets import functional as F
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


# Every module ------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "module",
    [hnn.HAvgPool2d(2), hnn.HBlurPool2d(2), hnn.HUpsample2d(2), hnn.HUpsample2d(3)],
    ids=repr,
)
def test_sampling_is_equivariant(module: nn.Module) -> None:
    assert_equivariant(module, tolerance=0.01, in_streams=MIXED, out_streams=MIXED)


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
        flat, picture = module(x), module(x[:, :, None, None])
        torch.testing.assert_close(flat, picture[:, :, 0, 0])


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


def test_gated_names_bad_input_with_its_gates() -> None:
    with pytest.raises(ValueError, match=r"Gated expects 2x0 \+ 2x1 \+ 4x0r = 12 channels"):
        hnn.Gated("2x0 + 2x1")(torch.zeros(1, 8, 5, 5))


@pytest.mark.parametrize(
    "module",
    [hnn.HAvgPool2d(2), hnn.HBlurPool2d(2), hnn.HUpsample2d(2), hnn.GlobalMean()],
    ids=repr,
)
def test_sampling_names_an_input_that_is_no_picture(module: nn.Module) -> None:
    with pytest.raises(ValueError, match=r"\(batch, channels, height, width\).*\(2, 8\)"):
        module(torch.zeros(2, 8))


def test_prints_its_streams() -> None:
    for module in (hnn.ModReLU(BOTH), hnn.ModAct(BOTH, squash), hnn.HDropout2d(BOTH)):
        assert BOTH in repr(module)
    assert "4x0 + 4x1 -> 8x0r" in repr(hnn.Magnitude(BOTH))
    assert "4x0 + 4x1 + 8x0r -> 4x0 + 4x1" in repr(hnn.Gated(BOTH))


# Activations -------------------------------------------------------------------------------------


def test_modrelu_starts_as_the_identity() -> None:
    act = hnn.ModReLU(BOTH)
    x = torch.randn(2, 16, 5, 5)
    torch.testing.assert_close(act(x), x)
    assert act.bias.shape == (8,)


def test_modrelu_with_a_negative_bias_zeroes_small_fields() -> None:
    act = hnn.ModReLU("1x1")
    nn.init.constant_(act.bias, -1.0)
    x = torch.tensor([[0.3, 0.4], [3.0, 4.0]])
    expected = torch.tensor([[0.0, 0.0], [2.4, 3.2]])
    torch.testing.assert_close(act(x), expected, rtol=0, atol=1e-4)


def test_modact_learns_a_value_a_field() -> None:
    act = nn.PReLU(7)
    module = hnn.ModAct(MIXED, act)
    assert [name for name, _ in module.named_parameters()] == ["act.weight"]
    x = torch.randn(2, 11, 5, 5)
    torch.testing.assert_close(module(x), x)  # magnitudes are positive


def test_gates_open_and_close_whole_fields() -> None:
    gated = hnn.Gated("2x1")
    fields = torch.randn(1, 4, 3, 3)
    gates = torch.tensor([100.0, -100.0]).view(1, 2, 1, 1).expand(1, 2, 3, 3)
    y = gated(torch.cat([fields, gates], dim=1))
    expected = fields * torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 4, 1, 1)
    torch.testing.assert_close(y, expected)


# Norm --------------------------------------------------------------------------------------------


def test_norm_gives_every_field_the_statistics_of_its_parameters() -> None:
    norm = hnn.HBatchNorm2d(MIXED, magnitude_eps=1e-12)
    nn.init.constant_(norm.weight, 0.5)
    nn.init.constant_(norm.bias, 5.0)  # far from zero, where the ReLU does not cut
    x = torch.randn(8, 11, 16, 16) * (1 + torch.rand(11, 1, 1))
    lengths = F.magnitude(norm(x), norm.out_streams)
    torch.testing.assert_close(lengths.mean((0, 2, 3)), torch.full((7,), 5.0), rtol=1e-3, atol=0)
    torch.testing.assert_close(lengths.std((0, 2, 3)), torch.full((7,), 0.5), rtol=1e-2, atol=0)


def test_norm_moves_running_statistics_in_training_alone() -> None:
    norm = hnn.HBatchNorm2d("2x1", momentum=0.25)
    x = torch.randn(3, 4, 6, 6)
    lengths = (F.magnitude(x, norm.in_streams) ** 2 + norm.magnitude_eps).sqrt()
    norm(x)
    torch.testing.assert_close(norm.running_mean, 0.25 * lengths.mean((0, 2, 3)))
    torch.testing.assert_close(norm.running_var, 0.75 + 0.25 * lengths.var((0, 2, 3)))
    before = copy.deepcopy(norm.state_dict())
    norm.eval()(x)
    torch.testing.assert_close(norm.state_dict(), before, rtol=0, atol=0)


def test_norm_in_evaluation_approaches_training() -> None:
    norm = hnn.HBatchNorm2d("2x0r + 2x1", momentum=0.5)
    x = torch.randn(16, 6, 16, 16)
    for _ in range(40):
        trained = norm(x)
    torch.testing.assert_close(norm.eval()(x), trained, rtol=1e-2, atol=1e-3)


def test_norm_in_evaluation_is_its_folded_form() -> None:
    norm = hnn.HBatchNorm2d(MIXED).eval()
    for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(values, 0.5, 2.0)
    x = torch.randn(2, 11, 5, 5)
    scale, shift = F.fold_batch_norm(
        norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
    )
    folded = F.magnitude_relu(x, scale, shift, norm.in_streams, norm.magnitude_eps)
    torch.testing.assert_close(norm(x), folded)


def test_norm_of_one_value_a_channel_is_an_error_in_training_alone() -> None:
    norm, x = hnn.HBatchNorm2d("2x1"), torch.ones(1, 4, 1, 1)
    with pytest.raises(ValueError, match=r"more than one value for each channel.*\(1, 4, 1, 1\)"):
        norm(x)
    assert norm.eval()(x).shape == x.shape


def test_norm_keeps_four_values_a_field() -> None:
    norm = hnn.HBatchNorm2d(BOTH)
    shapes = {name: tuple(value.shape) for name, value in norm.state_dict().items()}
    names = ("weight", "bias", "running_mean", "running_var")
    assert shapes == dict.fromkeys(names, (8,))


# Dropout -----------------------------------------------------------------------------------------


def test_dropout_drops_both_parts_of_a_field_in_training_alone() -> None:
    drop = hnn.HDropout2d("50x1", p=0.4)
    x = torch.randn(8, 100, 4, 4)
    y = drop(x)
    re, im = ((part != 0).all((2, 3)) for part in y.chunk(2, dim=1))
    assert torch.equal(re, im)
    assert 0.5 < re.float().mean() < 0.7
    kept = torch.cat([re, im], dim=1)[:, :, None, None]
    torch.testing.assert_close(y, x * kept / 0.6)
    assert drop.eval()(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.0, 2])
def test_dropout_names_a_bad_probability(p: float) -> None:
    with pytest.raises(ValueError, match=f"p is a probability .* got {p}"):
        hnn.HDropout2d("2x1", p)


# Sampling ----------------------------------------------------------------------------------------


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
    turned = module.double()(torch.rot90(x, 1, (2, 3)))
    torch.testing.assert_close(turned, torch.rot90(module(x), 1, (2, 3)), rtol=0, atol=1e-13)


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


# Read-outs ---------------------------------------------------------------------------------------


def test_magnitude_stacks_streams_or_sums_orders() -> None:
    x = torch.tensor([[3.0, 1.0, 4.0, 0.0, 6.0, 5.0, 8.0, 12.0]])  # 3+4i, 1; 6+8i, 5+12i
    assert torch.equal(hnn.Magnitude("2x0 + 2x1")(x), torch.tensor([[5.0, 1.0, 10.0, 13.0]]))
    summed = hnn.Magnitude("2x0 + 2x1", combine="sum")
    assert torch.equal(summed(x), torch.tensor([[15.0, 14.0]]))
    assert hnn.Magnitude("2x0 + 2x1").out_streams == Streams("4x0r")
    assert summed.out_streams == Streams("2x0r")


def test_magnitude_names_what_it_cannot_sum() -> None:
    with pytest.raises(ValueError, match=r"equal multiplicity, got 2x0 \+ 3x1"):
        hnn.Magnitude("2x0 + 3x1", combine="sum")
    with pytest.raises(ValueError, match='combine is "stack" or "sum", got \'mean\''):
        hnn.Magnitude("2x0", combine="mean")  # type: ignore[arg-type]


def test_global_mean_averages_the_picture() -> None:
    x = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(hnn.GlobalMean()(x), x.flatten(2).mean(2))


def test_a_network_pickles() -> None:
    net = network().eval()
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(pickle.loads(pickle.dumps(net))(x), net(x))
