"""A ReLU with a scale and a shift for each field, and the batch norm that makes them.

On magnitudes and on functions of the angle alike: only the input is kept, gradients come from a
backend, and where they are to be differentiated again, from the plain form. In batch norm, scale
and shift depend on the input through its mean and variance, which adds two numbers a field, c₁ and
c₂, to what the gradient of the input is made of (`unfold` of a backend).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from hnets.functional import _cpu
from hnets.functional.statistics import over_processes

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["BatchScaledReLU", "Form", "ScaledReLU", "differentiable"]


class Form(NamedTuple):
    """How it is computed. What else a function needs of its input's layout is its ``rest``."""

    backend: Callable[[Tensor], ModuleType]
    """Holds forward, backward, moments, fold, backward_sums, unfold and backward_batch."""
    plain: Callable[..., Tensor]
    """Of the input, scale, shift and the rest."""
    plain_batch: Callable[..., Tensor]
    """Of the input, weight, bias, the rest, what is added to the variance, and the processes."""


class ScaledReLU(torch.autograd.Function):
    """With a scale (or None for 1) and a shift that are given."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, scale: Tensor | None, shift: Tensor, form: Form, rest: tuple[Any, ...]
    ) -> Tensor:
        """Keep the input, the scale and the shift."""
        ctx.save_for_backward(x, scale, shift)
        ctx.form, ctx.rest = form, rest
        y: Tensor = form.backend(x).forward(x, scale, shift, *rest)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of input, scale and shift."""
        x, scale, shift = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = ctx.form.plain(x, scale, shift, *ctx.rest)
            return *differentiable((x, scale, shift), again, grads[0]), None, None
        grad_x, sums = ctx.form.backend(x).backward(grads[0], x, scale, shift, *ctx.rest)
        grad_scale, grad_shift = sums.sum(0).to(shift.dtype)
        return grad_x, None if scale is None else grad_scale, grad_shift, None, None


class BatchScaledReLU(torch.autograd.Function):
    """With those of batch norm; gives mean, variance and their count as well."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        form: Form,
        rest: tuple[Any, ...],
        eps: float,
        group: ProcessGroup | None,
    ) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
        """Keep the input, the parameters and the statistics."""
        backend = form.backend(x)
        sums = backend.moments(x, *rest)  # (pieces, 2, fields): Σv and Σv² of what is normalised
        sums, count = over_processes(sums, x.numel() // x.shape[1], group)
        fold = backend.fold if group is None else _cpu.fold
        mean, var, scale, shift = fold(sums, count, weight, bias, eps)
        ctx.save_for_backward(x, weight, bias, scale, shift, mean, var)
        ctx.form, ctx.rest, ctx.group, ctx.count, ctx.eps = form, rest, group, count, eps
        y = backend.forward(x, scale, shift, *rest)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var, count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of input, weight and bias."""
        x, weight, bias, scale, shift, mean, var = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = ctx.form.plain_batch(x, weight, bias, *ctx.rest, ctx.eps, ctx.group)
            return *differentiable((x, weight, bias), again, grads[0]), None, None, None, None
        backend, common = ctx.form.backend(x), (x, scale, shift, *ctx.rest)
        statistics = (ctx.count, scale, mean, var, ctx.eps)
        sums, kept = backend.backward_sums(grads[0], *common)
        unfold = backend.unfold if ctx.group is None else _cpu.unfold
        grad_weight, grad_bias, *extra = unfold(sums, *statistics)
        if ctx.group is not None:  # x moves the statistics of all; parameters are everyone's own
            sums, _ = over_processes(sums, 0, ctx.group)
            _, _, *extra = unfold(sums, *statistics)
        grad_x = backend.backward_batch(grads[0], *common, extra, kept)
        return grad_x, grad_weight, grad_bias, None, None, None, None


def differentiable(
    inputs: tuple[Tensor | None, ...], output: Tensor, grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, which ``create_graph=True`` asks for."""
    wanted = [value for value in inputs if value is not None and value.requires_grad]
    grads = iter(torch.autograd.grad(output, wanted, grad, create_graph=True))
    return tuple(
        next(grads) if value is not None and value.requires_grad else None for value in inputs
    )
