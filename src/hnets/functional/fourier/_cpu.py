"""``relu(scale·f + shift)`` on CPU: some pictures at a time, so that their values stay in cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from hnets.functional._cpu import fold, unfold
from hnets.functional.fourier import plain

__all__ = [
    "backward",
    "backward_batch",
    "backward_sums",
    "fold",
    "forward",
    "moments",
    "unfold",
]

_SHARE = 1 << 16
"""Coefficients of a piece, for each thread."""


def forward(x: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor) -> Tensor:
    """``relu(scale·f + shift)`` as coefficients."""
    y = torch.empty(x.shape, dtype=x.dtype)
    back = synthesis.T / len(synthesis)
    for piece, target in _pieces(synthesis, x, y):
        values = _values(piece, scale, shift, synthesis)
        _mix(back, values.relu_(), target)
    return y


def moments(x: Tensor, synthesis: Tensor) -> Tensor:
    """Σz₀ and Σ|z|² of every field, ``(1, 2, fields)`` in float64."""
    fields = x.shape[1] // synthesis.shape[1]
    wide = x.float() if x.dtype.itemsize < 4 else x
    first = wide[:, :fields].sum((2, 3), dtype=torch.float64).sum(0)
    power = torch.linalg.vector_norm(wide, dim=(2, 3)).double().square().sum(0)
    return torch.stack([first, power.view(-1, fields).sum(0)])[None]


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor
) -> tuple[Tensor, Tensor]:
    """∂scale and ∂shift, ``(1, 2, fields)`` in float64, and scale·Aᵀ·∂v to go on with."""
    kept, sums = backward(grad, x, scale, shift, synthesis)
    return sums, kept


def backward(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor
) -> tuple[Tensor, Tensor]:
    """∂x, and ∂scale and ∂shift as ``(1, 2, fields)`` in float64."""
    fields = len(scale)
    grad_x = torch.empty(x.shape, dtype=x.dtype)
    total = x.new_zeros(1, 2, fields, dtype=torch.float64)
    back = synthesis.T / len(synthesis)
    for piece, g, target in _pieces(synthesis, x, grad, grad_x):
        values = _values(piece, scale, shift, synthesis)
        by_value = _mix(back.T, g.to(synthesis.dtype))
        by_value = torch.ops.aten.threshold_backward(by_value, values, 0)
        by_scaled = _mix(synthesis.T, by_value)  # (images, parts, fields, pixels)
        total[0, 0] += torch.mul(by_scaled, piece, out=by_value[:, : len(back)]).sum((0, 1, 3))
        total[0, 1] += by_scaled[:, 0].sum((0, 2))
        torch.mul(by_scaled, scale[:, None], out=target)
    return grad_x, total


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    synthesis: Tensor,
    extra: Sequence[Tensor],
    kept: Tensor,
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``, with what `backward_sums` has kept."""
    c1, c2 = (value.to(x.dtype) for value in extra)
    fields = len(scale)
    by_parts = kept.view(len(x), -1, fields, *x.shape[2:])
    by_parts.addcmul_(x.reshape(by_parts.shape), c2[:, None, None], value=-1)
    by_parts[:, 0] -= c1[:, None, None]
    return kept


def _values(piece: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor) -> Tensor:
    """scale·f + shift of ``(images, parts, fields, pixels)``."""
    values = _mix(synthesis, piece.to(synthesis.dtype))
    return values.mul_(scale[:, None]).add_(shift[:, None])  # addcmul takes twice as long


def _mix(matrix: Tensor, x: Tensor, out: Tensor | None = None) -> Tensor:
    """``(out, in)`` times ``(images, in, fields, pixels)``."""
    with torch.autocast("cpu", enabled=False):  # it would round the angles to 8 bits
        if out is None or out.dtype != x.dtype:
            mixed = plain.mix(matrix, x)
            return mixed if out is None else out.copy_(mixed)
        torch.matmul(matrix, x.flatten(2), out=out.view(len(out), len(matrix), -1))
    return out


def _pieces(synthesis: Tensor, *maps: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Some pictures at a time, as ``(images, parts, fields, pixels)``."""
    parts, first = synthesis.shape[1], maps[0]
    images = max(1, _SHARE * torch.get_num_threads() // first[0].numel())
    views = [m.reshape(len(m), parts, -1, m.shape[2] * m.shape[3]) for m in maps]
    return zip(*(view.split(images) for view in views), strict=True)
