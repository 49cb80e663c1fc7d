"""Maps of half the size on CUDA, and the transpose, in either memory format.

The step between neighbouring pixels of a map is 1, or the number of channels in channels_last.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from hnets.functional._launch import TILE, memory_format, run


def halve(x: Tensor) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one."""
    form = memory_format(x)
    x = x.contiguous(memory_format=form)
    height, width = x.shape[2:]
    size = (*x.shape[:2], (height + 1) // 2, (width + 1) // 2)
    y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=form)
    sizes = (y.numel(), height, width, *size[2:], _step(x, form))
    run(_halve, (triton.cdiv(y.numel(), TILE),), (x, y), *sizes, _real(x), TILE)
    return y


def spread(grad: Tensor, shape: torch.Size) -> Tensor:
    """The transpose of `halve`: its gradient, for an input of ``shape``."""
    form = memory_format(grad)
    grad = grad.contiguous(memory_format=form)
    grad_x = torch.empty(shape, dtype=grad.dtype, device=grad.device, memory_format=form)
    sizes = (grad_x.numel(), *shape[2:], *grad.shape[2:], _step(grad, form))
    run(_spread, (triton.cdiv(grad_x.numel(), TILE),), (grad, grad_x), *sizes, _real(grad), TILE)
    return grad_x


def mean_pool(x: Tensor, size: int) -> Tensor:
    """Means of squares; torch's own kernel is fast on CUDA."""
    return F.avg_pool2d(x, size)


def mean_pool_backward(grad: Tensor, shape: torch.Size, size: int) -> Tensor:
    """The gradient of `mean_pool` for an input of ``shape``; torch's, which only asks for that."""
    like = torch.empty(
        shape, dtype=grad.dtype, device=grad.device, memory_format=memory_format(grad)
    )
    window = [size, size]
    return torch.ops.aten.avg_pool2d_backward(grad, like, window, window, [0, 0], False, True, None)


def _step(x: Tensor, form: torch.memory_format) -> int:
    return x.shape[1] if form == torch.channels_last else 1


def _real(x: Tensor) -> tl.dtype:
    return tl.float64 if x.dtype == torch.float64 else tl.float32


@triton.jit
def _halve(
    x, y, total, height, width, rows, columns, step, REAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    pixel, channel = at // step, at % step
    i, j, plane = pixel % columns, pixel // columns % rows, (pixel // columns // rows).to(tl.int64)
    odd_height, odd_width = height % 2, width % 2
    sum = tl.zeros((BLOCK,), REAL)
    for k in tl.static_range(3):  # rows of weight 1, 2 and 1 if they are odd, 2, 2 and 0 if even
        row = tl.minimum(tl.maximum(2 * j - odd_height + k, 0), height - 1)
        down = 2 - odd_height if k == 0 else (2 if k == 1 else odd_height)
        for m in tl.static_range(3):
            column = tl.minimum(tl.maximum(2 * i - odd_width + m, 0), width - 1)
            across = 2 - odd_width if m == 0 else (2 if m == 1 else odd_width)
            counts = inside & (down * across > 0)
            place = ((plane * height + row) * width + column) * step + channel
            sum += tl.load(x + place, mask=counts, other=0).to(REAL) * (down * across)
    tl.store(y + at, sum / 16, mask=inside)


@triton.jit
def _taps(at, side):
    """The first half-size pixel that a pixel is part of, and its weight in that and in the next."""
    odd = side % 2
    ends = (at == 0).to(tl.int32) + (at == side - 1).to(tl.int32)
    first = tl.where(odd == 1, tl.where(at % 2 == 1, 1, 2 + ends), 2)
    return at // 2, first, odd * (at % 2)


@triton.jit
def _spread(
    grad, grad_x, total, height, width, rows, columns, step,
    REAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    pixel, channel = at // step, at % step
    plane = (pixel // width // height).to(tl.int64)
    j, above, below = _taps(pixel // width % height, height)
    i, left, right = _taps(pixel % width, width)
    start = grad + ((plane * rows + j) * columns + i) * step + channel
    beside, down = start + step, start + columns * step
    sum = tl.load(start, mask=inside, other=0).to(REAL) * (above * left)
    sum += tl.load(beside, mask=inside & (right > 0), other=0).to(REAL) * (above * right)
    low = inside & (below > 0)
    sum += tl.load(down, mask=low, other=0).to(REAL) * (below * left)
    sum += tl.load(down + step, mask=low & (right > 0), other=0).to(REAL) * (below * right)
    tl.store(grad_x + at, sum / 16, mask=inside)
