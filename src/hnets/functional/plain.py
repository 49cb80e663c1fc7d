"""``x · relu(scale + shift/|x|)`` and its batch norm, in operations that autograd understands.

What compiled and exported graphs, function transforms and second derivatives take; `fused` is the
faster form of the same functions, and they agree to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional.layout import per_field, squared, to_channels
from hnets.functional.statistics import fold_batch_norm, moments
from hnets.streams import Streams

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["assemble", "batch_magnitude_relu", "magnitude", "magnitude_relu"]


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
    # In channels_last, which wide convolutions on a GPU would bring it to.
    last = kernel.permute(2, 0, 4, 3, 1).reshape(out_parts * out, pixels, in_parts * into)
    return last.transpose(1, 2)


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| of every field, with a gradient of zero where z is zero."""
    power = squared(x, streams)
    zero = power == 0
    return power.masked_fill(zero, 1).sqrt().masked_fill(zero, 0).to(x.dtype)


def magnitude_relu(
    x: Tensor, scale: Tensor | None, shift: Tensor, streams: Streams, magnitude_eps: float
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, one scale (or None for 1) and one shift a field."""
    scale = torch.ones_like(shift) if scale is None else scale
    inverse = (squared(x, streams) + magnitude_eps).rsqrt()
    factor = F.relu(per_field(scale, x) + per_field(shift, x) * inverse)
    return (x * to_channels(factor, streams)).to(x.dtype)


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
    lengths = (squared(x, streams) + magnitude_eps).sqrt()
    dims, count = [0, *range(2, x.dim())], x.numel() // x.shape[1]
    total: float | Tensor = count
    if group is None:
        var, mean = torch.var_mean(lengths, dims, correction=0)
    else:
        wide = lengths.double()
        mean, var, total = moments(wide.sum(dims), wide.square().sum(dims), count, group)
        mean, var = mean.to(weight.dtype), var.to(weight.dtype)
    scale, shift = fold_batch_norm(mean, var, weight, bias, eps)
    return magnitude_relu(x, scale, shift, streams, magnitude_eps), mean, var, total
