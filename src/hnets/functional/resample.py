"""Resampling: rotation of pixels, Gaussian blur with stride."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional import fused
from hnets.streams import Streams

__all__ = ["blur_pool2d", "gaussian_window", "mean_pool2d", "rotate", "rotate_pixels"]


def rotate_pixels(x: Tensor, theta: float, mode: str = "bicubic") -> Tensor:
    """Turn the pixels of ``(batch, channels, height, width)`` counter-clockwise by θ radians.

    Multiples of 90 degrees of a square picture are exact (``torch.rot90``); any other angle is
    interpolated about the centre, with zeros outside.

    >>> x = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).reshape(1, 1, 2, 2)
    >>> rotate_pixels(x, math.pi / 2).squeeze()
    tensor([[1., 3.],
            [0., 2.]])
    """
    quarters = theta / (math.pi / 2)
    height, width = x.shape[-2:]
    if abs(quarters - round(quarters)) < 1e-9 and (height == width or round(quarters) % 2 == 0):
        return torch.rot90(x, round(quarters), (-2, -1))
    cos, sin = math.cos(theta), math.sin(theta)
    # grid_sample asks where each output pixel comes from; its y axis points down.
    ratio = height / width
    matrix = x.new_tensor([[cos, -sin * ratio, 0], [sin / ratio, cos, 0]])
    where = F.affine_grid(matrix.expand(len(x), 2, 3), list(x.shape), align_corners=False)
    return F.grid_sample(x, where, mode=mode, padding_mode="zeros", align_corners=False)


def rotate(x: Tensor, theta: float, streams: Streams, mode: str = "bicubic") -> Tensor:
    """What a turn of the input by θ does to a feature map: pixels move and phases turn."""
    return streams.rotate(rotate_pixels(x, theta, mode), theta)


def mean_pool2d(x: Tensor, size: int) -> Tensor:
    """Means of non-overlapping squares; rows and columns that do not fill one are cut off.

    ``avg_pool2d`` keeps its input for a gradient that does not depend on it, and is slow on CPU.

    >>> mean_pool2d(torch.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[1.5000]]]])
    """
    if fused.usable(x) and x.shape[2] >= size and x.shape[3] >= size:
        pooled: Tensor = _MeanPool.apply(x, size) if torch.is_grad_enabled() else _mean(x, size)
        return pooled
    return F.avg_pool2d(x, size)


def _mean(x: Tensor, size: int) -> Tensor:
    if x.device.type != "cpu" or x.dtype.itemsize < 4 or size == 1:
        return F.avg_pool2d(x, size)
    height, width = (side // size * size for side in x.shape[2:])
    # Whole rows first: their sums are vectorised, and leave less for the strided ones.
    total = x[:, :, 0:height:size, :width] + x[:, :, 1:height:size, :width]
    for i in range(2, size):
        total += x[:, :, i:height:size, :width]
    pooled = total[..., 0::size] + total[..., 1::size]
    for i in range(2, size):
        pooled += total[..., i::size]
    return pooled.mul_(1 / size**2)


class _MeanPool(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> Tensor:
        ctx.shape, ctx.size = x.shape, size
        return _mean(x, size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        size, (batch, channels, height, width) = ctx.size, ctx.shape
        share = grads[0] / size**2
        rows = share.repeat_interleave(size, dim=3).unsqueeze(3)
        spread = rows.expand(-1, -1, -1, size, -1).reshape(
            batch, channels, share.shape[2] * size, share.shape[3] * size
        )
        margin = (0, width - spread.shape[3], 0, height - spread.shape[2])
        return F.pad(spread, margin) if any(margin) else spread, None


def gaussian_window(size: int, sigma: float) -> Tensor:
    """A normalised Gaussian of ``size`` samples about its middle, in float64.

    >>> gaussian_window(4, 1.0).sum()
    tensor(1., dtype=torch.float64)
    """
    offset = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    window = (-(offset**2) / (2 * sigma**2)).exp()
    return window / window.sum()


def blur_pool2d(x: Tensor, window: Tensor, stride: int) -> Tensor:
    """Blur with a separable window, reflecting at the border, and keep every ``stride``-th pixel.

    The window and the stride are both odd or both even; ``size − stride`` pixels of padding, half
    on either side, then put the centres where mean pooling puts them.
    """
    channels, size = x.shape[1], window.numel()
    pad = (size - stride) // 2
    window = window.to(x)
    x = F.pad(x, (pad, pad, pad, pad), mode="reflect")
    across = window.view(1, 1, 1, size).expand(channels, 1, 1, size)
    down = window.view(1, 1, size, 1).expand(channels, 1, size, 1)
    x = F.conv2d(x, across, stride=(1, stride), groups=channels)
    return F.conv2d(x, down, stride=(stride, 1), groups=channels)
