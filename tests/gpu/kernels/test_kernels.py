"""The Triton kernels against the CPU form of the same functions."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import hnets
from hnets import Streams
from hnets import nn as hnn
from hnets.functional import _batch_norm
from hnets.functional.magnitudes import cpu, reference
from networks import lively
from triton_forms import (
    DEVICE,
    FORMATS,
    assert_backends_agree,
    assert_near,
    assert_step_agrees,
    on_device,
    triton_forms,
    twin,
)

pytestmark = on_device
large = pytest.mark.gpu  # for maps that take too long to interpret
Size = tuple[int, int, int]
TYPES = [torch.float32, torch.float64, torch.bfloat16]
MAPS = [
    # streams, (batch, height, width), memory format
    ("1x0r + 1x-1 + 1x2", (5, 13, 17), torch.contiguous_format),  # more pixels than a tile has
    ("1x0r + 1x-1 + 1x2", (5, 13, 17), torch.channels_last),
    ("20x0r + 15x1", (1, 3, 5), torch.channels_last),  # more fields than a tile has
    *(
        pytest.param(streams, (5, 13, 9), memory_format, marks=large)
        for streams in ("8x0 + 8x1", "3x0r + 5x1 + 2x2", "35x0 + 35x1", "1x-1")
        for memory_format in FORMATS
    ),
]


def random_map(streams: Streams, size: Size, dtype: torch.dtype) -> Tensor:
    return torch.randn(size[0], streams.channels, *size[1:]).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("layout", "size", "memory_format"), MAPS)
def test_magnitude_functions_agree_with_the_cpu_form(
    layout: str,
    size: Size,
    memory_format: torch.memory_format,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hnets.functional.magnitudes import triton

    monkeypatch.setattr(triton, "PROGRAMS", 2)  # so that some take several tiles
    streams = Streams(layout)
    x, grad = (random_map(streams, size, dtype) for _ in range(2))
    maps = [x.contiguous(memory_format=memory_format), grad]
    bound = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-3}[dtype]
    values = torch.randn(4, streams.fields)
    assert_backends_agree(triton, cpu, maps, values, (streams, 1e-4), bound)


def test_values_per_field_need_not_be_neighbours_in_memory() -> None:
    streams, pairs = Streams("3x0r + 3x1"), torch.randn(6, 2, device=DEVICE)
    x = torch.randn(2, streams.channels, 7, 5, device=DEVICE)
    bias = pairs[:, 1]
    matrix = torch.tensor(hnets.functional.synthesis(1, 8), dtype=x.dtype, device=DEVICE)
    with triton_forms():
        expected = hnets.functional.modrelu(x, bias.contiguous(), streams)
        torch.testing.assert_close(hnets.functional.modrelu(x, bias, streams), expected)
        expected = hnets.functional.fourier_relu(x, None, bias[:3].contiguous(), matrix)
        actual = hnets.functional.fourier_relu(x, None, bias[:3], matrix)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("layout", "size", "memory_format"), MAPS)
def test_magnitudes_and_their_gradients_agree_with_the_cpu(
    layout: str, size: Size, memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    streams = Streams(layout)
    x = random_map(streams, size, dtype).contiguous(memory_format=memory_format)
    x[..., 0] = 0  # where the gradient is 0
    other, x = twin(x).requires_grad_(), x.double().clone().requires_grad_()
    lengths = hnets.functional.magnitude(x, streams)
    grad = torch.randn_like(lengths).to(dtype)
    lengths.backward(grad.double())
    with triton_forms():
        actual = hnets.functional.magnitude(other, streams)
        actual.backward(twin(grad))
    assert actual.dtype == dtype
    bound = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 5e-3}[dtype]
    for got, expected in ((actual, lengths), (other.grad, x.grad)):
        assert_near(got, expected, bound)
        assert not got[..., 0].any()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "size", [(1, 1), (1, 6), (8, 3), (33, 17), pytest.param((321, 481), marks=large)]
)
def test_halving_and_its_gradient_agree_with_the_cpu(
    size: tuple[int, int], memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    x = torch.randn(2, 3, *size).to(dtype).contiguous(memory_format=memory_format)
    other, x = twin(x).requires_grad_(), x.double().clone().requires_grad_()
    half = hnets.functional.halve2d(x)
    grad = torch.randn_like(half).to(dtype)
    half.backward(grad.double())
    with triton_forms():
        actual = hnets.functional.halve2d(other)
        actual.backward(twin(grad).contiguous(memory_format=memory_format))
    assert actual.is_contiguous(memory_format=memory_format)
    bound = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 5e-3}[dtype]
    assert_near(actual, half, bound)
    assert_near(other.grad, x.grad, bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("blocks", "fields"), [(1, 1), (64, 16), (200, 70)])
def test_statistics_fold_as_on_cpu(blocks: int, fields: int, dtype: torch.dtype) -> None:
    from hnets.functional import _launch

    sums = torch.rand(blocks, 2, fields, dtype=torch.float64) * torch.tensor([[1.0], [2.0]])
    count = 2.0 * blocks
    scale, shift, mean = torch.randn(3, fields, dtype=dtype)
    var = torch.rand(fields, dtype=dtype)
    results = []
    for form, total, *values in (
        (_launch, *map(twin, (sums, scale, shift, mean, var))),
        (_batch_norm, sums, scale, shift, mean, var),
    ):
        factor, constant, *statistics = values
        by_input = form.fold_backward(total, count, factor, *statistics, 1e-5)
        folded = form.fold(total, count, factor, constant, 1e-5, statistics, 0.1)
        results.append((*by_input, *folded, *statistics, *form.add_up(total, factor)))
    # Numbers that kernels are given, such as the momentum, are in float32.
    for actual, expected in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)


def test_launches_after_the_first_see_other_values_and_memory_that_is_not_aligned() -> None:
    streams, bias = Streams("3x0r + 5x1"), torch.randn(8)
    count = 2 * streams.channels * 6 * 6
    for shift in (0, 0, 1, 0, 3, 1):
        x = torch.randn(count + shift)[shift:].view(2, streams.channels, 6, 6)
        other = torch.empty(count + shift, device=DEVICE)[shift:].view_as(x).copy_(x)
        assert (other.data_ptr() % 16 != 0) == (shift > 0)
        with triton_forms():
            actual = hnets.functional.modrelu(other, twin(bias), streams)
        expected = hnets.functional.modrelu(x, bias, streams)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"phase": "ring"}, {"phase": "none"}, {"share": False, "conjugate": True}]
)
@pytest.mark.parametrize(
    "arguments",
    [
        ("2x0r + 2x1", "9x0r + 9x1", 3),
        pytest.param(("3x0r", "8x0 + 8x1", 5), marks=large),
        pytest.param(("16x0r + 16x1", "35x0r + 35x1", 5), marks=large),
    ],
)
@pytest.mark.parametrize("memory_format", FORMATS)
def test_kernels_are_assembled_as_on_cpu(
    memory_format: torch.memory_format,
    arguments: tuple[str, str, int],
    options: dict[str, object],
) -> None:
    filters = hnn.HConv2d(*arguments, **options).filters
    other = copy.deepcopy(filters).to(DEVICE)
    kernel = filters()
    grad = torch.randn_like(kernel)
    kernel.backward(grad)
    with triton_forms():
        actual = other()
        actual.backward(twin(grad).contiguous(memory_format=memory_format))
    assert actual.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(actual.cpu(), kernel, rtol=1e-5, atol=1e-6)
    for a, b in zip(filters.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)


# Triton does not interpret products in bfloat16.
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, pytest.param(torch.bfloat16, marks=pytest.mark.gpu)]
)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("streams", "kernel_size", "options", "size"),
    [
        ("2x0r + 4x1", 3, {"groups": 2, "padding": 1}, (1, 5, 6)),
        ("2x0 + 2x1", 3, {"groups": 2, "stride": 2}, (1, 5, 6)),
        ("2x0r + 2x1", 1, {"mirror": True}, (1, 5, 6)),
        *(
            pytest.param(*layer, (3, 17, 12), marks=large)
            for layer in [
                ("16x0r + 16x1 + 16x2", 5, {"groups": 16, "padding": "same"}),
                ("8x0r + 8x1", 3, {"groups": 8, "padding": "same"}),
                ("8x0 + 8x1", 5, {"groups": 4, "stride": 2}),
                ("4x0r + 8x1", 5, {"groups": 4, "padding": 1}),
                ("16x0r + 16x1 + 16x2", 1, {"mirror": True}),
                ("16x0r + 16x1 + 16x2", 1, {}),
            ]
        ),
    ],
)
def test_grouped_and_1x1_layers_agree_with_the_cpu(
    streams: str,
    kernel_size: int,
    options: dict[str, object],
    size: Size,
    memory_format: torch.memory_format,
    dtype: torch.dtype,
) -> None:
    # Weights are rounded once, then compared: phases answer to small changes of what cancels.
    layer = hnn.HConv2d(streams, streams, kernel_size, **options, dtype=dtype).double()
    x = random_map(layer.in_streams, size, dtype).contiguous(memory_format=memory_format)
    bound = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]
    assert_step_agrees(layer, x, dtype, bound)


@pytest.mark.parametrize(
    ("of_layer", "of_input", "bound"),
    [
        (torch.float32, torch.float32, 1e-5),
        (torch.float64, torch.float64, 1e-7),  # eps and momentum reach a kernel in float32
        (torch.float32, torch.float64, 1e-5),
        (torch.float32, torch.bfloat16, 2e-2),
    ],
)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("layer", "options"),
    [(hnn.HBatchNorm2d, {}), (hnn.ModReLU, {}), (hnn.FourierAct, {"norm": True})],
)
def test_nonlinear_layers_agree_with_the_cpu(
    layer: type[nn.Module],
    options: dict[str, object],
    training: bool,
    of_layer: torch.dtype,
    of_input: torch.dtype,
    bound: float,
) -> None:
    streams = Streams("1x0r + 1x1")
    net = layer(streams, **options)
    net = lively(net, torch.randn(2, 3, 5, 4)).train(training).to(of_layer).double()
    assert_step_agrees(net, random_map(streams, (3, 7, 5), of_input), of_layer, bound)


def test_second_derivatives_take_the_reference() -> None:
    streams = Streams("2x0 + 2x1")
    x = torch.randn(1, 8, 4, 4, device=DEVICE, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, device=DEVICE, dtype=torch.float64)
    one = torch.ones_like(bias)
    grads = []
    for function in (
        lambda t: hnets.functional.modrelu(t, bias, streams),
        lambda t: reference.magnitude_relu(t, one, bias, streams, 1e-4),
    ):
        with triton_forms():
            (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        grads.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*grads)
