"""``relu(scale·f + shift)`` on CPU, in pieces whose values stay in cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import torch
from torch import Tensor

from hnets.functional.fourier import reference

_SHARE = 1 << 18
"""Coefficients per thread in a piece."""


def forward(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    synthesis: Tensor,
    inplace: bool = False,
) -> Tensor:
    """``relu(scale·f + shift)`` as coefficients; a scale of None is 1."""
    y = x if inplace and x.is_contiguous() else x.new_empty(x.shape)
    back = synthesis.T / len(synthesis)
    for fields, (piece, target) in _pieces(synthesis, x, y):
        values = _values(piece, scale, shift, fields, synthesis)
        _mix(back, values.relu_(), target)
    return y


def moments(x: Tensor, synthesis: Tensor) -> Tensor:
    """Σz₀ and Σ|z|² per field, ``(1, 2, fields)`` in float64."""
    fields = x.shape[1] // synthesis.shape[1]
    wide, double = x.float() if x.dtype.itemsize < 4 else x, torch.float64
    constant, rotating = wide.tensor_split([fields], dim=1)
    first = constant.sum((2, 3), dtype=double).sum(0)
    # The variance is the power without that of the mean, which may be far larger: so the constant
    # part is added up in float64, which takes 30 times as long.
    norms = torch.linalg.vector_norm(constant, dim=(2, 3), dtype=double)
    others = torch.linalg.vector_norm(rotating, dim=(2, 3)).to(double)
    power = torch.cat([norms, others], 1).square().sum(0)
    return torch.stack([first, power.view(-1, fields).sum(0)])[None]


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor
) -> tuple[Tensor, Tensor]:
    """∂scale and ∂shift, ``(1, 2, fields)`` in float64, and scale·Aᵀ·∂v."""
    grad_x, sums = backward(grad, x, scale, shift, synthesis)
    return sums, grad_x


def backward(
    grad: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor, synthesis: Tensor
) -> tuple[Tensor, Tensor]:
    """∂x, and the sums ∂scale (0 if the scale is None) and ∂shift.

    With A the matrix of `synthesis`, N its number of rows, v = scale·A·x + shift and g the gradient
    of the output, ∂v = [v > 0]·A·g/N, ∂scale = Σ ∂v·A·x, ∂shift = Σ ∂v and ∂x = scale·Aᵀ·∂v. Batch
    norm subtracts c₂·x from ∂x and c₁ from its order 0.
    """
    grad_x = x.new_empty(x.shape)
    total = x.new_zeros(1, 2, len(shift), dtype=torch.float64)
    back = synthesis.T / len(synthesis)
    for fields, (piece, g, target) in _pieces(synthesis, x, grad, grad_x):
        values = _values(piece, scale, shift, fields, synthesis)
        by_value = _mix(back.T, g.to(synthesis.dtype))
        by_value = torch.ops.aten.threshold_backward(by_value, values, 0)
        by_scaled = _mix(synthesis.T, by_value)  # (images, parts, fields, pixels)
        total[0, 1, fields] += by_scaled[:, 0].sum((0, 2))
        if scale is None:
            target.copy_(by_scaled)
            continue
        by_scale = torch.mul(by_scaled, piece, out=by_value[:, : len(back)])
        total[0, 0, fields] += by_scale.sum((0, 1, 3))
        torch.mul(by_scaled, scale[fields, None], out=target)
    return grad_x, total


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    extra: Sequence[Tensor],
    intermediate: Tensor,
    synthesis: Tensor,
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``, written over the intermediate result."""
    c1, c2 = (value.to(x.dtype) for value in extra)
    fields = len(scale)
    by_parts = intermediate.view(len(x), -1, fields, *x.shape[2:])
    by_parts.addcmul_(x.reshape(by_parts.shape), c2[:, None, None], value=-1)
    by_parts[:, 0] -= c1[:, None, None]
    return intermediate


def _values(
    piece: Tensor, scale: Tensor | None, shift: Tensor, fields: slice, synthesis: Tensor
) -> Tensor:
    """scale·f + shift of ``(images, parts, fields, pixels)``."""
    values = _mix(synthesis, piece.to(synthesis.dtype))
    if scale is not None:
        values.mul_(scale[fields, None])  # addcmul takes twice as long
    return values.add_(shift[fields, None])


def _mix(matrix: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
    """``(out, in)`` times ``(images, in, fields, pixels)``."""
    with torch.autocast("cpu", enabled=False):  # it would round the angles to 8 bits
        if out is None or out.dtype != x.dtype:
            mixed = reference.mix(matrix, x)
            return mixed if out is None else out.copy_(mixed)
        torch.matmul(matrix, x.flatten(2), out=out.view(len(out), len(matrix), -1))
    return out


def _pieces(synthesis: Tensor, *maps: Tensor) -> Iterator[tuple[slice, list[Tensor]]]:
    """Some images at a time, or some fields of one, or some pixels of a field.

    As which fields they are, and ``(images, parts, fields, pixels)`` of each of the maps.
    """
    first, parts = maps[0], synthesis.shape[1]
    images, fields, pixels = len(first), first.shape[1] // parts, first.shape[2] * first.shape[3]
    views = [m.reshape(images, parts, fields, pixels) for m in maps]
    share = _SHARE * torch.get_num_threads() // parts
    few, some = max(1, share // (fields * pixels)), max(1, min(fields, share // pixels))
    short = pixels if some > 1 else min(pixels, share)
    for image, field, pixel in product(
        range(0, images, few), range(0, fields, some), range(0, pixels, short)
    ):
        chosen = slice(field, field + some)
        place = (slice(image, image + few), slice(None), chosen, slice(pixel, pixel + short))
        yield chosen, [view[place] for view in views]
