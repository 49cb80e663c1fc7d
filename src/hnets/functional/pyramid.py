"""Halving a picture and going back, about its own centre.

A pyramid whose levels all share the centre of the picture turns with it by 90 degrees exactly. A
level of even length has the means of pairs below it; one of odd length keeps every second pixel,
smoothed with [1 2 1]/4. Counted from the centre, a pixel of a level is at twice its coordinate in
the level above, whichever it is. So that all levels are of one kind, `pad_to_halve` makes a length
of 16k from an even one and of 16k + 1 from an odd one, with the same margin at either end.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional.sampling import mean_pool2d

__all__ = ["crop", "enlarge2d", "halve2d", "halve_max2d", "pad_to_halve"]


def pad_to_halve(x: Tensor, times: int) -> Tensor:
    """Repeat the border of ``(batch, channels, height, width)`` so that it can be halved.

    >>> pad_to_halve(torch.zeros(1, 1, 24, 321), 4).shape
    torch.Size([1, 1, 32, 321])
    """
    down, across = (-(side - side % 2) % 2**times // 2 for side in x.shape[2:])
    if not torch.compiler.is_compiling() and not down and not across:
        return x
    return F.pad(x, (across, across, down, down), mode="replicate")


def crop(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of ``(batch, channels, height, width)``: the inverse of `pad_to_halve`."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width]


def halve2d(x: Tensor) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one.

    >>> halve2d(torch.tensor([[[[0.0, 4.0, 8.0]]]]))
    tensor([[[[1., 7.]]]])
    """
    if torch.compiler.is_compiling():
        return _halve_any(_halve_any(x, 2), 3)
    odd_height, odd_width = x.shape[2] % 2, x.shape[3] % 2
    if odd_height or odd_width:
        x = F.pad(x, (odd_width, odd_width, odd_height, odd_height), mode="replicate")
        x = F.avg_pool2d(x, (1 + odd_height, 1 + odd_width), stride=1)
    return mean_pool2d(x, 2)


def _halve_any(x: Tensor, dim: int) -> Tensor:
    """The same along one dimension, for graphs that do not know whether it is odd."""
    length = x.shape[dim]
    half, odd = (length + 1) // 2, length % 2
    border = (0, 0, 1, 1) if dim == 2 else (1, 1, 0, 0)
    x = F.pad(x, border, mode="replicate")
    before, at, after = (
        x.index_select(dim, 2 * torch.arange(half, device=x.device) + k) for k in range(3)
    )
    return (odd * before + 2 * at + (2 - odd) * after) / 4


def halve_max2d(x: Tensor) -> Tensor:
    """Maxima in place of means, over the same pixels."""
    odd_height, odd_width = x.shape[2] % 2, x.shape[3] % 2
    return F.max_pool2d(x, (2 + odd_height, 2 + odd_width), 2, (odd_height, odd_width))


def enlarge2d(x: Tensor, height: int, width: int, times: int) -> Tensor:
    """Bilinear interpolation back to the size before ``times`` halvings.

    >>> enlarge2d(torch.tensor([[[[1.0, 7.0]]]]), 1, 3, 1)
    tensor([[[[1., 4., 7.]]]])
    """
    device = x.device.type
    if torch.is_autocast_enabled(device):  # 8 bits are too few for where a pixel is
        with torch.autocast(device, enabled=False):
            return enlarge2d(x.float(), height, width, times).to(x.dtype)
    down = _weights(height, x.shape[2], times, x)
    across = _weights(width, x.shape[3], times, x)
    return down @ x @ across.T


def _weights(fine: int, coarse: int, times: int, like: Tensor) -> Tensor:
    """What each coarse pixel gives to each fine one, ``(fine, coarse)``."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    at = torch.arange(fine, device=like.device, dtype=dtype) - (fine - 1) / 2
    at = (at / 2**times + (coarse - 1) / 2).clamp(0, coarse - 1)
    pixels = torch.arange(coarse, device=like.device, dtype=dtype)
    return (1 - (at[:, None] - pixels).abs()).clamp(min=0).to(like.dtype)
