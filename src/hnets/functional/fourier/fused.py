"""``relu(scale·f + shift)`` on the circle, with hand-written gradients.

Automatic differentiation keeps the values of f and what became of them: more numbers than the
coefficients, twice. Here only the coefficients x are kept, and the rest is computed again, some
pictures at a time on CPU and tile by tile in Triton kernels on CUDA. With A the matrix of
`synthesis`, N its rows, v = scale·A·x + shift and g the gradient of the output,

    ∂v = [v > 0]·A·g/N      ∂scale = Σ ∂v·A·x      ∂shift = Σ ∂v      ∂x = scale·Aᵀ·∂v

In batch norm, scale and shift depend on x through its mean and variance, which subtracts c₂·x from
∂x and c₁ from its order 0, with c₁ and c₂ those of batch norm on magnitudes (`_cpu.unfold`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hnets.functional import _cpu as on_cpu
from hnets.functional import fused
from hnets.functional.fourier import plain
from hnets.functional.statistics import over_processes

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["batch_fourier_relu", "fourier_relu", "usable"]


def usable(x: Tensor) -> bool:
    """Whether the hand-written form serves here; graphs and transforms take the plain one."""
    return fused.usable(x) and (x.device.type == "cpu" or x.dtype != torch.float64)


def fourier_relu(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, synthesis: Tensor
) -> Tensor:
    """``relu(scale·f + shift)``, one scale (or None for 1) and shift (or None for 0) a field."""
    fields = x.shape[1] // synthesis.shape[1]
    if scale is None:
        scale = synthesis.new_ones(fields)
    if shift is None:
        shift = synthesis.new_zeros(fields)
    if torch.is_grad_enabled():
        y: Tensor = _FourierReLU.apply(x, scale, shift, synthesis)
        return y
    y = _backend(x).forward(x, scale, shift, synthesis)
    return y


def batch_fourier_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    synthesis: Tensor,
    norm_eps: float,
    group: ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """The same with scale and shift from batch statistics; also mean, variance and their count."""
    y, mean, var, count = _BatchFourierReLU.apply(x, weight, bias, synthesis, norm_eps, group)
    return y, mean, var, count


def _backend(x: Tensor) -> ModuleType:
    return _module("_cpu" if x.device.type == "cpu" else "_triton")


@cache
def _module(name: str) -> ModuleType:
    return import_module(f"hnets.functional.fourier.{name}")


class _FourierReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor) -> Tensor:
        ctx.save_for_backward(x, scale, shift, synthesis)
        y: Tensor = _backend(x).forward(x, scale, shift, synthesis)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, shift, synthesis = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = plain.fourier_relu(x, scale, shift, synthesis)
            return *fused.differentiable((x, scale, shift), again, grads[0]), None
        grad_x, sums = _backend(x).backward(grads[0], x, scale, shift, synthesis)
        grad_scale, grad_shift = sums.sum(0).to(scale.dtype)
        return grad_x, grad_scale, grad_shift, None


class _BatchFourierReLU(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        synthesis: Tensor,
        norm_eps: float,
        group: ProcessGroup | None,
    ) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
        backend = _backend(x)
        sums = backend.moments(x, len(weight))  # (pieces, 2, fields): Σz₀ and Σ|z|² over orders
        sums, count = over_processes(sums, x.numel() // x.shape[1], group)
        fold = backend.fold if group is None else on_cpu.fold
        mean, var, scale, shift = fold(sums, count, weight, bias, norm_eps)
        ctx.save_for_backward(x, weight, bias, scale, shift, mean, var, synthesis)
        ctx.group, ctx.count, ctx.norm_eps = group, count, norm_eps
        y = backend.forward(x, scale, shift, synthesis)
        ctx.mark_non_differentiable(mean, var)
        return y, mean, var, count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, scale, shift, mean, var, synthesis = ctx.saved_tensors
        if torch.is_grad_enabled():
            again, *_ = plain.batch_fourier_relu(
                x, weight, bias, synthesis, ctx.norm_eps, ctx.group
            )
            return *fused.differentiable((x, weight, bias), again, grads[0]), None, None, None
        backend, common = _backend(x), (x, scale, shift, synthesis)
        statistics = (ctx.count, scale, mean, var, ctx.norm_eps)
        sums, kept = backend.backward_sums(grads[0], *common)
        unfold = backend.unfold if ctx.group is None else on_cpu.unfold
        grad_weight, grad_bias, *extra = unfold(sums, *statistics)
        if ctx.group is not None:  # x moves the statistics of all; parameters are everyone's own
            sums, _ = over_processes(sums, 0, ctx.group)
            _, _, *extra = unfold(sums, *statistics)
        grad_x = backend.backward_batch(grads[0], *common, extra, kept)
        return grad_x, grad_weight, grad_bias, None, None, None
