"""Assembly of a kernel in plain torch, which is the fastest form of small ones on CPU as well."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def assemble(
    radial: Tensor,
    phase: Tensor | None,
    spread: Tensor,
    assembly: Tensor,
    shape: Sequence[int],
    size: int,
) -> Tensor:
    """The kernel ``(out channels, in channels, size, size)`` from radial weights and phases."""
    out_parts, out, in_parts, into = shape
    product = coefficients(radial, phase, spread) @ assembly
    kernel = product.view(out, into, out_parts, in_parts, size**2)
    if radial.device.type != "cuda":
        flat = kernel.permute(2, 0, 3, 1, 4).reshape(out_parts * out, in_parts * into, size**2)
    else:  # in channels_last, the layout that wide convolutions on a GPU need
        last = kernel.permute(2, 0, 4, 3, 1).reshape(out_parts * out, size**2, in_parts * into)
        flat = last.transpose(1, 2)
    return flat.unflatten(2, (size, size))


def coefficients(radial: Tensor, phase: Tensor | None, spread: Tensor) -> Tensor:
    """``[R, or R·cos β where phased; R·sin β where phased]``: what a kernel is linear in."""
    if phase is None:
        return radial
    beta = phase @ spread  # (out, in, phased columns)
    phased, free = radial[..., : beta.shape[-1]], radial[..., beta.shape[-1] :]
    return torch.cat([phased * beta.cos(), free, phased * beta.sin()], dim=-1)


def empty_kernel(like: Tensor, shape: Sequence[int], size: int) -> Tensor:
    """Memory for a kernel in channels_last."""
    out_parts, out, in_parts, into = shape
    channels = in_parts * into
    return like.new_empty_strided(
        (out_parts * out, channels, size, size),
        (size**2 * channels, 1, size * channels, channels),
    )
