"""Halving a picture and going back, about its own centre.

A pyramid whose levels all share the centre of the picture turns with it by 90 degrees exactly. A
level of even length has the means of pairs below it; one of odd length keeps every second pixel,
smoothed with [1 2 1]/4. Counted from the centre, a pixel of a level is at twice its coordinate in
the level above, whichever it is. So that all levels are of one kind, `pad_to_halve` makes a length
of 16k from an even one and of 16k + 1 from an odd one, with the same margin at either end.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional import fused
from hnets.functional.resample import mean_pool2d

__all__ = ["crop", "enlarge2d", "halve2d", "halve_max2d", "pad_to_halve"]


def pad_to_halve(x: Tensor, times: int) -> Tensor:
    """Repeat the border of ``(batch, channels, height, width)`` so that it can be halved.

    >>> pad_to_halve(torch.zeros(1, 1, 24, 321), 4).shape
    torch.Size([1, 1, 32, 321])
    """
    down, across = (_margin(side, 2 ** (times - 1)) for side in x.shape[2:])
    if not torch.compiler.is_compiling() and not down and not across:
        return x
    return F.pad(x, (across, across, down, down), mode="replicate")


def _margin(side: int, step: int) -> int:
    """Pixels at either end that make the half of an even side, or of one less, a multiple."""
    half = side // 2
    return (half + step - 1) // step * step - half


def _odd(side: int) -> int:
    """``side % 2`` in a form that sides of exported graphs, which are formulas, cancel in."""
    return side - side // 2 * 2


def crop(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of ``(batch, channels, height, width)``: the inverse of `pad_to_halve`."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    if torch.compiler.is_compiling():  # whether a view is of all of it would bind a graph to sizes
        rows, columns = (torch.arange(side, device=x.device) for side in (height, width))
        return x.index_select(2, rows + top).index_select(3, columns + left)
    return x[:, :, top : top + height, left : left + width]


def halve2d(x: Tensor) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one.

    >>> halve2d(torch.tensor([[[[0.0, 4.0, 8.0]]]]))
    tensor([[[[1., 7.]]]])
    """
    if not fused.usable(x):
        return _halve_any(x, F.avg_pool2d, lambda a, b: (a + b) / 2)
    if x.shape[2] % 2 == x.shape[3] % 2 == 0:
        return mean_pool2d(x, 2)
    halved: Tensor = _Halve.apply(x) if torch.is_grad_enabled() else _halved(x)
    return halved


def halve_max2d(x: Tensor) -> Tensor:
    """Maxima in place of means, over the same pixels."""
    if torch.compiler.is_compiling():
        return _halve_any(x, F.max_pool2d, torch.maximum)
    odd_height, odd_width = x.shape[2] % 2, x.shape[3] % 2
    return F.max_pool2d(x, (2 + odd_height, 2 + odd_width), 2, (odd_height, odd_width))


def _halve_any(
    x: Tensor,
    pool: Callable[[Tensor, tuple[int, int]], Tensor],
    join: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """Halve without asking which sides are odd, for graphs that are to serve all.

    The pairs of an odd side are laid from its one end and from its other, and what they give is
    joined; those of an even side are the same either way.
    """
    down, across = (_odd(side) for side in x.shape[2:])
    for pair, ends in (
        ((2, 1), ((0, 0, down, 0), (0, 0, 0, down))),
        ((1, 2), ((across, 0, 0, 0), (0, across, 0, 0))),
    ):
        x = join(*(pool(F.pad(x, end, mode="replicate"), pair) for end in ends))
    return x


class _Halve(torch.autograd.Function):
    """`halve2d`, whose gradient needs nothing but the shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return _halved(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor]:
        grad_x: Tensor = _Spread.apply(grads[0], ctx.shape)
        return (grad_x,)


class _Spread(torch.autograd.Function):
    """The transpose of `_Halve`, and so one another's gradient."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, shape: torch.Size) -> Tensor:
        if grad.device.type == "cuda":
            return fused.spread(grad, shape)
        grad_x = grad.new_empty(shape)
        columns = grad_x.new_empty(*grad.shape[:3], shape[3])
        share = (grad * _share(shape)).transpose(2, 3)
        _spread_rows(share, columns.transpose(2, 3))
        _spread_rows(columns, grad_x)
        return grad_x

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        halved: Tensor = _Halve.apply(grads[0])
        return halved, None


def _halved(x: Tensor) -> Tensor:
    if x.device.type == "cuda":
        return fused.halve(x)
    # Whole rows first: their sums are vectorised, and leave less for the strided ones.
    rows = _halve_rows(x)
    return _halve_rows(rows.transpose(2, 3)).transpose(2, 3).mul_(_share(x.shape))


def _share(shape: torch.Size) -> float:
    """What one of the pixels that `_halve_rows` sums along both sides weighs."""
    return math.prod(0.25 if side % 2 else 0.5 for side in shape[2:])


def _halve_rows(x: Tensor) -> Tensor:
    """Sums of pairs of rows if they are even in number, else of rows weighed 1, 2 and 1."""
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


def enlarge2d(x: Tensor, height: int, width: int, times: int) -> Tensor:
    """Bilinear interpolation back to the size before ``times`` halvings, or the middle of it.

    >>> enlarge2d(torch.tensor([[[[1.0, 7.0]]]]), 1, 3, 1)
    tensor([[[[1., 4., 7.]]]])
    """
    device = x.device.type
    if torch.is_autocast_enabled(device):  # 8 bits are too few for where a pixel is
        with torch.autocast(device, enabled=False):
            return enlarge2d(x.float(), height, width, times).to(x.dtype)
    if times == 0:
        return crop(x, height, width)
    down = _weights(height, x.shape[2], times, x)
    across = _weights(width, x.shape[3], times, x)
    return down @ x @ across.T


def _weights(fine: int, coarse: int, times: int, like: Tensor) -> Tensor:
    """What each coarse pixel gives to each fine one, ``(fine, coarse)``."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    at = torch.arange(fine, device=like.device, dtype=dtype) - (fine - 1) / 2
    at = (at / 2**times + (coarse - 1) / 2).clamp(0, coarse - 1)
    pixels = torch.arange(coarse, device=like.device, dtype=dtype)
    return (1 - (at[:, None] - pixels).abs()).clamp(min=0).to(like.dtype)
