"""Layers on functions of the angle: exact where they are polynomials, else bounded."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import forward_ad

import hnets
from hnets import Streams
from hnets import functional as F
from hnets import nn as hnn

CIRCLE = "3x0r + 3x1 + 3x2 + 3x3"
ACTS: dict[str, Callable[[str], nn.Module]] = {
    "relu": hnn.FourierAct,
    "relu, normed": partial(hnn.FourierAct, norm=True),
    "elu, normed": partial(hnn.FourierAct, act=nn.ELU(), norm=True),
    "poly": hnn.PolyAct,
    "poly, normed": partial(hnn.PolyAct, norm=True),
    "norm": hnn.AngularNorm2d,
}


def _filled(make: Callable[[str], nn.Module], streams: str = CIRCLE) -> nn.Module:
    """A layer that has seen a batch, with parameters that are not their start."""
    layer = make(streams).double()
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.3, 1.2)
    layer(torch.randn(6, Streams(streams).channels, 5, 5).double())
    return layer


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ACTS)
def test_exact_at_the_angles_of_the_samples(name: str, training: bool) -> None:
    layer = _filled(ACTS[name]).train(training)
    x, streams = torch.randn(4, Streams(CIRCLE).channels, 5, 5).double(), Streams(CIRCLE)
    samples = getattr(layer, "samples", 1)
    for step in range(1, samples):
        theta = 2 * math.pi * step / samples
        rotated, expected = layer(streams.rotate(x, theta)), streams.rotate(layer(x), theta)
        assert torch.allclose(rotated, expected, atol=1e-12)


@settings(max_examples=20)
@given(st.floats(0, 2 * math.pi))
def test_polynomials_and_norms_are_exact_at_every_angle(theta: float) -> None:
    streams = Streams(CIRCLE)
    x = torch.randn(4, streams.channels, 3, 3, generator=torch.Generator().manual_seed(1)).double()
    for name in ("poly", "poly, normed", "norm"):
        layer = ACTS[name](CIRCLE).double()
        rotated, expected = layer(streams.rotate(x, theta)), streams.rotate(layer(x), theta)
        assert torch.allclose(rotated, expected, atol=1e-12)


def test_more_samples_make_relu_more_equivariant() -> None:
    streams = Streams("32x0r + 32x1 + 32x2 + 32x3 + 32x4")
    x = torch.randn(8, streams.channels, 1, 1).double()
    errors = []
    for samples in (9, 12, 16, 24, 48):
        act = hnn.FourierAct(streams, samples=samples).double()
        theta = math.pi / samples  # half way between two samples: the worst angle
        y, rotated = act(x), act(streams.rotate(x, theta))
        errors.append(float((rotated - streams.rotate(y, theta)).norm() / y.norm()))
    assert errors == sorted(errors, reverse=True)
    assert errors[2] < 0.1  # the default number
    assert errors[-1] < 0.01


def test_the_square_is_the_truncated_tensor_product() -> None:
    """Order p of f² is Σ z_n·z_{p−n} over −K to K, in coefficients of exp(−ikφ)."""
    act = hnn.PolyAct("1x0r + 1x1 + 1x2").double()
    nn.init.zeros_(act.linear)
    nn.init.ones_(act.square)
    x = torch.randn(1, 5, 1, 1).double()
    z0, a1, b1, a2, b2 = x.flatten()
    c = {0: z0, 1: torch.complex(a1, b1) / math.sqrt(2), 2: torch.complex(a2, b2) / math.sqrt(2)}
    c |= {-k: c[k].conj() for k in (1, 2)}
    y = act(x).flatten()
    actual = [y[0], torch.complex(y[1], y[2]), torch.complex(y[3], y[4])]
    for p in range(3):
        product = sum(c[n] * c[p - n] for n in range(-2, 3) if abs(p - n) <= 2)
        assert torch.allclose(actual[p], product.real if p == 0 else math.sqrt(2) * product)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ACTS)
def test_gradients_and_their_gradients(name: str, training: bool) -> None:
    streams = "2x0r + 2x1 + 2x2"
    layer = _filled(ACTS[name], streams).train(training)
    x = torch.randn(2, Streams(streams).channels, 1, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(layer, x)
    assert torch.autograd.gradgradcheck(layer, x)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", [*ACTS, "magnitudes"])
def test_derivatives_may_be_carried_forward(name: str) -> None:
    """Along a direction, as the gradient has it."""
    layer = _filled(ACTS.get(name, hnn.HBatchNorm2d)).eval()
    x, way = torch.randn(2, 2, Streams(CIRCLE).channels, 3, 3).double()
    with forward_ad.dual_level():
        carried = forward_ad.unpack_dual(layer(forward_ad.make_dual(x, way))).tangent
    assert carried is not None
    x.requires_grad_()
    weights = torch.randn_like(x)
    (grad,) = torch.autograd.grad(layer(x), x, weights)
    assert torch.allclose((carried * weights).sum(), (grad * way).sum())


def test_order_0_alone_is_a_relu() -> None:
    act, x = hnn.FourierAct("5x0r"), torch.randn(2, 5, 3, 3)
    assert torch.allclose(act(x), x.relu())


def test_a_random_function_is_the_same_in_its_gradient() -> None:
    act, x = hnn.FourierAct(CIRCLE, nn.Dropout(0.5)), torch.randn(2, 21, 4, 4, requires_grad=True)
    y = act(x)
    (grad,) = torch.autograd.grad(y, x, y.detach())
    # y is a linear function of x, y = A·x, so that x·Aᵀ·y is y·y.
    assert torch.allclose((grad * x).sum(), y.square().sum(), rtol=1e-4)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("name", ACTS)
def test_autocast_does_not_round_the_angles(name: str, memory_format: torch.memory_format) -> None:
    layer = _filled(ACTS[name]).float()
    x = torch.randn(2, 21, 4, 4).contiguous(memory_format=memory_format).requires_grad_()
    expected = copy.deepcopy(layer)(x)
    with torch.autocast("cpu", torch.bfloat16):
        y = copy.deepcopy(layer)(x)
    grads = [torch.autograd.grad(each.sum(), x)[0] for each in (expected, y)]
    assert torch.allclose(y, expected, atol=1e-5)
    assert torch.allclose(*grads, atol=1e-5)


def test_the_gradient_at_zero_is_finite() -> None:
    for make in ACTS.values():
        layer = make(CIRCLE)
        x = torch.zeros(2, Streams(CIRCLE).channels, 3, 3, requires_grad=True)
        layer(x).sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


def test_batch_norm_is_that_of_the_values() -> None:
    """Statistics come from coefficients, and are those of the values at any number of angles."""
    norm = hnn.AngularNorm2d(CIRCLE).double()
    x = 3 * torch.randn(5, Streams(CIRCLE).channels, 4, 4).double() + 1
    values: list[Tensor] = []
    F.fourier_act(norm(x), lambda f: values.append(f) or f, torch.tensor(F.synthesis(3, 16)))
    assert torch.allclose(values[0].mean((0, 1, 3, 4)), torch.zeros(3).double(), atol=1e-12)
    assert torch.allclose(
        values[0].var((0, 1, 3, 4), correction=0), torch.ones(3).double(), atol=1e-4
    )
    assert torch.allclose(norm.running_mean, 0.1 * x[:, :3].mean((0, 2, 3)))


def test_any_function_learns_with_its_own_parameters() -> None:
    slope = nn.PReLU(1)
    act = hnn.FourierAct(CIRCLE, slope)
    act(torch.randn(2, 21, 4, 4)).sum().backward()
    assert slope.weight.grad is not None


def test_compiles_and_exports() -> None:
    """All of them one after another: the compiler takes seconds to start with each network."""
    conv = hnn.HConv2d("1x0r", CIRCLE, 5, padding="same")
    net = nn.Sequential(conv, *(make(CIRCLE) for make in ACTS.values()), hnn.Magnitude(CIRCLE))
    net, x = net.eval().double(), torch.randn(2, 1, 9, 11).double()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    assert torch.allclose(compiled(x), net(x))
    program = hnets.export.program(net, (2, 1, 9, 11))
    other = torch.randn(3, 1, 13, 8).double()
    assert torch.allclose(program.module()(other), net(other))


@pytest.mark.parametrize("name", ACTS)
def test_freezes_and_pickles(name: str) -> None:
    conv = hnn.HConv2d("1x0r", CIRCLE, 5, padding="same")
    net = nn.Sequential(conv, ACTS[name](CIRCLE), hnn.Magnitude(CIRCLE)).eval()
    x = torch.randn(2, 1, 9, 11)
    expected = net(x)
    assert torch.allclose(hnets.freeze(net)(x), expected, atol=1e-6)
    assert torch.allclose(pickle.loads(pickle.dumps(net))(x), expected)
    half = copy.deepcopy(net).bfloat16()
    assert (half(x.bfloat16()) - expected).norm() < 0.05 * expected.norm()


def test_onnx_gives_the_output_of_torch(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    conv = hnn.HConv2d("1x0r", CIRCLE, 5, phase="free", share=False, conjugate=True)
    act = _filled(partial(hnn.FourierAct, norm=True)).float()
    net = nn.Sequential(conv, act, hnn.Magnitude(CIRCLE), hnn.GlobalMean()).eval()
    path = hnets.export.onnx(net, tmp_path / "net.onnx", (1, 1, 12, 12))
    session = onnxruntime.InferenceSession(str(path))
    x = torch.rand(3, 1, 12, 12)
    (output,) = session.run(None, {"input": x.numpy()})
    assert torch.allclose(torch.from_numpy(output), net(x), atol=1e-4)


def test_moves_between_types_with_all_digits() -> None:
    act = hnn.FourierAct(CIRCLE).half().double()
    assert torch.equal(act.synthesis, torch.tensor(F.synthesis(3, act.samples)))
    with torch.device("meta"):
        hidden = hnn.FourierAct(CIRCLE, norm=True)
    hidden.load_state_dict(hnn.FourierAct(CIRCLE, norm=True).state_dict(), assign=True)
    assert hidden(torch.randn(2, 21, 3, 3)).isfinite().all()
    with torch.device("meta"):
        bare = hnn.FourierAct(CIRCLE)
    bare.load_state_dict({}, assign=True)
    assert bare(torch.randn(2, 21, 3, 3)).isfinite().all()


@pytest.mark.parametrize("layer", [hnn.FourierAct, hnn.PolyAct, hnn.AngularNorm2d])
@pytest.mark.parametrize("streams", ["8x0 + 8x1", "8x0r + 4x1", "8x0r + 8x2", "8x1"])
def test_other_streams_are_refused(layer: type[nn.Module], streams: str) -> None:
    with pytest.raises(ValueError, match=r"a real order 0 and orders 1, 2, \.\.\. of the same"):
        layer(streams)


def test_too_few_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="6 samples cannot hold orders up to 3: give at least 7"):
        hnn.FourierAct(CIRCLE, samples=6)
