"""The Triton kernels against the CPU form of the same functions. Run on a machine with a GPU:

python -m pytest tests/gpu
"""

from __future__ import annotations

import pytest
import torch

import hnets
from hnets import Streams
from hnets import nn as hnn
from hnets.functional import _batch_norm
from hnets.functional.magnitudes import cpu, reference

pytestmark = pytest.mark.gpu
LAYOUTS = ["8x0 + 8x1", "3x0r + 5x1 + 2x2", "35x0 + 35x1", "1x-1"]
FORMATS = [torch.contiguous_format, torch.channels_last]


@pytest.fixture(autouse=True)
def _exact() -> None:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def _inputs(layout: str, memory_format: torch.memory_format) -> tuple[torch.Tensor, ...]:
    streams = Streams(layout)
    x, grad = torch.randn(2, 5, streams.channels, 13, 9, dtype=torch.float64)
    x = x.contiguous(memory_format=memory_format)
    return x, grad, torch.randn(streams.fields).double(), torch.randn(streams.fields).double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_magnitude_functions_agree_with_the_cpu_form(
    layout: str, memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    from hnets.functional.magnitudes import triton

    fields = (Streams(layout), 1e-4)
    x, grad, scale, shift = _inputs(layout, memory_format)
    x, grad = x.to(dtype).double(), grad.to(dtype).double()  # round once, then compare exactly
    extra = torch.stack([scale, shift])
    gpu_x, gpu_grad = x.cuda().to(dtype), grad.cuda().to(dtype)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    gpu_scale, gpu_shift, gpu_extra = (t.cuda().to(wide) for t in (scale, shift, extra))
    common, gpu = (x, scale, shift, *fields), (gpu_x, gpu_scale, gpu_shift, *fields)
    sums, intermediate = cpu.backward_sums(grad, *common)
    pairs = [
        (triton.forward(*gpu), cpu.forward(*common)),
        (triton.forward(gpu_x, None, *gpu[2:]), cpu.forward(x, None, *common[2:])),
        (triton.moments(gpu_x, *fields).sum(0), cpu.moments(x, *fields)[0]),
        (triton.backward_sums(gpu_grad, *gpu)[0].sum(0), sums[0]),
        (triton.backward(gpu_grad, *gpu)[0], cpu.backward(grad, *common)[0]),
        (triton.backward(gpu_grad, *gpu)[1].sum(0), cpu.backward(grad, *common)[1][0]),
        (
            triton.backward_batch(gpu_grad, *gpu[:3], gpu_extra, None, *fields),
            cpu.backward_batch(grad, *common[:3], extra, intermediate, *fields),
        ),
    ]
    bound = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-3}[dtype]
    for got, expected in pairs:
        assert (got.cpu().double() - expected).norm() <= bound * expected.norm()


def test_values_per_field_need_not_be_neighbours_in_memory() -> None:
    streams, pairs = Streams("3x0r + 3x1"), torch.randn(6, 2, device="cuda")
    x = torch.randn(2, streams.channels, 7, 5, device="cuda")
    bias = pairs[:, 1]
    expected = hnets.functional.modrelu(x, bias.contiguous(), streams)
    torch.testing.assert_close(hnets.functional.modrelu(x, bias, streams), expected)
    matrix = torch.tensor(hnets.functional.synthesis(1, 8), dtype=x.dtype, device="cuda")
    expected = hnets.functional.fourier_relu(x, None, bias[:3].contiguous(), matrix)
    actual = hnets.functional.fourier_relu(x, None, bias[:3], matrix)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_magnitudes_and_their_gradients_agree_with_the_cpu(
    layout: str, memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    streams = Streams(layout)
    x = _inputs(layout, memory_format)[0].to(dtype)
    x[0] = 0  # where the gradient is 0
    twin = x.cuda().requires_grad_()
    x = x.double().requires_grad_()
    lengths, actual = (hnets.functional.magnitude(z, streams) for z in (x, twin))
    grad = torch.randn_like(lengths).to(dtype)
    lengths.backward(grad.double())
    actual.backward(grad.cuda())
    assert actual.dtype == dtype
    bound = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 5e-3}[dtype]
    for got, expected in ((actual, lengths), (twin.grad, x.grad)):
        assert got is not None
        assert expected is not None
        assert (got.cpu().double() - expected).norm() <= bound * expected.norm()
        assert not got[0].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (1, 6), (8, 3), (33, 17), (321, 481)])
