"""Pooling and halving on CPU.

Whole rows first: their sums are vectorised, and leave less for the strided ones.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def mean_pool(x: Tensor, size: int) -> Tensor:
    """Means of squares, added up in at least float32."""
    if size == 1:
        return x.clone()
    height, width = (side // size * size for side in x.shape[2:])
    wide = torch.promote_types(x.dtype, torch.float32)
    total = x[:, :, 0:height:size, :width].to(wide) + x[:, :, 1:height:size, :width]
    for i in range(2, size):
        total += x[:, :, i:height:size, :width]
    pooled = total[..., 0::size] + total[..., 1::size]
    for i in range(2, size):
        pooled += total[..., i::size]
    return pooled.mul_(1 / size**2).to(x.dtype)


def mean_pool_backward(grad: Tensor, shape: torch.Size, size: int) -> Tensor:
    """The gradient of `mean_pool` for an input of ``shape``."""
    batch, channels, height, width = shape
    share = grad / size**2
    rows = share.repeat_interleave(size, dim=3).unsqueeze(3)
    spread = rows.expand(-1, -1, -1, size, -1).reshape(
        batch, channels, share.shape[2] * size, share.shape[3] * size
    )
    margin = (0, width - spread.shape[3], 0, height - spread.shape[2])
    return F.pad(spread, margin) if any(margin) else spread


def halve(x: Tensor) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one."""
    sums = _halve_rows(_halve_rows(x).transpose(2, 3)).transpose(2, 3)
    return sums * _share(x.shape)  # no view: autograd lets users change it


def spread(grad: Tensor, shape: torch.Size) -> Tensor:
    """The transpose of `halve`: its gradient, for an input of ``shape``."""
    grad_x = grad.new_empty(shape)
    columns = grad_x.new_empty(*grad.shape[:3], shape[3])
    share = (grad * _share(shape)).transpose(2, 3)
    _spread_rows(share, columns.transpose(2, 3))
    _spread_rows(columns, grad_x)
    return grad_x


def _share(shape: torch.Size) -> float:
    """The weight of one of the pixels that `_halve_rows` sums along both sides."""
    return math.prod(0.25 if side % 2 else 0.5 for side in shape[2:])


def _halve_rows(x: Tensor) -> Tensor:
    """Sums of pairs of rows if their number is even, else of rows with weights 1, 2 and 1."""
    length = x.shape[2]
    if length == 1:
        return 4 * x
    even, odd = x[:, :, 0::2], x[:, :, 1::2]
    if length % 2 == 0:
        return even + odd
    rows = torch.empty_like(even)  # as x lies in memory, transposed or not
    torch.add(odd[:, :, :-1], odd[:, :, 1:], out=rows[:, :, 1:-1])
    torch.add(odd[:, :, :1], even[:, :, :1], out=rows[:, :, :1])
    torch.add(odd[:, :, -1:], even[:, :, -1:], out=rows[:, :, -1:])
    return rows.add_(even, alpha=2)


def _spread_rows(halves: Tensor, rows: Tensor) -> None:
    """The transpose of `_halve_rows`, written to ``rows``."""
    even, odd = rows[:, :, 0::2], rows[:, :, 1::2]
    if rows.shape[2] % 2 == 0:
        even.copy_(halves)
        odd.copy_(halves)
        return
    torch.mul(halves, 2, out=even)
    even[:, :, :1] += halves[:, :, :1]
    even[:, :, -1:] += halves[:, :, -1:]
    torch.add(halves[:, :, :-1], halves[:, :, 1:], out=odd)
