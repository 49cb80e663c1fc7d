"""``x · relu(scale + shift/|x|)`` and its batch norm, with hand-written gradients.

Automatic differentiation keeps five full-size temporaries of this function. Here only the input is
kept, and the rest is computed again where it is needed, a piece of the batch at a time on CPU and
in single Triton kernels on CUDA. With r = 1/|x|, s = relu(scale + shift·r) and g the gradient of
the output, every gradient follows from d = ⟨g, x⟩·[s > 0]:

    ∂scale = Σ d        ∂shift = Σ d·r        ∂x = s·g − shift·d·r³·x

In batch norm, scale and shift depend on x through the mean μ and variance σ² of |x|, which adds
−(c₁·r + c₂)·x to ∂x with two numbers a field (`scaled.BatchScaledReLU`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hnets.functional import _cpu, plain
from hnets.functional.scaled import BatchScaledReLU, Form, ScaledReLU, differentiable
from hnets.streams import Streams

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["batch_magnitude_relu", "halve", "magnitude", "magnitude_relu", "spread", "usable"]

_HAS_TRITON = find_spec("triton") is not None


def usable(x: Tensor) -> bool:
    """Whether the hand-written form serves here; graphs and transforms take the plain one."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if forward_ad._current_level >= 0:  # derivatives are carried along, which nothing here does
        return False
    if x.numel() == 0 or x.dim() != 4:
        return False
    return x.device.type == "cpu" or (x.device.type == "cuda" and _HAS_TRITON)


def magnitude_relu(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
    inplace: bool = False,
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, one scale (or None for 1) and one shift a field."""
    if scale is None and x.device.type != "cpu":
        scale = torch.ones_like(shift)
    if torch.is_grad_enabled():
        y: Tensor = ScaledReLU.apply(x, scale, shift, _FORM, (streams, magnitude_eps))
        return y
    y = _backend(x).forward(x, scale, shift, streams, magnitude_eps, inplace)
    return y


def batch_magnitude_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    streams: Streams,
    eps: float,
    magnitude_eps: float,
    group: ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """The same with scale and shift from batch statistics; also mean, variance and their count."""
    y, mean, var, count = BatchScaledReLU.apply(
        x, weight, bias, _FORM, (streams, magnitude_eps), eps, group
    )
    return y, mean, var, count


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| of every field."""
    if torch.is_grad_enabled():
        lengths: Tensor = _Magnitude.apply(x, streams)
        return lengths
    lengths = _backend(x).magnitude(x, streams)
    return lengths


def halve(x: Tensor) -> Tensor:
    """`hnets.functional.halve2d` on CUDA, without a gradient."""
    halved: Tensor = _triton().halve(x)
    return halved


def spread(grad: Tensor, shape: torch.Size) -> Tensor:
    """The transpose of `halve`."""
    grad_x: Tensor = _triton().spread(grad, shape)
    return grad_x


def assembles(radial: Tensor, assembly: Tensor) -> bool:
    """Whether `assemble` serves here: elsewhere a few operations do it, faster if there is much."""
    return (
        radial.device.type == "cuda"
        and _HAS_TRITON
        and radial.dtype == torch.float32
        and radial.shape[-1] <= 64
        and assembly.shape[1] <= 512
        and not torch.compiler.is_compiling()
        and not torch._C._are_functorch_transforms_active()
    )


def assemble(
    radial: Tensor,
    phase: Tensor | None,
    spread: Tensor,
    assembly: Tensor,
    shape: tuple[int, int, int, int],
    pixels: int,
) -> Tensor:
    """The kernel ``(out channels, in channels, pixels)`` from radial weights and phases."""
    if phase is None:
        phase = radial.new_empty(*radial.shape[:2], 0)
    kernel: Tensor = _Assemble.apply(radial, phase, spread, assembly, shape, pixels)
    return kernel


@cache
def _triton() -> ModuleType:
    return import_module("hnets.functional._triton")


def _backend(x: Tensor) -> ModuleType:
    if x.device.type == "cpu":
        return _cpu
    return _triton()


def _plain_batch(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    streams: Streams,
    magnitude_eps: float,
    eps: float,
    group: ProcessGroup | None,
) -> Tensor:
    return plain.batch_magnitude_relu(x, weight, bias, streams, eps, magnitude_eps, group)[0]


_FORM = Form(_backend, plain.magnitude_relu, _plain_batch)


class _Assemble(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        radial: Tensor,
        phase: Tensor,
        spread: Tensor,
        assembly: Tensor,
        shape: tuple[int, int, int, int],
        pixels: int,
    ) -> Tensor:
        ctx.save_for_backward(radial, phase, spread, assembly)
        ctx.sizes = (shape, pixels)
        kernel: Tensor = _backend(radial).assemble(radial, phase, spread, assembly, shape, pixels)
        return kernel

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = plain.assemble(*tensors, *ctx.sizes)
            return *differentiable(tensors[:2], again, grads[0]), None, None, None, None
        backward = _backend(grads[0]).assemble_backward
        return *backward(grads[0], *tensors, *ctx.sizes), None, None, None, None


class _Magnitude(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, streams: Streams) -> Tensor:
        ctx.save_for_backward(x)
        ctx.streams = streams
        lengths: Tensor = _backend(x).magnitude(x, streams)
        return lengths

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = plain.magnitude(x, ctx.streams)
            return *differentiable((x,), again, grads[0]), None
        return _backend(x).magnitude_backward(grads[0], x, ctx.streams), None