def test_halving_and_its_gradient_agree_with_the_cpu(
    size: tuple[int, int], memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    x = torch.randn(2, 3, *size).to(dtype).contiguous(memory_format=memory_format)
    twin = x.cuda().requires_grad_()
    x = x.double().requires_grad_()
    half, actual = hnets.functional.halve2d(x), hnets.functional.halve2d(twin)
    grad = torch.randn_like(half).to(dtype)
    half.backward(grad.double())
    actual.backward(grad.cuda().contiguous(memory_format=memory_format))
    assert actual.is_contiguous(memory_format=memory_format)
    bound = {torch.float32: 1e-6, torch.bfloat16: 5e-3}[dtype]
    for got, expected in ((actual, half), (twin.grad, x.grad)):
        assert got is not None
        assert expected is not None
        assert (got.cpu().double() - expected).norm() <= bound * expected.norm()


@pytest.mark.parametrize("name", ["hdsn", "hed_low"])
def test_edge_networks_are_as_on_the_cpu(name: str) -> None:
    net = hnets.create_model(name)
    twin = hnets.create_model(name).cuda()
    twin.load_state_dict(net.state_dict())
    x = torch.rand(2, 3, 49, 64)
    loss, gpu_loss = net.logits(x).square().mean(), twin.logits(x.cuda()).square().mean()
    loss.backward()
    gpu_loss.backward()
    torch.testing.assert_close(gpu_loss.cpu(), loss, rtol=1e-4, atol=1e-5)
    for (key, a), b in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        assert (b.grad.cpu() - a.grad).norm() <= 5e-3 * a.grad.norm() + 1e-6, key


@pytest.mark.parametrize("fields", [1, 16, 70])
@pytest.mark.parametrize("blocks", [1, 64, 200])
def test_statistics_fold_as_on_cpu(blocks: int, fields: int) -> None:
    from hnets.functional import _launch

    sums = torch.rand(blocks, 2, fields, dtype=torch.float64) * torch.tensor([[1.0], [2.0]])
    count = 2.0 * blocks
    weight, bias, mean = torch.randn(3, fields)
    var = torch.rand(fields)
    running = (mean.clone(), var.clone())
    gpu_running = (mean.cuda(), var.cuda())
    pairs = [
        (
            _launch.fold(sums.cuda(), count, weight.cuda(), bias.cuda(), 1e-5, gpu_running, 0.1),
            _batch_norm.fold(sums, count, weight, bias, 1e-5, running, 0.1),
        ),
        (
            _launch.unfold(sums.cuda(), count, weight.cuda(), mean.cuda(), var.cuda(), 1e-5),
            _batch_norm.unfold(sums, count, weight, mean, var, 1e-5),
        ),
        (_launch.add_up(sums.cuda(), weight.cuda()), _batch_norm.add_up(sums, weight)),
        (gpu_running, running),
    ]
    for got, expected in pairs:
        for a, b in zip(got, expected, strict=True):
            torch.testing.assert_close(a.cpu(), b, rtol=1e-5, atol=1e-6)


def test_launches_after_the_first_see_other_values_and_memory_that_is_not_aligned() -> None:
    streams, bias = Streams("3x0r + 5x1"), torch.randn(8)
    count = 2 * streams.channels * 6 * 6
    for shift in (0, 0, 1, 0, 3, 1):
        x = torch.randn(count + shift)[shift:].view(2, streams.channels, 6, 6)
        gpu_x = torch.empty(count + shift, device="cuda")[shift:].view_as(x).copy_(x)
        assert (gpu_x.data_ptr() % 16 != 0) == (shift > 0)
        got = hnets.functional.modrelu(gpu_x, bias.cuda(), streams)
        expected = hnets.functional.modrelu(x, bias, streams)
        torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"phase": "none"}])
