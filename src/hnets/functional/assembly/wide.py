"""Convolutions on CUDA, in training with as many channels as its fastest kernels want.

The kernels that cuDNN has for Hopper GPUs in half precision take about half the time where the
numbers of channels are multiples of 64. Channels of zeros cost less than that.
"""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._autograd import Grow, Shrink

_FEWEST, _MOST = 48, 256
"""Numbers of channels that grow; cuDNN has no such kernels for 320, and 384 are as slow as 288."""
_LARGE = 10**10
"""Multiplications from which a convolution is worth the copies."""


def conv2d(
    x: Tensor,
    kernel: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> Tensor:
    """Torch's function, in training of large maps with channels added and taken away again."""
    out, into = kernel.shape[:2]
    more_in, more_out = grown_channels(x, kernel)
    if (more_in, more_out) == (into, out):
        return F.conv2d(x, kernel, None, stride, padding, dilation)
    if more_in > into:
        x = Grow.apply(x, more_in)
    kernel = F.pad(kernel, (0, 0, 0, 0, 0, more_in - into, 0, more_out - out))
    y = F.conv2d(x, kernel, None, stride, padding, dilation)
    return Shrink.apply(y, out) if more_out > out else y


def grown_channels(x: Tensor, kernel: Tensor) -> tuple[int, int]:
    """How many input and output channels train fastest: those there are, or more."""
    out, into = kernel.shape[:2]
    products = x.shape[0] * x.shape[2] * x.shape[3] * kernel.numel()
    if (
        products < _LARGE
        or not _FEWEST <= out <= _MOST
        or into > _MOST
        or not torch.is_grad_enabled()
        or not (x.dtype.itemsize == 2 or torch.is_autocast_enabled("cuda"))
        or not _is_hopper(x.device)
    ):
        return into, out
    # Few input channels, those of an image, stay: growing them would multiply the work.
    return into if into < _FEWEST else -(-into // 64) * 64, -(-out // 64) * 64


@cache
def _is_hopper(device: torch.device) -> bool:
    return torch.cuda.get_device_capability(device)[0] == 9
