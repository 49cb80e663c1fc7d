"""Assembly of a kernel in plain torch, which on CPU is the fastest form as well."""

from __future__ import annotations

import torch
from torch import Tensor


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
        coefficients = torch.cat([phased * beta.cos(), free, phased * beta.sin()], dim=-1)
    out_parts, out, in_parts, into = shape
    kernel = (coefficients @ assembly).view(out, into, out_parts, in_parts, pixels)
    if radial.device.type != "cuda":
        return kernel.permute(2, 0, 3, 1, 4).reshape(out_parts * out, in_parts * into, pixels)
    # In channels_last, the layout that wide convolutions on a GPU need.
    last = kernel.permute(2, 0, 4, 3, 1).reshape(out_parts * out, pixels, in_parts * into)
    return last.transpose(1, 2)
