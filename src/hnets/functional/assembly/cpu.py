"""Convolution on CPU in bands of rows, whose values stay in cache.

Torch copies the input and the output of a convolution to another order in memory and back. Of a
large map these copies are more than the map, and slower to write than a band that is reused.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

_SHARE = 1 << 20
"""Values per thread, of the input and the output, in a band."""


def is_large(x: Tensor, kernel: Tensor) -> bool:
    """Whether a map of ``(batch, channels, height, width)`` is worth more than one band."""
    values = x.numel() + x.numel() // x.shape[1] * len(kernel)
    return values > 2 * _SHARE * torch.get_num_threads() and x.stride(3) == 1


def in_bands(
    convolve: Callable[[Tensor, tuple[int, int]], Tensor],
    x: Tensor,
    size: int,
    padding: tuple[int, int],
    values: int,
) -> Tensor:
    """A convolution of stride 1, given as a function of maps and their padding.

    ``size`` is the height of the kernel with its dilation, and ``values`` how many a pixel has in
    the input and the output.
    """
    height, above = x.shape[2], padding[0]
    rows = height + 2 * above - size + 1
    step = max(1, _SHARE * torch.get_num_threads() // (len(x) * x.shape[3] * values))
    y: Tensor | None = None
    for start in range(0, rows, step):
        top, bottom = start - above, min(start + step, rows) - above + size - 1
        band = x[:, :, max(0, top) : bottom]
        if top < 0 or bottom > height:
            band = F.pad(band, (0, 0, max(0, -top), max(0, bottom - height)))
        part = convolve(band, (0, padding[1]))
        if y is None:
            y = part.new_empty(*part.shape[:2], rows, part.shape[3])
        y[:, :, start : start + step] = part
    assert y is not None
    return y
