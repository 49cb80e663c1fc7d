"""The Triton form of depthwise convolution against the reference."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hnets import functional as F
from hnets.functional.grouped import reference
from triton_forms import DEVICE, FORMATS, assert_near, on_device, triton_forms

pytestmark = on_device
SIZES = [
    # batch, fields, input parts, output parts, height, width, kernel, padding
    (2, 2, 2, 3, 9, 10, 3, 1),
    (1, 1, 2, 1, 11, 12, 9, 0),
    (1, 2, 3, 1, 1, 1, 3, 2),
]
LARGE = [  # for a GPU
    (5, 3, 5, 5, 19, 22, 5, 2),
    (2, 8, 5, 5, 48, 48, 5, 2),
    (3, 2, 5, 4, 18, 21, 3, 1),
    (2, 35, 1, 3, 7, 7, 3, 0),
    (4, 2, 4, 2, 17, 16, 7, 3),
    (2, 2, 2, 3, 21, 24, 9, 0),
    (1, 4, 7, 7, 3, 130, 5, 4),
]


def by_reference(x: Tensor, kernel: Tensor, size: tuple[int, ...]) -> Tensor:
    _, fields, into, out, *_, padding = size
    return reference.grouped_conv2d(
        x, kernel, fields, (into, out), (1, 1), (padding, padding), (1, 1)
    )


def maps(size: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    batch, fields, into, out, height, width, k, _ = size
    x = torch.randn(batch, into * fields, height, width, device=DEVICE, dtype=dtype)
    return x, torch.randn(out * fields, into, k, k, device=DEVICE, dtype=dtype)


# Triton does not interpret products in bfloat16.
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, pytest.param(torch.bfloat16, marks=pytest.mark.gpu)]
)
@pytest.mark.parametrize("memory_format", FORMATS)
@pytest.mark.parametrize(
    "size", [*SIZES, *(pytest.param(size, marks=pytest.mark.gpu) for size in LARGE)]
)
def test_it_and_its_gradients_are_those_of_the_reference_in_float64(
    size: tuple[int, ...], memory_format: torch.memory_format, dtype: torch.dtype
) -> None:
    _, fields, *parts, _, _, _, padding = size
    x, kernel = maps(size, dtype)
    x = x.contiguous(memory_format=memory_format).requires_grad_()
    kernel.requires_grad_()
    with triton_forms():
        y = F.grouped_conv2d(x, kernel, fields, tuple(parts), padding=(padding, padding))
        assert type(y.grad_fn).__name__ == "DepthwiseBackward"
        assert y.is_contiguous(memory_format=memory_format) or x.is_contiguous()
        grad = torch.randn_like(y)
        grads = torch.autograd.grad(y, (x, kernel), grad)
    wide = [t.detach().cpu().double().requires_grad_() for t in (x, kernel)]
    expected = by_reference(*wide, size)
    wanted = torch.autograd.grad(expected, wide, grad.cpu().double())
    bound = {torch.float32: 2e-6, torch.bfloat16: 5e-3, torch.float16: 1e-3}[dtype]
    for actual, correct in zip((y, *grads), (expected, *wanted), strict=True):
        assert actual.dtype == dtype
        assert_near(actual, correct, bound)


@pytest.mark.gpu
def test_tf32_is_used_where_torch_uses_it() -> None:
    size = LARGE[1]
    x, kernel = maps(size, torch.float32)
    exact = by_reference(x.double(), kernel.double(), size)
    torch.backends.cudnn.allow_tf32 = True
    y = F.grouped_conv2d(x, kernel, 8, (5, 5), padding=(2, 2))
    assert 1e-5 * exact.norm() < (y - exact).norm() < 2e-3 * exact.norm()


@pytest.mark.gpu
def test_the_same_inputs_give_the_same_bits() -> None:
    x, kernel = maps((16, 8, 5, 5, 48, 48, 5, 2), torch.bfloat16)
    kernel.requires_grad_()
    y = F.grouped_conv2d(x, kernel, 8, (5, 5), padding=(2, 2))
    first, second = (torch.autograd.grad(y, kernel, y, retain_graph=True)[0] for _ in range(2))
    assert torch.equal(first, second)


@pytest.mark.gpu
def test_autocast_rounds_and_second_derivatives_take_the_reference() -> None:
    size = LARGE[0]
    x, kernel = (t.requires_grad_() for t in maps(size, torch.float32))
    expected = by_reference(x, kernel, size)
    with torch.autocast("cuda", torch.bfloat16):
        y = F.grouped_conv2d(x, kernel, 3, (5, 5), padding=(2, 2))
    assert y.dtype == torch.bfloat16
    assert (y.float() - expected).norm() <= 0.01 * expected.norm()
    by_kernel = torch.autograd.grad(y.float().square().sum(), kernel)[0]
    assert by_kernel.dtype == torch.float32
    second = []
    for output in (F.grouped_conv2d(x, kernel, 3, (5, 5), padding=(2, 2)), expected):
        (first,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        second.append(torch.autograd.grad(first.square().sum(), kernel)[0])
    assert (second[0] - second[1]).norm() <= 1e-4 * second[1].norm()
