"""Resampling: rotation of pixels, Gaussian blur with stride."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.streams import Streams

__all__ = ["blur_pool2d", "gaussian_window", "rotate", "rotate_pixels"]


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
