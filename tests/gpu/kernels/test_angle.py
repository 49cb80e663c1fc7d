"""Functions of the angle in Triton against the CPU form of the same functions."""

from __future__ import annotations

import pytest
import torch

from hnets import nn as hnn
from hnets.functional import magnitude, synthesis
from hnets.functional.fourier import cpu
from hnets.streams import Streams
from triton_forms import (
    DEVICE,
    FORMATS,
    assert_backends_agree,
    assert_step_agrees,
    on_device,
    triton_forms,
    twin,
)

pytestmark = on_device


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    ("order", "samples", "fields", "size"),
    [
        (2, 7, 3, (3, 13, 17)),
        pytest.param(4, 16, 24, (5, 13, 9), marks=pytest.mark.gpu),
        pytest.param(2, 7, 36, (5, 13, 9), marks=pytest.mark.gpu),
        pytest.param(1, 4, 150, (5, 13, 9), marks=pytest.mark.gpu),
    ],
)
def test_triton_agrees_with_the_cpu_form(
    order: int,
    samples: int,
    fields: int,
    size: tuple[int, int, int],
    memory_format: torch.memory_format,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hnets.functional.fourier import triton

    monkeypatch.setattr(triton, "PROGRAMS", 2)  # so that each takes several tiles
    x, grad = torch.randn(2, size[0], (1 + 2 * order) * fields, *size[1:]).to(dtype)
    maps = [x.contiguous(memory_format=memory_format), grad]
    values, matrix = torch.rand(4, fields) + 0.1, torch.tensor(synthesis(order, samples))
    # tf32, which serves half precision, puts some values on the other side of the ReLU's corner.
    bound = {torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    assert_backends_agree(triton, cpu, maps, values, (matrix,), bound)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_large_mean_does_not_swallow_the_variance(memory_format: torch.memory_format) -> None:
    from hnets.functional.fourier import triton

    x = torch.randn(20, 3, 8, 8)
    x[:, :1] += 3000
    matrix = torch.tensor(synthesis(1, 4)).float()
    sums = triton.moments(twin(x).contiguous(memory_format=memory_format), twin(matrix))
    mean, power = sums.sum(0).cpu().double()[:, 0] / 1280
    expected = x[:, :1].double().var(correction=0) + 2 * x[:, 1:].double().square().mean()
    torch.testing.assert_close(power - mean.square(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("memory_format", FORMATS)
def test_a_training_step_agrees_with_the_cpu(memory_format: torch.memory_format) -> None:
    conv = hnn.HConv2d("1x0r", "3x0r + 3x1", 3, share=False, conjugate=True, phase="free")
    net = torch.nn.Sequential(conv, hnn.FourierAct(conv.out_streams, norm=True)).double()
    x = torch.randn(4, 1, 12, 12).contiguous(memory_format=memory_format)
    assert_step_agrees(net, x, torch.float32, 1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_numbers_too_small_to_square_have_a_gradient(dtype: torch.dtype) -> None:
    """|z|² of 1e-20 is a number that a GPU reads as 0, though it is not equal to 0."""
    x = torch.full((1, 2, 1, 1), 1e-20, device=DEVICE, dtype=dtype, requires_grad=True)
    with triton_forms():
        magnitude(x, Streams("1x1")).sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("layer", ["FourierAct", "HBatchNorm2d"])
def test_nan_stays_nan(layer: str) -> None:
    """A training that diverges has to be noticed: a ReLU that makes 0 of NaN would hide it."""
    streams = "8x0r + 8x1"
    act = hnn.FourierAct(streams, norm=True) if layer == "FourierAct" else hnn.HBatchNorm2d(streams)
    x = torch.randn(4, 24, 6, 6, device=DEVICE)
    x[0, 0, 0, 0] = torch.nan
    with triton_forms():
        assert act.to(DEVICE)(x).isnan().any()
