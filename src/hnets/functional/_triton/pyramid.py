"""Maps of half the size, and the transpose."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.functional._triton.tiles import TILE

__all__ = ["halve", "spread"]


def halve(x: Tensor) -> Tensor:
    """`hnets.functional.halve2d`."""
    x = x.contiguous()
    height, width = x.shape[2:]
    y = x.new_empty(*x.shape[:2], (height + 1) // 2, (width + 1) // 2)
    real = tl.float64 if x.dtype == torch.float64 else tl.float32
    _halve[(triton.cdiv(y.numel(), TILE),)](
        x, y, y.numel(), height, width, *y.shape[2:], REAL=real, BLOCK=TILE
    )
    return y


def spread(grad: Tensor, shape: torch.Size) -> Tensor:
    """The transpose of `halve`: its gradient, for an input of ``shape``."""
    grad = grad.contiguous()
    grad_x = grad.new_empty(shape)
    real = tl.float64 if grad.dtype == torch.float64 else tl.float32
    _spread[(triton.cdiv(grad_x.numel(), TILE),)](
        grad, grad_x, grad_x.numel(), *shape[2:], *grad.shape[2:], REAL=real, BLOCK=TILE
    )
    return grad_x


@triton.jit
def _halve(x, y, total, height, width, rows, columns, REAL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    i, j, plane = at % columns, at // columns % rows, (at // columns // rows).to(tl.int64)
    odd_height, odd_width = height % 2, width % 2
    sum = tl.zeros((BLOCK,), REAL)
    for k in tl.static_range(3):  # rows of weight 1, 2 and 1 if they are odd, 2, 2 and 0 if even
        row = tl.minimum(tl.maximum(2 * j - odd_height + k, 0), height - 1)
        down = 2 - odd_height if k == 0 else (2 if k == 1 else odd_height)
        for m in tl.static_range(3):
            column = tl.minimum(tl.maximum(2 * i - odd_width + m, 0), width - 1)
            across = 2 - odd_width if m == 0 else (2 if m == 1 else odd_width)
            there = inside & (down * across > 0)
            value = tl.load(x + (plane * height + row) * width + column, mask=there, other=0)
            sum += value.to(REAL) * (down * across)
    tl.store(y + at, sum / 16, mask=inside)


@triton.jit
def _taps(at, side):
    """The half pixels that a pixel is part of, the first and the next, and four times how much."""
    odd = side % 2
    ends = (at == 0).to(tl.int32) + (at == side - 1).to(tl.int32)
    first = tl.where(odd == 1, tl.where(at % 2 == 1, 1, 2 + ends), 2)
    return at // 2, first, odd * (at % 2)


@triton.jit
def _spread(
    grad, grad_x, total, height, width, rows, columns, REAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    plane = (at // width // height).to(tl.int64)
    j, above, below = _taps(at // width % height, height)
    i, left, right = _taps(at % width, width)
    start = grad + (plane * rows + j) * columns + i
    sum = tl.load(start, mask=inside, other=0).to(REAL) * (above * left)
    sum += tl.load(start + 1, mask=inside & (right > 0), other=0).to(REAL) * (above * right)
    low = inside & (below > 0)
    sum += tl.load(start + columns, mask=low, other=0).to(REAL) * (below * left)
    sum += tl.load(start + columns + 1, mask=low & (right > 0), other=0).to(REAL) * (below * right)
    tl.store(grad_x + at, sum / 16, mask=inside)
