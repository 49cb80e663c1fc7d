"""The fused magnitude functions on CPU: plain torch operations on pieces that stay in the cache.

An operation whose inputs stand still in the innermost loop (a value a field against a picture) is
vectorised by torch only if there is one of them, hence ``mul`` and ``add`` where ``addcmul`` would
be shorter.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from hnets.streams import Streams

__all__ = [
    "backward",
    "backward_batch",
    "backward_sums",
    "fold",
    "forward",
    "magnitude",
    "magnitude_backward",
    "moments",
    "unfold",
]

_SHARE = 1 << 18
"""Real numbers a thread in a piece of the maps. Fewer cost calls, more leave a core's cache."""


def forward(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
    inplace: bool = False,
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, where a scale of None is 1."""
    y = x if inplace else torch.empty_like(x)
    for (view, target), (a, b) in _pieces((x, y), (scale, shift), streams):
        factor = _square(view, magnitude_eps).sqrt_()
        torch.div(b, factor, out=factor)  # with the square root, faster than rsqrt
        factor.add_(1 if a is None else a).relu_()
        torch.mul(view, factor.unsqueeze(2), out=target)
    return y


def moments(x: Tensor, streams: Streams, magnitude_eps: float) -> Tensor:
    """Σ|x| and Σ|x|² of every field, ``(1, 2, fields)`` in float64."""
    total = x.new_zeros(1, 2, streams.fields, dtype=torch.float64)
    for (view,), (first, second) in _pieces((x,), total[0].unbind(), streams):
        square = _square(view, magnitude_eps)
        second += _sum(square)
        first += _sum(square.sqrt_())
    return total


def fold(
    sums: Tensor, count: float | Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Mean and variance from the sums of `moments`, and the scale and shift they fold into."""
    mean, square = sums.sum(0) / count
    var = (square - mean * mean).clamp_min_(0)
    scale = weight * (var + eps).rsqrt()
    shift = bias - scale * mean
    return (
        mean.to(weight.dtype),
        var.to(weight.dtype),
        scale.to(weight.dtype),
        shift.to(weight.dtype),
    )


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, magnitude_eps: float
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """∂scale and ∂shift, ``(1, 2, fields)`` in float64, and r and d·r for `backward` to go on."""
    total = x.new_zeros(1, 2, streams.fields, dtype=torch.float64)
    parameters = (scale, shift, *total[0])
    kept = []
    for (view, g), (a, b, first, second) in _pieces((x, grad), parameters, streams):
        inverse = _square(view, magnitude_eps).rsqrt_()
        inner = _inner(g, view, _factor(inverse, a, b))
        first += _sum(inner)
        second += _sum(inner.mul_(inverse))
        kept.append((inverse, inner))
    return total, kept


def unfold(
    sums: Tensor, count: float | Tensor, scale: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """From the sums of `backward_sums`: ∂weight and ∂bias of batch norm, and its c₁ and c₂."""
    by_scale, by_shift = sums.sum(0).to(scale.dtype)
    centred = by_scale - mean * by_shift
    slope = scale * centred / (var + eps) / count
    return (
        centred * (var + eps).rsqrt(),
        by_shift,
        scale * by_shift / count - mean * slope,
        slope,
    )


def backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
) -> tuple[Tensor, Tensor]:
    """∂x, and ∂scale (unless that is None) and ∂shift as `backward_sums` gives them."""
    grad_x = torch.empty_like(x)
    total = x.new_zeros(1, 2, streams.fields, dtype=torch.float64)
    parameters = (scale, shift, *total[0])
    for (view, g, target), (a, b, first, second) in _pieces((x, grad, grad_x), parameters, streams):
        inverse = _square(view, magnitude_eps).rsqrt_()
        factor = _factor(inverse, a, b)
        pull = _inner(g, view, factor)
        if scale is not None:
            first += _sum(pull)
        second += _sum(pull.mul_(inverse))
        pull.mul_(inverse).mul_(b).mul_(inverse)
        _turn_back(g, view, factor, pull, target)
    return grad_x, total


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
    extra: Sequence[Tensor],
    kept: list[tuple[Tensor, Tensor]],
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``, with what `backward_sums` has kept."""
    grad_x = torch.empty_like(x)
    pieces = _pieces((x, grad, grad_x), (scale, shift, *extra), streams)
    for ((view, g, target), (a, b, c1, c2)), (inverse, pull) in zip(pieces, kept, strict=True):
        # shift·d·r³ + c₁·r + c₂
        pull.mul_(inverse).mul_(b).add_(c1).mul_(inverse).add_(c2)
        _turn_back(g, view, _factor(inverse, a, b), pull, target)
    return grad_x


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| of every field."""
    lengths = x.new_empty(len(x), streams.fields, *x.shape[2:])
    for (view, target), _ in _pieces((x,), (), streams, (lengths,)):
        torch.sqrt(_square(view, 0.0), out=target.squeeze(2))
    return lengths


def magnitude_backward(grad: Tensor, x: Tensor, streams: Streams) -> Tensor:
    """∂x of `magnitude`: the gradient along z/|z|, and 0 where z is 0."""
    grad_x = torch.empty_like(x)
    for (view, target, g), _ in _pieces((x, grad_x), (), streams, (grad,)):
        power = _square(view, 0.0)
        factor = power.masked_fill_(power == 0, math.inf).rsqrt_().unsqueeze(2).mul_(g)
        torch.mul(view, factor, out=target)
    return grad_x


def _turn_back(grad: Tensor, view: Tensor, factor: Tensor, pull: Tensor, target: Tensor) -> None:
    """Write ∂x = factor·grad − pull·x."""
    torch.mul(grad, factor.unsqueeze(2), out=target)
    target.addcmul_(view, pull.unsqueeze(2), value=-1)


def _pieces(
    maps: tuple[Tensor, ...],
    values: tuple[Tensor | None, ...],
    streams: Streams,
    lengths: tuple[Tensor, ...] = (),
) -> Iterable[tuple[list[Tensor], list[Any]]]:
    """Cut maps along the batch, by runs and by rows, and give each piece its values, one a field.

    Pieces are ``(images, streams, parts, multiplicity, h, w)``, values ``(streams, mult, 1, 1)``.
    Those of lengths, which have one number for each field and pixel, come last, with one part.
    """
    first, runs = maps[0], streams.groups
    most = _SHARE * torch.get_num_threads()
    if first.numel() <= most and len(runs) == 1:  # the short way of small inputs
        shape = (len(first), *runs[0], *first.shape[2:])
        of_all = [v if v is None else v.view(runs[0].streams, -1, 1, 1) for v in values]
        fields = (len(first), runs[0].streams, 1, -1, *first.shape[2:])
        return [([m.view(shape) for m in maps] + [m.view(fields) for m in lengths], of_all)]
    return _cut(maps, values, streams, lengths, most)


def _cut(
    maps: tuple[Tensor, ...],
    values: tuple[Tensor | None, ...],
    streams: Streams,
    lengths: tuple[Tensor, ...],
    most: int,
) -> Iterator[tuple[list[Tensor], list[Any]]]:
    (batch, _, height, _), image = maps[0].shape, maps[0][0].numel()
    images = math.ceil(batch / math.ceil(batch * image / most))
    rows = math.ceil(height / math.ceil(images * image / most))
    channel = field = 0
    for run in streams.groups:
        of_run = [
            v if v is None else v[field : field + run.fields].view(run.streams, -1, 1, 1)
            for v in values
        ]
        views = [m[:, channel : channel + run.channels].unflatten(1, tuple(run)) for m in maps]
        views += [
            m[:, field : field + run.fields].unflatten(1, (run.streams, 1, -1)) for m in lengths
        ]
        for of_images in zip(*(view.split(images) for view in views), strict=True):
            for piece in zip(*(view.split(rows, 4) for view in of_images), strict=True):
                yield list(piece), of_run
        channel += run.channels
        field += run.fields


@cache
def _constant(value: float, dtype: torch.dtype) -> Tensor:
    return torch.full((1,), value, dtype=dtype)


def _square(view: Tensor, magnitude_eps: float) -> Tensor:
    """|z|² + magnitude_eps in at least float32."""
    dtype = torch.float32 if view.dtype.itemsize < 4 else view.dtype
    re = view.select(2, 0)
    square = torch.addcmul(_constant(magnitude_eps, dtype), re, re)
    if view.shape[2] == 2:
        im = view.select(2, 1)
        square.addcmul_(im, im)
    return square


def _factor(inverse: Tensor, scale: Tensor | None, shift: Tensor) -> Tensor:
    return torch.mul(inverse, shift).add_(1 if scale is None else scale).relu_()


def _inner(grad: Tensor, view: Tensor, factor: Tensor) -> Tensor:
    """d = ⟨grad, x⟩ where the factor is positive, else 0."""
    inner = torch.mul(grad.select(2, 0), view.select(2, 0)).to(factor.dtype)
    if view.shape[2] == 2:
        inner.addcmul_(grad.select(2, 1), view.select(2, 1))
    return torch.ops.aten.threshold_backward(inner, factor, 0)


def _sum(values: Tensor) -> Tensor:
    """Sum over batch and pixels of ``(batch, streams, mult, h, w)``: pixels first is faster."""
    sums: Tensor = values.sum((3, 4)).sum(0)[..., None, None]
    return sums
