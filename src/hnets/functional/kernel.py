"""From radial weights and phases to one plain convolution kernel, and the convolution."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["harmonic_kernel", "hconv2d"]


def harmonic_kernel(
    radial: Sequence[Tensor],
    phase: Sequence[Tensor | None],
    bases: Sequence[Tensor],
    mixing: Tensor,
    shape: tuple[int, int, int, int],
    kernel_size: int,
) -> Tensor:
    """Assemble the real kernel ``(out channels, in channels, k, k)`` of one `paths.Block`.

    For each group of filters of the same order: ``radial`` is ``(filters, out, in, rings)``,
    ``phase`` is ``(filters, out, in, 1 or rings)`` or None, and a basis turns both into the real
    and imaginary planes of R(r)·exp(i(mφ+β)), the paper's equation 2. ``mixing`` then places the
    planes, so that one real convolution computes Y_p = Σ W_{p−n} ⋆ F_n for all p at once.
    """
    planes = []
    for weight, beta, basis in zip(radial, phase, bases, strict=True):
        coefficients = weight  # (filters, out, in, rings)
        if beta is not None:
            turned = weight.unsqueeze(-2) * torch.stack([beta.cos(), beta.sin()], dim=-2)
            coefficients = turned.flatten(-2)  # (filters, out, in, 2·rings)
        plane = (coefficients @ basis).unflatten(-1, (2, -1))  # (filters, out, in, 2, k·k)
        planes.append(plane.permute(0, 3, 1, 2, 4).flatten(0, 1).flatten(1))
    stacked = planes[0] if len(planes) == 1 else torch.cat(planes)  # (planes, out·in·k·k)
    out_parts, out, in_parts, into = shape
    kernel = (mixing @ stacked).view(out_parts, in_parts, out, into, kernel_size, kernel_size)
    return kernel.transpose(1, 2).reshape(
        out_parts * out, in_parts * into, kernel_size, kernel_size
    )


def hconv2d(
    x: Tensor,
    kernel: Tensor,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    padding_mode: str = "zeros",
    groups: int = 1,
) -> Tensor:
    """Cross-correlate with an assembled kernel, padding with zeros or by reflection."""
    if padding_mode == "reflect":
        x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]), mode="reflect")
        padding = (0, 0)
    return F.conv2d(x, kernel, None, stride, padding, dilation, groups)
