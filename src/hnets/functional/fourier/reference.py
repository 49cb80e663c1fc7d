"""Functions of the angle in plain torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._batch_norm import fold_batch_norm, moments
from hnets.functional._dispatch import autocast_device, exporting


def fourier_act(x: Tensor, act: Callable[[Tensor], Tensor], synthesis: Tensor) -> Tensor:
    """To values on the circle, through ``act``, and back to coefficients."""
    samples, parts = synthesis.shape
    # Autocast would round the angles to 8 bits, and with them the equivariance.
    with torch.autocast(autocast_device(x), enabled=False):
        wide = x.to(synthesis.dtype)
        values = mix(synthesis, wide.unflatten(1, (parts, -1)))
        back = mix(synthesis.T / samples, act(values))
    return back.flatten(1, 2).to(x.dtype)


def fourier_relu(
    x: Tensor, scale: Tensor | None, shift: Tensor | None, synthesis: Tensor
) -> Tensor:
    """``relu(scale·f + shift)``, one scale (or None for 1) and shift (or None for 0) per field."""
    if scale is not None or shift is not None:
        fields = x.shape[1] // synthesis.shape[1]
        scale = synthesis.new_ones(fields) if scale is None else scale
        shift = synthesis.new_zeros(fields) if shift is None else shift
        x = angular_scale(x, scale, shift)
    return fourier_act(x, F.relu, synthesis)


def batch_fourier_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    synthesis: Tensor,
    eps: float,
    group: torch.distributed.ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """The same with scale and shift from batch statistics; also mean, variance and their count."""
    mean, var, count = angular_moments(x, len(weight), group)
    mean, var = mean.to(weight.dtype), var.to(weight.dtype)
    scale, shift = fold_batch_norm(mean, var, weight, bias, eps)
    return fourier_relu(x, scale, shift, synthesis), mean, var, count


def angular_scale(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """The coefficients of ``scale·f + shift``, one scale and one shift per field."""
    fields = len(scale)
    around = [1] * (x.dim() - 2)
    scaled = x.unflatten(1, (-1, fields)) * scale.view(-1, *around)
    moved = F.pad(shift, (0, x.shape[1] - fields)).view(-1, *around)
    return (scaled.flatten(1, 2) + moved).to(x.dtype)


def angular_moments(
    x: Tensor, fields: int, group: torch.distributed.ProcessGroup | None
) -> tuple[Tensor, Tensor, float | Tensor]:
    """Mean and variance of f over images, pixels and angles, and the number of pixels."""
    wide = x.float() if x.dtype.itemsize < 4 else x
    dims, count = [0, *range(2, x.dim())], x.numel() // x.shape[1]
    constant, rotating = wide.tensor_split([fields], dim=1)
    if group is not None:
        power = wide.double().square().unflatten(1, (-1, fields)).sum(1)
        return moments(constant.double().sum(dims), power.sum(dims), count, group)
    var, mean = torch.var_mean(constant, dims, correction=0)
    power = rotating.square().mean(dims).view(-1, fields).sum(0)
    return mean, var + power, count


def mix(matrix: Tensor, x: Tensor) -> Tensor:
    """``(out, in)`` times ``(batch, in, ...)`` along the second dimension.

    Image by image: inductor cannot compile one product for images of any size.
    """
    if exporting() and x.dim() == 5:  # exporters would reason at length about the product h·w
        return F.conv3d(x, matrix[:, :, None, None, None])
    return (matrix @ x.flatten(2)).unflatten(2, x.shape[2:])
