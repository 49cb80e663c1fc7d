"""Batch norm of any kind from sums over a batch: statistics, scale and shift, and gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def expect_several(x: Tensor, group: torch.distributed.ProcessGroup | None) -> None:
    """Raise if a batch has one value per channel, which has no variance."""
    if x.numel() == x.shape[1] and group is None:
        raise ValueError(
            "batch norm in training needs more than one value for each channel, "
            f"got an input of shape {tuple(x.shape)}; use a larger batch or call .eval()"
        )


def fold_batch_norm(
    mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    """The scale and shift that are batch norm with these statistics."""
    scale = weight * (var + eps).rsqrt()
    return scale, bias - scale * mean


def add_up(sums: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """Two sums over all pieces, ``(pieces, 2, fields)``, in the type of ``like``."""
    first, second = sums.sum(0).to(like.dtype)
    return first, second


def fold(
    sums: Tensor,
    count: float | Tensor,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    running: tuple[Tensor, Tensor],
    momentum: float,
) -> tuple[Tensor, ...]:
    """Mean, variance, scale and shift from the sums Σv and Σv², ``(pieces, 2, fields)``.

    The running mean and variance are moved towards those of the batch.
    """
    mean, square = sums.sum(0) / count
    var = (square - mean * mean).clamp_min_(0)
    update_running(*running, mean, var, count, momentum)
    folded = (mean, var, *fold_batch_norm(mean, var, weight, bias, eps))
    return tuple(value.to(weight.dtype) for value in folded)


def fold_backward(
    sums: Tensor, count: float | Tensor, scale: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """∂weight, ∂bias, c₁ and c₂ from the sums ∂scale and ∂shift, ``(pieces, 2, fields)``.

    Scale and shift depend on the input through its mean and variance: c₁ and c₂, one pair per
    field, are what that adds to the gradient of the input.
    """
    by_scale, by_shift = sums.sum(0).to(scale.dtype)
    centred = by_scale - mean * by_shift
    slope = scale * centred / (var + eps) / count
    return (
        centred * (var + eps).rsqrt(),
        by_shift,
        scale * by_shift / count - mean * slope,
        slope,
    )


@torch.no_grad()
def update_running(
    running_mean: Tensor,
    running_var: Tensor,
    mean: Tensor,
    var: Tensor,
    count: float | Tensor,
    momentum: float,
) -> None:
    """Move running statistics, in place, towards those of a batch; the variance without bias."""
    running_mean.lerp_(mean.to(running_mean.dtype), momentum)
    running_var.lerp_((var * (count / (count - 1))).to(running_var.dtype), momentum)


def moments(
    first: Tensor, second: Tensor, count: int, group: torch.distributed.ProcessGroup
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean, variance and count over all processes, from each one's sums Σv and Σv² in float64.

    One exchange of 2·fields + 1 numbers each way, as in `over_processes`: a process whose share of
    the batch is empty comes here while the others are there, and the exchanges have to match.
    """
    fields = len(first)
    sums = torch.cat([first, second, first.new_tensor([count])])
    sums = _AllReduce.apply(sums, group)
    first, second, total = sums.tensor_split([fields, 2 * fields])
    mean = first / total
    return mean, (second / total - mean * mean).clamp_min(0), total


def over_processes(
    sums: Tensor, count: int, group: torch.distributed.ProcessGroup | None
) -> tuple[Tensor, float | Tensor]:
    """Sums ``(pieces, 2, fields)`` and a count over all processes, without a gradient."""
    if group is None:
        return sums, float(count)
    packed = torch.cat([sums.sum(0).flatten(), sums.new_tensor([count])])
    torch.distributed.all_reduce(packed, group=group)
    return packed[:-1].view(1, *sums.shape[1:]), packed[-1]


class _AllReduce(torch.autograd.Function):
    """The sum over processes. Each adds its own loss, so gradients are summed as well."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, group: torch.distributed.ProcessGroup) -> Tensor:
        # Not torch.distributed.all_reduce: compiled, torch 2.11 loses the gradient of that.
        from torch.distributed._functional_collectives import all_reduce, wait_tensor

        ctx.group = group
        return wait_tensor(all_reduce(values.contiguous(), "sum", group))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total: Tensor = _AllReduce.apply(grads[0], ctx.group)
        return total, None