def test_assembly_is_an_operator_of_compiled_graphs(options: dict[str, object]) -> None:
    filters = hnn.HConv2d("8x0 + 8x1", "8x0 + 8x1", 5, **options).cuda().filters
    radial, phase = filters.radial["0"], filters.phase.get("0")
    if phase is None:
        phase = radial.new_empty(*radial.shape[:2], 0)
    (block,) = filters.plan.blocks
    arguments = (radial, phase, filters.spread0, filters.assembly0, list(block.shape), 5)
    torch.library.opcheck(torch.ops.hnets.assemble, arguments)
    expected = filters()
    got = torch.compile(lambda: filters(), fullgraph=True, backend="aot_eager")()
    torch.testing.assert_close(got, expected)
    grad = torch.randn_like(expected)
    parameters = list(filters.parameters())
    for a, b in zip(
        torch.autograd.grad(got, parameters, grad),
        torch.autograd.grad(expected, parameters, grad),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    "options", [{}, {"phase": "ring"}, {"phase": "none"}, {"share": False, "conjugate": True}]
)
@pytest.mark.parametrize("layouts", [("3x0r", "8x0 + 8x1"), ("16x0r + 16x1", "35x0r + 35x1")])
@pytest.mark.parametrize("memory_format", FORMATS)
def test_kernels_are_assembled_as_on_cpu(
    memory_format: torch.memory_format, layouts: tuple[str, str], options: dict[str, object]
) -> None:
    filters = hnn.HConv2d(*layouts, 5, **options).filters
    twin = hnn.HConv2d(*layouts, 5, **options).filters
    twin.load_state_dict(filters.state_dict())
    twin.cuda()
    kernel, gpu_kernel = filters(), twin()
    grad = torch.randn_like(kernel)
    kernel.backward(grad)
    gpu_kernel.backward(grad.cuda().contiguous(memory_format=memory_format))
    assert gpu_kernel.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(gpu_kernel.cpu(), kernel, rtol=1e-5, atol=1e-6)
    for a, b in zip(filters.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("streams", "size", "options"),
    [
        ("16x0r + 16x1 + 16x2", 5, {"groups": 16, "padding": "same"}),
        ("8x0r + 8x1", 3, {"groups": 8, "padding": "same"}),
        ("8x0 + 8x1", 5, {"groups": 4, "stride": 2}),
        ("4x0r + 8x1", 5, {"groups": 4, "padding": 1}),
        ("16x0r + 16x1 + 16x2", 1, {"mirror": True}),
        ("16x0r + 16x1 + 16x2", 1, {}),
    ],
)
def test_grouped_and_1x1_layers_agree_with_the_cpu(
    streams: str,
    size: int,
    options: dict[str, object],
    memory_format: torch.memory_format,
    dtype: torch.dtype,
) -> None:
    # Weights are rounded once, then compared: phases answer to small changes of what cancels.
    layer = hnn.HConv2d(streams, streams, size, **options, dtype=dtype).double()
    twin = hnn.HConv2d(streams, streams, size, **options, dtype=dtype, device="cuda")
    twin.load_state_dict(layer.state_dict())
    x = torch.randn(3, layer.in_streams.channels, 17, 12).to(dtype)
    gpu_x = x.cuda().contiguous(memory_format=memory_format).requires_grad_()
    x = x.double().requires_grad_()
    y, gpu_y = layer(x), twin(gpu_x)
    grad = torch.randn_like(y).to(dtype)
    y.backward(grad.double())
    gpu_y.backward(grad.cuda())
    assert gpu_y.dtype == dtype
    bound = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 1e-2}[dtype]
    values = zip((gpu_x, *twin.parameters()), (x, *layer.parameters()), strict=True)
    for got, expected in [(gpu_y, y), *((a.grad, b.grad) for a, b in values)]:
        assert got is not None
        assert expected is not None
        assert (got.cpu().double() - expected).norm() <= bound * expected.norm()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_training_step_agrees_with_the_cpu(memory_format: torch.memory_format) -> None:
    net = hnets.models.hnet_mnist()
    twin = hnets.models.hnet_mnist().cuda().to(memory_format=memory_format)
    twin.load_state_dict(net.state_dict())
    x, labels = torch.randn(6, 1, 28, 28), torch.randint(10, (6,))
    loss = torch.nn.functional.cross_entropy(net(x), labels)
    x = x.cuda().contiguous(memory_format=memory_format)
    gpu_loss = torch.nn.functional.cross_entropy(twin(x), labels.cuda())
    loss.backward()
    gpu_loss.backward()
    torch.testing.assert_close(gpu_loss.cpu(), loss, rtol=1e-4, atol=1e-5)
    for (name, a), b in zip(net.named_parameters(), twin.parameters(), strict=True):
        assert (b.grad.cpu() - a.grad).norm() <= 2e-3 * a.grad.norm() + 1e-6, name
    for a, b in zip(net.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(b.cpu(), a, rtol=1e-4, atol=1e-5)


def test_the_same_inputs_give_the_same_bits() -> None:
    net = hnets.models.hnet_mnist().cuda()
    x = torch.randn(64, 1, 28, 28, device="cuda")
    torch.backends.cudnn.deterministic = True
    grads = [torch.autograd.grad(net(x).square().sum(), list(net.parameters())) for _ in range(2)]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def test_second_derivatives_take_the_reference() -> None:
    streams = Streams("2x0 + 2x1")
    x = torch.randn(1, 8, 4, 4, device="cuda", dtype=torch.float64, requires_grad=True)
    bias = torch.randn(4, device="cuda", dtype=torch.float64)
    one = torch.ones_like(bias)
    grads = []
    for function in (
        lambda t: hnets.functional.modrelu(t, bias, streams),
        lambda t: reference.magnitude_relu(t, one, bias, streams, 1e-4),
    ):
        (first,) = torch.autograd.grad(function(x).square().sum(), x, create_graph=True)
        grads.append(torch.autograd.grad(first.square().sum(), x)[0])
    torch.testing.assert_close(*grads)


# The compiler recommends a mode in which results could not be compared this closely.
@pytest.mark.filterwarnings("ignore:TensorFloat32 tensor cores:UserWarning")
def test_autocast_and_compile_run() -> None:
    net = hnets.models.hnet_mnist().cuda()
    x = torch.randn(8, 1, 28, 28, device="cuda")
    full = net.eval()(x)
    with torch.autocast("cuda", torch.bfloat16):
        half = net(x)
    assert (half.float() - full).norm() <= 0.05 * full.norm()
    compiled = torch.compile(net, fullgraph=True)(x)
    assert (compiled - full).norm() <= 1e-3 * full.norm()
