"""Batch norm from sums over blocks: what it folds into, and its gradients."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

__all__ = ["fold", "unfold"]


def fold(
    sums: Tensor, count: float, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """Mean and variance from the sums of `moments`, and the scale and shift they fold into."""
    blocks, _, fields = sums.shape
    out = weight.new_empty(4, fields)
    _fold[(triton.cdiv(fields, 16),)](sums, weight, bias, out, blocks, fields, int(count), eps)
    return out.unbind()


def unfold(
    sums: Tensor, count: float, scale: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """From the sums of `backward_sums`: ∂weight and ∂bias of batch norm, and its c₁ and c₂."""
    blocks, _, fields = sums.shape
    out = scale.new_empty(4, fields)
    grid = (triton.cdiv(fields, 16),)
    _unfold[grid](sums, scale, mean, var, out, blocks, fields, int(count), eps)
    return out.unbind()


@triton.jit
def _totals(sums, blocks, fields):
    """16 fields of a program, and their two sums over all blocks."""
    f = tl.program_id(0) * 16 + tl.arange(0, 16)
    block = tl.arange(0, 64)[:, None]
    first, second = tl.zeros((16,), tl.float64), tl.zeros((16,), tl.float64)
    for start in range(0, blocks, 64):
        there = (start + block < blocks) & (f < fields)[None, :]
        at = sums + (start + block) * 2 * fields + f[None, :]
        first += tl.sum(tl.load(at, mask=there, other=0), 0)
        second += tl.sum(tl.load(at + fields, mask=there, other=0), 0)
    return f, first, second


@triton.jit
def _fold(sums, weight, bias, out, blocks, fields, count, eps):
    f, first, second = _totals(sums, blocks, fields)
    mean = first / count
    var = tl.maximum(second / count - mean * mean, 0)
    there = f < fields
    scale = tl.load(weight + f, mask=there, other=0) * tl.rsqrt(var + eps)
    tl.store(out + f, mean, mask=there)
    tl.store(out + fields + f, var, mask=there)
    tl.store(out + 2 * fields + f, scale, mask=there)
    tl.store(
        out + 3 * fields + f, tl.load(bias + f, mask=there, other=0) - scale * mean, mask=there
    )


@triton.jit
def _unfold(sums, scale, mean, var, out, blocks, fields, count, eps):
    f, first, second = _totals(sums, blocks, fields)
    there = f < fields
    mu = tl.load(mean + f, mask=there, other=0)
    spread = tl.load(var + f, mask=there, other=0) + eps
    factor = tl.load(scale + f, mask=there, other=0)
    centred = first - mu * second
    slope = factor * centred / spread / count
    tl.store(out + f, centred * tl.rsqrt(spread.to(tl.float64)), mask=there)
    tl.store(out + fields + f, second, mask=there)
    tl.store(out + 2 * fields + f, factor * second / count - mu * slope, mask=there)
    tl.store(out + 3 * fields + f, slope, mask=there)
