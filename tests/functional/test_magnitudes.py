"""Functions of magnitudes against complex numbers, and their CPU form against the reference."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as functional
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from hnets import Streams
from hnets import functional as F
from hnets.functional import _dispatch

LAYOUTS = ["3x1", "2x0r", "2x0r + 2x0 + 2x1", "3x0 + 3x1 + 2x-2 + 1x0r + 1x0r + 2x1"]
layouts = pytest.mark.parametrize("text", LAYOUTS)


def squash(r: Tensor) -> Tensor:
    return r**2 / (1 + r**2)


def to_complex(x: Tensor, streams: Streams) -> Tensor:
    """All fields as complex numbers, ``(batch, fields, ...)``."""
    fields = []
    for stream, where in zip(streams, streams.slices, strict=True):
        part = x[:, where]
        re, im = (part, torch.zeros_like(part)) if stream.real else part.chunk(2, dim=1)
        fields.append(torch.complex(re, im))
    return torch.cat(fields, dim=1)


def from_complex(z: Tensor, streams: Streams) -> Tensor:
    parts = []
    for field, stream in zip(z.split([s.multiplicity for s in streams], 1), streams, strict=True):
        parts += [field.real] if stream.real else [field.real, field.imag]
    return torch.cat(parts, dim=1)


def image(streams: Streams, shape: tuple[int, ...] = (3, 4, 5), **options: object) -> Tensor:
    batch, *pixels = shape
    return torch.randn(batch, streams.channels, *pixels, **({"dtype": torch.float64} | options))


def per_field(values: Tensor) -> Tensor:
    return values[:, None, None]


# Formulae ----------------------------------------------------------------------------------------


@layouts
def test_magnitude_is_the_modulus(text: str) -> None:
    streams = Streams(text)
    x = image(streams)
    expected = to_complex(x, streams).abs()
    torch.testing.assert_close(F.magnitude(x, streams), expected, rtol=1e-14, atol=0)


def test_magnitude_is_exact() -> None:
    x = torch.tensor([[3.0, 0.0, -4.0, 0.0]])
    assert torch.equal(F.magnitude(x, Streams("2x1")), torch.tensor([[5.0, 0.0]]))


@layouts
def test_modrelu_shrinks_the_modulus(text: str) -> None:
    streams = Streams(text)
    x, bias = image(streams), torch.randn(streams.fields, dtype=torch.float64)
    z = to_complex(x, streams)
    length = (z.abs() ** 2 + F.MAGNITUDE_EPS).sqrt()
    expected = torch.relu(length + per_field(bias)) * z / length
    actual = F.modrelu(x, bias, streams)
    torch.testing.assert_close(actual, from_complex(expected, streams), rtol=0, atol=1e-13)


@layouts
def test_magnitude_relu_scales_and_shifts_the_modulus(text: str) -> None:
    streams = Streams(text)
    x, (scale, shift) = image(streams), torch.randn(2, streams.fields, dtype=torch.float64)
    z = to_complex(x, streams)
    length = (z.abs() ** 2 + 0.01).sqrt()
    expected = z * torch.relu(per_field(scale) + per_field(shift) / length)
    actual = F.magnitude_relu(x, scale, shift, streams, magnitude_eps=0.01)
    torch.testing.assert_close(actual, from_complex(expected, streams), rtol=0, atol=1e-13)


@layouts
@pytest.mark.parametrize("act", [functional.softplus, torch.tanh, squash])
def test_magnitude_act_applies_the_function_to_the_modulus(
    text: str, act: Callable[[Tensor], Tensor]
) -> None:
    streams = Streams(text)
    x = image(streams)
    z = to_complex(x, streams)
    length = (z.abs() ** 2 + F.MAGNITUDE_EPS).sqrt()
    expected = from_complex(act(length) * z / length, streams)
    torch.testing.assert_close(F.magnitude_act(x, act, streams), expected, rtol=0, atol=1e-13)


@layouts
def test_magnitude_act_sees_all_fields_at_once(text: str) -> None:
    streams = Streams(text)
    seen = []

    def act(lengths: Tensor) -> Tensor:
        seen.append(lengths.shape)
        return lengths * per_field(torch.arange(streams.fields))

    x = image(streams)
    actual = F.magnitude(F.magnitude_act(x, act, streams), streams)
    expected = F.magnitude(x, streams) * per_field(torch.arange(streams.fields))
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)
    assert seen == [(3, streams.fields, 4, 5)]


@layouts
def test_gate_multiplies_fields_by_a_sigmoid(text: str) -> None:
    streams = Streams(text)
    x, gates = image(streams), torch.randn(3, streams.fields, 4, 5, dtype=torch.float64)
    expected = from_complex(to_complex(x, streams) * torch.sigmoid(gates), streams)
    torch.testing.assert_close(F.gate(x, gates, streams), expected, rtol=0, atol=1e-14)


@layouts
def test_largest_takes_whole_fields(text: str) -> None:
    streams = Streams(text)
    responses = [image(streams) for _ in range(3)]
    z = torch.stack([to_complex(r, streams) for r in responses])
    expected = z.gather(0, z.abs().argmax(0, keepdim=True))[0]
    assert torch.equal(F.largest(responses, streams), from_complex(expected, streams))


@layouts
@given(theta=st.floats(-7, 7))
def test_magnitude_functions_leave_phases_and_orders_alone(text: str, theta: float) -> None:
    streams = Streams(text)
    x = image(streams)
    scale, shift, mean = torch.randn(3, streams.fields, dtype=torch.float64)
    var = torch.rand(streams.fields, dtype=torch.float64) + 0.5
    gates = torch.randn(3, streams.fields, 4, 5, dtype=torch.float64)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda x: F.modrelu(x, shift, streams),
        lambda x: F.magnitude_relu(x, scale, shift, streams),
        lambda x: F.magnitude_act(x, squash, streams),
        lambda x: F.gate(x, gates, streams),
        lambda x: F.batch_magnitude_relu(x, mean, var, scale, shift, streams),
        lambda x: F.batch_magnitude_relu(
            x, mean.clone(), var.clone(), scale, shift, streams, training=True
        ),
    ]
    for function in functions:
        rotated = function(streams.rotate(x, theta))
        torch.testing.assert_close(rotated, streams.rotate(function(x), theta), rtol=0, atol=1e-11)
    straight = F.magnitude(x, streams)
    torch.testing.assert_close(F.magnitude(streams.rotate(x, theta), streams), straight)


# Batch norm --------------------------------------------------------------------------------------


def batch_norm_reference(
    x: Tensor, weight: Tensor, bias: Tensor, streams: Streams
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, and mean and unbiased variance of every field's modulus."""
    z = to_complex(x, streams)
    length = (z.abs() ** 2 + F.MAGNITUDE_EPS).sqrt()
    mean, var = length.mean((0, 2, 3)), length.var((0, 2, 3), correction=0)
    normed = (length - per_field(mean)) / (per_field(var) + 1e-5).sqrt()
    y = torch.relu(per_field(weight) * normed + per_field(bias)) * z / length
    return from_complex(y, streams), mean, length.var((0, 2, 3), correction=1)


