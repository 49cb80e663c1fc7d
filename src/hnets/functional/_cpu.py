"""The fused magnitude functions on CPU: plain torch operations on pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hnets.functional.layout import fields_of_runs, per_field, views
from hnets.streams import Streams

_PIECE = 1 << 19
"""Real numbers in a piece of the batch. Fewer cost calls, more leave the second-level cache."""


def forward(x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float) -> Tensor:
    """``x · relu(scale + shift/|x|)``."""
    y = torch.empty_like(x)
    for piece, out in _pieces(x, y):
        for view, target, a, b in _runs(piece, out, scale, shift, streams):
            inverse = _square(view, eps).rsqrt_()
            torch.mul(view, _factor(inverse, a, b).unsqueeze(2), out=target)
    return y


def moments(x: Tensor, streams: Streams, eps: float) -> Tensor:
    """Σ|x| and Σ|x|² of every field, ``(2, fields)`` in float64."""
    total = x.new_zeros(2, streams.fields, dtype=torch.float64)
    for (piece,) in _pieces(x):
        sums = []
        for _, view in views(piece, streams):
            square = _square(view, eps)
            second = _sum(square)
            sums.append(torch.stack([_sum(square.sqrt_()), second]))
        total += torch.cat(sums, dim=1)
    return total


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float
) -> Tensor:
    """∂scale and ∂shift, ``(2, fields)`` in float64."""
    total = x.new_zeros(2, streams.fields, dtype=torch.float64)
    for piece, g in _pieces(x, grad):
        sums = []
        for view, g_view, a, b in _runs(piece, g, scale, shift, streams):
            inverse = _square(view, eps).rsqrt_()
            inner = _inner(g_view, view, _factor(inverse, a, b))
            first = _sum(inner)
            sums.append(torch.stack([first, _sum(inner.mul_(inverse))]))
        total += torch.cat(sums, dim=1)
    return total


def backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    streams: Streams,
    eps: float,
    extra: Tensor | None = None,
    sums: bool = True,
) -> tuple[Tensor, Tensor | None]:
    """∂x, and with ``sums`` also ∂scale and ∂shift; ``extra`` is c₁ and c₂ of batch norm."""
    grad_x = torch.empty_like(x)
    total = x.new_zeros(2, streams.fields, dtype=torch.float64) if sums else None
    extras = [None] * len(streams.runs) if extra is None else fields_of_runs(extra, streams)
    for piece, g, out in _pieces(x, grad, grad_x):
        pieces_sums = []
        runs = _runs(piece, g, scale, shift, streams)
        for (view, g_view, a, b), (run, target), c in zip(
            runs, views(out, streams), extras, strict=True
        ):
            inverse = _square(view, eps).rsqrt_()
            factor = _factor(inverse, a, b)
            inner = _inner(g_view, view, factor)
            if sums:
                first = _sum(inner)
            inner.mul_(inverse)
            if sums:
                pieces_sums.append(torch.stack([first, _sum(inner)]))
            pull = inner.mul_(inverse).mul_(inverse).mul_(b)
            if c is not None:
                pull.addcmul_(inverse, per_field(c[0], run, x)).add_(per_field(c[1], run, x))
            torch.mul(g_view, factor.unsqueeze(2), out=target)
            target.addcmul_(view, pull.unsqueeze(2), value=-1)
        if total is not None:
            total += torch.cat(pieces_sums, dim=1)
    return grad_x, total


def _pieces(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The tensors cut alike along the batch."""
    first = tensors[0]
    images = max(1, _PIECE // max(1, first[0].numel()))
    return zip(*(t.split(images) for t in tensors), strict=True)


def _runs(
    x: Tensor, other: Tensor, scale: Tensor, shift: Tensor, streams: Streams
) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    scales, shifts = fields_of_runs(scale, streams), fields_of_runs(shift, streams)
    for (run, view), (_, other_view), a, b in zip(
        views(x, streams), views(other, streams), scales, shifts, strict=True
    ):
        yield view, other_view, per_field(a, run, x), per_field(b, run, x)


def _square(view: Tensor, eps: float) -> Tensor:
    """|z|² + eps in at least float32."""
    dtype = torch.float32 if view.dtype.itemsize < 4 else view.dtype
    start = torch.full((1,), eps, dtype=dtype)
    square = torch.addcmul(start, view.select(2, 0), view.select(2, 0))
    if view.shape[2] == 2:
        square.addcmul_(view.select(2, 1), view.select(2, 1))
    return square


def _factor(inverse: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    return torch.addcmul(scale, shift, inverse).relu_()


def _inner(grad: Tensor, view: Tensor, factor: Tensor) -> Tensor:
    """d = ⟨grad, x⟩ where the factor is positive, else 0."""
    inner = torch.mul(grad.select(2, 0), view.select(2, 0)).to(factor.dtype)
    if view.shape[2] == 2:
        inner.addcmul_(grad.select(2, 1), view.select(2, 1))
    return torch.ops.aten.threshold_backward(inner, factor, 0)


def _sum(values: Tensor) -> Tensor:
    """Sum over batch and pixels of ``(batch, streams, mult, h, w)``: pixels first is faster."""
    return values.sum((3, 4)).sum(0).flatten().double()
