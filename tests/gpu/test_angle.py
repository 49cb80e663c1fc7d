"""Functions of the angle in Triton against the CPU form of the same functions."""

from __future__ import annotations

import copy

import pytest
import torch

import hnets
from hnets import nn as hnn
from hnets.functional import magnitude, synthesis
from hnets.functional.fourier import cpu as cpu_form
from hnets.streams import Streams

pytestmark = pytest.mark.gpu
FORMATS = [torch.contiguous_format, torch.channels_last]


@pytest.fixture(autouse=True)
def _exact() -> None:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(("order", "samples", "fields"), [(4, 16, 24), (2, 7, 36)])
def test_triton_agrees_with_the_cpu_form(
    order: int, samples: int, fields: int, memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    from hnets.functional.fourier import triton

    matrix = torch.tensor(synthesis(order, samples))
    x, grad = torch.randn(2, 5, (1 + 2 * order) * fields, 13, 9).to(dtype).double()
    x = x.contiguous(memory_format=memory_format)
    scale, shift, *extra = torch.rand(4, fields).double() + 0.1
    cpu = (x, scale, shift, matrix)
    gpu = (x.cuda().to(dtype), *(t.cuda().float() for t in (scale, shift, matrix)))
    gpu_grad, gpu_extra = grad.cuda().to(dtype), [t.cuda().float() for t in extra]
    sums, intermediate = cpu_form.backward_sums(grad, *cpu)
    pairs = [
        (triton.forward(*gpu), cpu_form.forward(*cpu)),
        (triton.moments(gpu[0], gpu[3]).sum(0), cpu_form.moments(x, matrix)[0]),
        (triton.backward_sums(gpu_grad, *gpu)[0].sum(0), sums[0]),
        (triton.backward(gpu_grad, *gpu)[0], cpu_form.backward(grad, *cpu)[0]),
        (triton.backward(gpu_grad, *gpu)[1].sum(0), sums[0]),
        (
            triton.backward_batch(gpu_grad, *gpu[:3], gpu_extra, None, gpu[3]),
            cpu_form.backward_batch(grad, *cpu[:3], extra, intermediate, matrix),
        ),
    ]
    # tf32, which serves half precision, puts some values on the other side of the ReLU's corner.
    bound = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    for got, expected in pairs:
        assert (got.cpu().double() - expected).norm() <= bound * expected.norm()


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_training_step_agrees_with_the_cpu(memory_format: torch.memory_format) -> None:
    conv = hnn.HConv2d("1x0r", "8x0r + 8x1 + 8x2", 5, share=False, conjugate=True, phase="free")
    twin = torch.nn.Sequential(conv, hnn.FourierAct(conv.out_streams, norm=True))
    net, twin = copy.deepcopy(twin).double(), twin.cuda()
    x = torch.randn(4, 1, 12, 12).double()
    y, actual = net(x), twin(x.cuda().float().contiguous(memory_format=memory_format))
    grad = torch.randn_like(y)
    y.backward(grad)
    actual.backward(grad.cuda().float())
    assert (actual.cpu() - y).norm() <= 1e-5 * y.norm()
    for got, expected in zip(twin.parameters(), net.parameters(), strict=True):
        assert got.grad is not None
        assert expected.grad is not None
        assert (got.grad.cpu() - expected.grad).norm() <= 1e-4 * expected.grad.norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_too_small_to_square_have_a_gradient(dtype: torch.dtype) -> None:
    """|z|² of 1e-20 is a number that a GPU reads as 0, though it is not equal to 0."""
    x = torch.full((1, 2, 1, 1), 1e-20, device="cuda", dtype=dtype, requires_grad=True)
    magnitude(x, Streams("1x1")).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("layer", ["FourierAct", "HBatchNorm2d"])
def test_nan_stays_nan(layer: str) -> None:
    """A training that diverges has to be noticed: a ReLU that makes 0 of NaN would hide it."""
    streams = "8x0r + 8x1"
    act = hnn.FourierAct(streams, norm=True) if layer == "FourierAct" else hnn.HBatchNorm2d(streams)
    x = torch.randn(4, 24, 6, 6, device="cuda")
    x[0, 0, 0, 0] = torch.nan
    assert act.cuda()(x).isnan().any()


@pytest.mark.parametrize("centre_of_mass", [False, True])
def test_a_network_learns_in_half_precision(centre_of_mass: bool) -> None:
    net = hnets.create_model("hnet_fourier_tiny", centre_of_mass=centre_of_mass).cuda().train()
    optimiser = torch.optim.AdamW(net.parameters(), lr=5e-3)
    images = torch.rand(64, 1, 28, 28, device="cuda")
    labels = torch.arange(64, device="cuda") % 10
    images[torch.arange(64), 0, 4 + labels, 14] += 3  # something to tell them apart by
    losses = []
    for _ in range(30):
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(net(images).float(), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())  # float() of a tensor with a gradient warns
    assert losses[-1] < 0.6 * losses[0]