@layouts
@pytest.mark.parametrize("plain", [False, True])
def test_batch_norm_normalises_the_modulus(
    text: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    streams = Streams(text)
    x, (weight, bias) = image(streams), torch.randn(2, streams.fields, dtype=torch.float64)
    mean, var = torch.rand(2, streams.fields, dtype=torch.float64)
    expected, batch_mean, batch_var = batch_norm_reference(x, weight, bias, streams)
    moved_mean, moved_var = 0.7 * mean + 0.3 * batch_mean, 0.7 * var + 0.3 * batch_var
    y = F.batch_magnitude_relu(x, mean, var, weight, bias, streams, training=True, momentum=0.3)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mean, moved_mean, rtol=0, atol=1e-13)
    torch.testing.assert_close(var, moved_var, rtol=0, atol=1e-13)


@layouts
def test_batch_norm_in_evaluation_is_one_scale_and_shift(text: str) -> None:
    streams = Streams(text)
    x = image(streams)
    mean, var, weight, bias = torch.rand(4, streams.fields, dtype=torch.float64)
    before = mean.clone(), var.clone()
    actual = F.batch_magnitude_relu(x, mean, var, weight, bias, streams)
    folded = F.fold_batch_norm(mean, var, weight, bias, 1e-5)
    assert torch.equal(actual, F.magnitude_relu(x, *folded, streams))
    z = to_complex(x, streams)
    length = (z.abs() ** 2 + F.MAGNITUDE_EPS).sqrt()
    normed = (length - per_field(mean)) / (per_field(var) + 1e-5).sqrt()
    expected = torch.relu(per_field(weight) * normed + per_field(bias)) * z / length
    torch.testing.assert_close(actual, from_complex(expected, streams), rtol=0, atol=1e-12)
    assert torch.equal(mean, before[0])
    assert torch.equal(var, before[1])


