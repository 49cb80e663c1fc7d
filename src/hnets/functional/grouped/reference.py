"""Convolution of fields apart from each other, in plain torch."""

from __future__ import annotations

from typing import TypeAlias

import torch.nn.functional as F
from torch import Tensor

Pair: TypeAlias = tuple[int, int]


def grouped_conv2d(x: Tensor, kernel: Tensor, groups: int, parts: Pair, *geometry: Pair) -> Tensor:
    """Groups to the front, torch's grouped convolution, and groups back behind the parts.

    The geometry is stride, padding and dilation.
    """
    x, kernel = regrouped(x, 1, parts[0], groups), regrouped(kernel, 0, parts[1], groups)
    stride, padding, dilation = geometry
    y = F.conv2d(x, kernel, None, stride, padding, dilation, groups)
    return regrouped(y, 1, groups, parts[1])


def regrouped(x: Tensor, dim: int, outer: int, inner: int) -> Tensor:
    """Channels ``(outer, inner, rest)`` of a dimension as ``(inner, outer, rest)``."""
    apart = x.unflatten(dim, (outer, inner, -1))
    return apart.transpose(dim, dim + 1).flatten(dim, dim + 2)
