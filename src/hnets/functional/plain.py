"""``x · relu(scale + shift/|x|)`` and its batch norm, in operations that autograd understands.

What compiled and exported graphs, function transforms and second derivatives take; `fused` is the
faster form of the same functions, and they agree to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional.layout import fields_of_runs, join, per_field, views
from hnets.streams import Streams

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["assemble", "batch_magnitude_relu", "fold_batch_norm", "magnitude_relu", "square"]


def assemble(
    radial: Tensor,
    phase: Tensor | None,
    spread: Tensor,
    assembly: Tensor,
    shape: tuple[int, int, int, int],
    pixels: int,
) -> Tensor:
    """The kernel ``(out channels, in channels, pixels)`` from radial weights and phases."""
    coefficients = radial
    if phase is not None:
        beta = phase @ spread  # (out, in, phased columns)
        phased, free = radial[..., : beta.shape[-1]], radial[..., beta.shape[-1] :]
        parts = [phased * beta.cos(), phased * beta.sin()]
        if free.shape[-1]:  # the compiler stumbles over empty tensors
            parts.insert(1, free)
        coefficients = torch.cat(parts, dim=-1)
    out_parts, out, in_parts, into = shape
    kernel = (coefficients @ assembly).view(out, into, out_parts, in_parts, pixels)
    return kernel.permute(2, 0, 3, 1, 4).reshape(out_parts * out, in_parts * into, pixels)


def magnitude_relu(x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float) -> Tensor:
    """``x · relu(scale + shift/|x|)``, one scale and one shift a field."""
    parts = []
    scales, shifts = fields_of_runs(scale, streams), fields_of_runs(shift, streams)
    for (run, view), a, b in zip(views(x, streams), scales, shifts, strict=True):
        inverse = square(view, eps).rsqrt()
        factor = F.relu(per_field(a, run, x) + per_field(b, run, x) * inverse)
        parts.append((view * factor.unsqueeze(2)).to(x.dtype).flatten(1, 3))
    return join(parts)


def batch_magnitude_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    streams: Streams,
    norm_eps: float,
    eps: float,
    group: ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """The same with scale and shift from batch statistics; also mean, variance and their count."""
    lengths = join([square(view, eps).sqrt().flatten(1, 2) for _, view in views(x, streams)])
    dims, count = [0, *range(2, x.dim())], x.numel() // x.shape[1]
    total: float | Tensor = count
    if group is None:
        var, mean = torch.var_mean(lengths, dims, correction=0)
    else:
        # One exchange of 2·fields + 1 numbers in float64 each way, as in `fused`: a process whose
        # share of the batch is empty comes here, and the others go there.
        wide = lengths.double()
        sums = torch.cat([wide.sum(dims), wide.square().sum(dims), wide.new_tensor([count])])
        sums = _AllReduce.apply(sums, group)
        first, second, total = sums.tensor_split([streams.fields, 2 * streams.fields])
        mean = first / total
        var = (second / total - mean * mean).clamp_min(0)
        mean, var = mean.to(weight.dtype), var.to(weight.dtype)
    scale, shift = fold_batch_norm(mean, var, weight, bias, norm_eps)
    return magnitude_relu(x, scale, shift, streams, eps), mean, var, total


def fold_batch_norm(
    mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, norm_eps: float
) -> tuple[Tensor, Tensor]:
    """The scale and shift with which `magnitude_relu` is batch norm with these statistics."""
    scale = weight * (var + norm_eps).rsqrt()
    return scale, bias - scale * mean


def square(view: Tensor, eps: float) -> Tensor:
    """|z|² + eps of a view, in at least float32: half precision would lose eps."""
    wide = view.float() if view.dtype.itemsize < 4 else view
    return wide.square().sum(2) + eps


class _AllReduce(torch.autograd.Function):
    """The sum over processes. Each adds its own loss, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        total = values.clone()
        torch.distributed.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total: Tensor = _AllReduce.apply(grads[0], ctx.group)
        return total, None
