"""Functions of magnitudes on CPU, on pieces of the maps that stay in the cache.

Torch vectorises an operation only if at most one of its inputs is constant over the pixels, hence
``mul`` and ``add`` in place of ``addcmul``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from hnets.streams import Streams

_SHARE = 1 << 19
"""Real numbers per thread in a piece. Fewer cost more calls, more exceed the cache of a core."""


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
    if x.numel() > _SHARE or len(streams.runs) > 1:
        for (view, target), (a, b) in _pieces((x, y), (scale, shift), streams):
            _rectify(view, a, b, magnitude_eps, target)
        return y
    # A small image takes mostly Python's time, so there are as few calls as possible.
    count, parts, width = streams.runs[0]
    images, _, height, across = x.shape
    view = target = x.view(images, count, parts, width, height, across)
    if not inplace:
        target = y.view(images, count, parts, width, height, across)
    if scale is not None:
        scale = scale.view(count, width, 1, 1)
    _rectify(view, scale, shift.view(count, width, 1, 1), magnitude_eps, target)
    return y


def _rectify(
    view: Tensor, scale: Tensor | None, shift: Tensor, magnitude_eps: float, target: Tensor
) -> None:
    """Write ``view · relu(scale + shift/|view|)``."""
    factor = _square(view, magnitude_eps).rsqrt_().mul_(shift)
    factor.add_(_constant(1.0, factor.dtype) if scale is None else scale).relu_()
    if target is view:
        view.mul_(factor.unsqueeze(2))
    else:
        torch.mul(view, factor.unsqueeze(2), out=target)


def moments(x: Tensor, streams: Streams, magnitude_eps: float) -> Tensor:
    """Σ|x| and Σ|x|² per field, ``(1, 2, fields)`` in float64."""
    total = x.new_zeros(1, 2, streams.fields, dtype=torch.float64)
    for (view,), (first, second) in _pieces((x,), total[0].unbind(), streams):
        square = _square(view, magnitude_eps)
        second += _sum(square)
        first += _sum(square.sqrt_())
    return total


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, magnitude_eps: float
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """∂scale and ∂shift, ``(1, 2, fields)`` in float64, and r and d·r of every piece."""
    total = x.new_zeros(1, 2, streams.fields, dtype=torch.float64)
    parameters = (scale, shift, *total[0])
    intermediate = []
    for (view, g), (a, b, first, second) in _pieces((x, grad), parameters, streams):
        inverse = _square(view, magnitude_eps).rsqrt_()
        inner = _inner(g, view, (inverse * b).add_(a).relu_())
        first += _sum(inner)
        second += _sum(inner.mul_(inverse))
        intermediate.append((inverse, inner))
    return total, intermediate


def backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
) -> tuple[Tensor, Tensor]:
    """∂x, and the sums ∂scale (0 if the scale is None) and ∂shift.

    With r = 1/|x|, s = relu(scale + shift·r), g the gradient of the output and d = ⟨g, x⟩·[s > 0],
    ∂scale = Σ d, ∂shift = Σ d·r and ∂x = s·g − shift·d·r³·x. Batch norm subtracts (c₁·r + c₂)·x.
    """
    grad_x = torch.empty_like(x)
    total = x.new_zeros(1, 2, streams.fields, dtype=torch.float64)
    parameters = (scale, shift, *total[0])
    for (view, g, target), (a, b, first, second) in _pieces((x, grad, grad_x), parameters, streams):
        inverse = _square(view, magnitude_eps).rsqrt_()
        shifted = inverse * b
        factor = torch.add(shifted, 1 if a is None else a).relu_()
        pull = _inner(g, view, factor)
        if scale is not None:
            first += _sum(pull)
        second += _sum(pull.mul_(inverse))
        _combine(g, view, factor, pull.mul_(inverse).mul_(shifted), target)
    return grad_x, total


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    extra: Sequence[Tensor],
    intermediate: list[tuple[Tensor, Tensor]],
    streams: Streams,
    magnitude_eps: float,
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``."""
    grad_x = torch.empty_like(x)
    pieces = _pieces((x, grad, grad_x), (scale, shift, *extra), streams)
    for ((view, g, target), (a, b, c1, c2)), (inverse, pull) in zip(
        pieces, intermediate, strict=True
    ):
        shifted = inverse * b
        torch.addcmul(c1, pull, shifted, out=pull)
        torch.addcmul(c2, pull, inverse, out=pull)  # shift·d·r³ + c₁·r + c₂
        _combine(g, view, shifted.add_(a).relu_(), pull, target)
    return grad_x


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| per field."""
    if x.numel() <= _SHARE and len(streams.runs) == 1:  # as in `forward`
        images, _, height, across = x.shape
        square = _square(x.view(images, *streams.runs[0], height, across), 0.0)
        return square.flatten(1, 2).sqrt().to(x.dtype)  # no view: autograd lets users change it
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


def _combine(grad: Tensor, view: Tensor, factor: Tensor, pull: Tensor, target: Tensor) -> None:
    """Write ∂x = factor·grad − pull·x."""
    torch.mul(grad, factor.unsqueeze(2), out=target)
    target.addcmul_(view, pull.unsqueeze(2), value=-1)


def _pieces(
    maps: tuple[Tensor, ...],
    values: tuple[Tensor | None, ...],
    streams: Streams,
    lengths: tuple[Tensor, ...] = (),
) -> Iterable[tuple[list[Tensor], list[Any]]]:
    """Cut maps by images, runs of streams and rows; each piece comes with its values per field.

    Pieces are ``(images, streams, parts, multiplicity, h, w)``, values ``(streams, mult, 1, 1)``.
    Those of ``lengths``, which have one number per field and pixel, come last, with one part.
    """
    first, runs = maps[0], streams.runs
    most = _SHARE * torch.get_num_threads()
    if first.numel() <= most and len(runs) == 1:  # small inputs: one view
        count, parts, width = runs[0]
        images, _, height, across = first.shape
        views = [m.view(images, count, parts, width, height, across) for m in maps]
        views += [m.view(images, count, 1, width, height, across) for m in lengths]
        return ((views, [v if v is None else v.view(count, width, 1, 1) for v in values]),)
    return _cut(maps, values, streams, lengths, most)


def _cut(
    maps: tuple[Tensor, ...],
    values: tuple[Tensor | None, ...],
    streams: Streams,
    lengths: tuple[Tensor, ...],
    most: int,
) -> Iterator[tuple[list[Tensor], list[Any]]]:
    height, image = maps[0].shape[2], maps[0][0].numel()
    images = max(1, most // image)
    rows = max(1, min(height, most * height // image))  # all, unless one image is too large
    channel = field = 0
    for run in streams.runs:
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


_constants: dict[tuple[float, torch.dtype], Tensor] = {}


def _constant(value: float, dtype: torch.dtype) -> Tensor:
    """A number as a tensor, which torch would make of it at every call."""
    constant = _constants.get((value, dtype))
    if constant is None:
        constant = torch.full((1,), value, dtype=dtype, device="cpu")
        if type(constant) is Tensor:  # and not a FakeTensor, which must not outlive its mode
            _constants[value, dtype] = constant
    return constant


def _square(view: Tensor, magnitude_eps: float) -> Tensor:
    """|z|² + magnitude_eps in at least float32."""
    dtype = torch.float32 if view.dtype.itemsize < 4 else view.dtype
    parts = view.unbind(2)
    square = torch.addcmul(_constant(magnitude_eps, dtype), parts[0], parts[0])
    return square if len(parts) == 1 else square.addcmul_(parts[1], parts[1])


def _inner(grad: Tensor, view: Tensor, factor: Tensor) -> Tensor:
    """d = ⟨grad, x⟩ where the factor is positive, else 0."""
    grads, parts = grad.unbind(2), view.unbind(2)
    inner = torch.mul(grads[0], parts[0]).to(factor.dtype)
    if len(parts) == 2:
        inner.addcmul_(grads[1], parts[1])
    return torch.ops.aten.threshold_backward.grad_input(inner, factor, 0, grad_input=inner)


def _sum(values: Tensor) -> Tensor:
    """Sum over batch and pixels of ``(batch, streams, mult, h, w)``: pixels first is faster.

    Variances are small differences of such sums, so those over the batch, which are few, are added
    in float64.
    """
    return values.sum((3, 4)).sum(0, dtype=torch.float64)[..., None, None]