@pytest.mark.parametrize("plain", [False, True])
def test_batch_norm_of_one_value_a_channel_is_an_error(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    values = torch.ones(4, 2)
    with pytest.raises(ValueError, match=r"more than one value for each channel.*\(1, 4, 1, 1\)"):
        F.batch_magnitude_relu(torch.ones(1, 4, 1, 1), *values, Streams("2x1"), training=True)


def test_batch_norm_of_a_large_mean_keeps_its_variance() -> None:
    streams = Streams("2x0r")
    x = 100 + torch.randn(64, 2, 32, 32)
    mean, var = torch.zeros(2), torch.zeros(2)
    F.batch_magnitude_relu(
        x, mean, var, torch.ones(2), torch.zeros(2), streams, training=True, momentum=1.0
    )
    torch.testing.assert_close(var, x.double().var((0, 2, 3)).float(), rtol=1e-2, atol=0)


# The CPU form is the reference --------------------------------------------------------------------


def contiguous(x: Tensor) -> Tensor:
    return x.contiguous()


def channels_last(x: Tensor) -> Tensor:
    return x.contiguous(memory_format=torch.channels_last)


def transposed(x: Tensor) -> Tensor:
    return x.transpose(2, 3).contiguous().transpose(2, 3)


def every_second_channel(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, dim=1)[:, ::2]


def every_second_row(x: Tensor) -> Tensor:
    return x.repeat_interleave(2, dim=2)[:, :, ::2]


FORMS = [contiguous, channels_last, transposed, every_second_channel, every_second_row]


def gradients(
    function: Callable[..., Tensor], x: Tensor, *values: Tensor, grad: Tensor
) -> list[Tensor]:
    inputs = [v.detach().requires_grad_() for v in (x, *values)]
    y = function(*inputs)
    y.backward(grad)
    return [y.detach(), *(v.grad for v in inputs)]


@layouts
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("training", [True, False])
def test_the_cpu_form_is_the_reference(
    text: str,
    form: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
    close: float,
    training: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams = Streams(text)
    x = form(image(streams, (4, 6, 7), dtype=dtype))
    grad = form(image(streams, (4, 6, 7), dtype=dtype))
    values = torch.randn(2, streams.fields, dtype=dtype)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        running = torch.zeros(2, streams.fields, dtype=dtype)
        return F.batch_magnitude_relu(x, *running, weight, bias, streams, training=True)

    def relu(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        return F.magnitude_relu(x, scale, shift, streams)

    function = norm if training else relu
    assert not _dispatch.needs_reference(x)
    actual = gradients(function, x, *values, grad=grad)
    monkeypatch.setattr(_dispatch, "transformed", lambda: True)
    expected = gradients(function, x, *values, grad=grad)
    for name, a, b in zip(("y", "x", "first", "second"), actual, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=close, atol=close, msg=lambda m, n=name: f"{n}: {m}")


def test_the_cpu_form_works_through_a_batch_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams("2x0r + 3x1")
    x, grad = image(streams, (9, 128, 128)), image(streams, (9, 128, 128))  # 2.25 pieces
    values = torch.randn(2, streams.fields, dtype=torch.float64)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        running = torch.zeros(2, streams.fields, dtype=torch.float64)
        return F.batch_magnitude_relu(x, *running, weight, bias, streams, training=True)

    actual = gradients(norm, x, *values, grad=grad)
    monkeypatch.setattr(_dispatch, "transformed", lambda: True)
    for a, b in zip(actual, gradients(norm, x, *values, grad=grad), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_the_cpu_form_takes_a_gradient_of_any_strides() -> None:
    streams = Streams("2x0r + 2x1")
    x = image(streams).requires_grad_()
    bias = torch.zeros(streams.fields, dtype=torch.float64, requires_grad=True)
    F.modrelu(x, bias, streams).sum().backward()  # an expanded gradient
    summed = [x.grad.clone(), bias.grad.clone()]
    x.grad = bias.grad = None
    F.modrelu(x, bias, streams).backward(torch.ones(x.shape, dtype=torch.float64))
    torch.testing.assert_close([x.grad, bias.grad], summed, rtol=0, atol=1e-13)


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_one_gradient_alone_can_be_asked_for(
    wanted: int, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    streams = Streams("2x0r + 2x1")
    inputs = [image(streams), *torch.randn(2, streams.fields, dtype=torch.float64)]
    everything = [v.clone().requires_grad_() for v in inputs]
    F.magnitude_relu(*everything, streams).square().sum().backward()
    inputs[wanted].requires_grad_()
    F.magnitude_relu(*inputs, streams).square().sum().backward()
    torch.testing.assert_close(inputs[wanted].grad, everything[wanted].grad)


# Gradients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["2x1", "1x0r + 2x1 + 1x0"])
@pytest.mark.parametrize("plain", [False, True])
def test_gradients_are_those_of_the_functions(
    text: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    streams = Streams(text)
    x = image(streams, (2, 2, 1)).requires_grad_()
    first, second = torch.rand(2, streams.fields, dtype=torch.float64).requires_grad_()
    gates = torch.randn(2, streams.fields, 2, 1, dtype=torch.float64, requires_grad=True)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        running = torch.ones(2, streams.fields, dtype=torch.float64)
        return F.batch_magnitude_relu(x, *running, weight, bias, streams, training=True)

    assert gradcheck(lambda x: F.magnitude(x, streams), x)
    assert gradcheck(lambda x: F.magnitude_act(x, squash, streams), x)
    assert gradcheck(lambda x, gates: F.gate(x, gates, streams), (x, gates))
    assert gradcheck(lambda x, b: F.modrelu(x, b - 0.5, streams), (x, first))
    assert gradcheck(lambda x, a, b: F.magnitude_relu(x, a, -b, streams), (x, first, second))
    assert gradcheck(norm, (x, first, second))


@pytest.mark.parametrize("plain", [False, True])
def test_second_derivatives_are_those_of_the_functions(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    streams = Streams("1x0r + 1x1")
    x = image(streams, (2, 2, 1)).requires_grad_()
    first, second = torch.rand(2, streams.fields, dtype=torch.float64).requires_grad_()

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        running = torch.ones(2, streams.fields, dtype=torch.float64)
        return F.batch_magnitude_relu(x, *running, weight, bias, streams, training=True)

    assert gradgradcheck(lambda x, a, b: F.magnitude_relu(x, a, -b, streams), (x, first, second))
    assert gradgradcheck(norm, (x, first, second))


def test_only_the_largest_response_gets_a_gradient() -> None:
    small, large = torch.full((2, 1, 2, 1, 1), 1.0).mul(
        torch.tensor([1.0, 2.0]).view(2, 1, 1, 1, 1)
    )
    small.requires_grad_(), large.requires_grad_()
    F.largest([small, large], Streams("1x1")).sum().backward()
    assert not small.grad.any()
    assert large.grad.all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("plain", [False, True])
@layouts
def test_gradients_are_finite_at_zero(
    text: str, plain: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    streams = Streams(text)
    values = torch.ones(2, streams.fields)
    functions: list[Callable[[Tensor], Tensor]] = [
        lambda x: F.magnitude(x, streams),
        lambda x: F.modrelu(x, values[0], streams),
        lambda x: F.modrelu(x, -values[0], streams),
        lambda x: F.magnitude_act(x, torch.tanh, streams),
        lambda x: F.largest([x, 2 * x], streams),
        lambda x: F.batch_magnitude_relu(x, *values.clone(), *values, streams, training=True),
    ]
    for number, function in enumerate(functions):
        x = torch.zeros(2, streams.channels, 3, 3, dtype=dtype, requires_grad=True)
        y = function(x)
        assert y.dtype == dtype, number
        y.sum().backward()
        assert y.isfinite().all(), number
        assert x.grad.isfinite().all(), number


def test_magnitude_has_no_gradient_at_zero() -> None:
    x = torch.zeros(1, 4, requires_grad=True)
    F.magnitude(x, Streams("2x1")).sum().backward()
    assert not x.grad.any()


# Dropout -----------------------------------------------------------------------------------------


@layouts
@pytest.mark.parametrize("shape", [(40,), (40, 3, 3)])
def test_dropout_drops_whole_fields(text: str, shape: tuple[int, ...]) -> None:
    streams = Streams(text)
    x = torch.ones(shape[0], streams.channels, *shape[1:])
    y = F.dropout(x, 0.25, streams)
    kept = (
        to_complex(y, streams).flatten(2) if len(shape) > 1 else to_complex(y, streams)[..., None]
    )
    whole = to_complex(x, streams)[:, :, *[0] * (len(shape) - 1), None] / 0.75
    is_kept, is_dropped = (kept == whole).all(-1), (kept == 0).all(-1)
    assert (is_kept ^ is_dropped).all()
    assert 0.1 < is_dropped.float().mean() < 0.4


def test_dropout_does_nothing_in_evaluation_or_at_zero() -> None:
    x = torch.randn(2, 4, 3, 3)
    assert F.dropout(x, 0.5, Streams("2x1"), training=False) is x
    assert F.dropout(x, 0.0, Streams("2x1")) is x
