"""``relu(scale·f + shift)`` on the circle, with hand-written gradients.

Automatic differentiation keeps the values of f and what became of them: more numbers than the
coefficients, twice. Here only the coefficients x are kept, and the rest is computed again, some
pictures at a time on CPU and tile by tile in Triton kernels on CUDA. With A the matrix of
`synthesis`, N its rows, v = scale·A·x + shift and g the gradient of the output,

    ∂v = [v > 0]·A·g/N      ∂scale = Σ ∂v·A·x      ∂shift = Σ ∂v      ∂x = scale·Aᵀ·∂v

In batch norm, scale and shift depend on x through its mean and variance, which subtracts c₂·x from
∂x and c₁ from its order 0.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hnets.functional import fused
from hnets.functional.fourier import plain
from hnets.functional.scaled import BatchScaledReLU, Form, ScaledReLU

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
        y: Tensor = ScaledReLU.apply(x, scale, shift, _FORM, (synthesis,))
        return y
    y = _backend(x).forward(x, scale, shift, synthesis)
    return y


def batch_fourier_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    synthesis: Tensor,
    eps: float,
    group: ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """The same with scale and shift from batch statistics; also mean, variance and their count."""
    y, mean, var, count = BatchScaledReLU.apply(x, weight, bias, _FORM, (synthesis,), eps, group)
    return y, mean, var, count


def _backend(x: Tensor) -> ModuleType:
    return _module("_cpu" if x.device.type == "cpu" else "_triton")


@cache
def _module(name: str) -> ModuleType:
    return import_module(f"hnets.functional.fourier.{name}")


def _plain_batch(*given: Any) -> Tensor:
    return plain.batch_fourier_relu(*given)[0]


_FORM = Form(_backend, plain.fourier_relu, _plain_batch)
