"""Assembly of a kernel as an operator, for compiled graphs on CUDA.

There it stays one kernel forward and one backward; plain operations become several of each.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hnets.functional._dispatch import backend
from hnets.functional.assembly.reference import empty_kernel

_CONSTANTS = "Tensor spread, Tensor assembly, SymInt[] shape, SymInt size"


@torch.library.custom_op(
    "hnets::assemble",
    mutates_args=(),
    schema=f"(Tensor radial, Tensor phase, {_CONSTANTS}) -> Tensor",
)
def assemble(radial: Tensor, *others: Any) -> Tensor:
    """The kernel ``(out channels, in channels, size, size)`` from radial weights and phases."""
    kernel: Tensor = backend("assembly", radial).assemble(radial, *others)
    return kernel


@torch.library.custom_op(
    "hnets::assemble_backward",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor radial, Tensor phase, {_CONSTANTS}) -> (Tensor, Tensor)",
)
def assemble_backward(grad: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    """Gradients of radial weights and phases."""
    by_radial, by_phase = backend("assembly", grad).assemble_backward(grad, *others)
    return by_radial, by_phase


@assemble.register_fake
def _(radial: Tensor, *others: Any) -> Tensor:
    return empty_kernel(radial, *others[-2:])


@assemble_backward.register_fake
def _(grad: Tensor, radial: Tensor, phase: Tensor, *others: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(radial), torch.empty_like(phase)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.shape, ctx.size = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    return *assemble_backward(grad, *ctx.saved_tensors, ctx.shape, ctx.size), *[None] * 4


assemble.register_autograd(_gradients, setup_context=_save)
