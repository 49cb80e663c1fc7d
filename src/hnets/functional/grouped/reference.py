"""Convolution of fields apart from each other, in plain torch."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def grouped_conv2d(
    x: Tensor,
    kernel: Tensor,
    groups: int,
    parts: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> Tensor:
    """Groups to the front, torch's grouped convolution, and groups back behind the parts."""
    y = F.conv2d(
        regrouped(x, 1, parts[0], groups),
        regrouped(kernel, 0, parts[1], groups),
        None,
        stride,
        padding,
        dilation,
        groups,
    )
    return regrouped(y, 1, groups, parts[1])


def regrouped(x: Tensor, dim: int, outer: int, inner: int) -> Tensor:
    """Channels ``(outer, inner, rest)`` of a dimension as ``(inner, outer, rest)``."""
    apart = x.unflatten(dim, (outer, inner, -1))
    return apart.transpose(dim, dim + 1).flatten(dim, dim + 2)
