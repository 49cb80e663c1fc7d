"""Halving in plain torch without asking which sides are odd: one graph serves images of any size.

The pairs of an odd side are laid from either end, and the two results joined; those of an even side
are the same from both ends.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def halve(x: Tensor) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one."""
    return _halve(x, F.avg_pool2d, lambda a, b: (a + b) / 2)


def halve_max(x: Tensor) -> Tensor:
    """Maxima in place of means, over the same pixels."""
    return _halve(x, F.max_pool2d, torch.maximum)


def _halve(
    x: Tensor,
    pool: Callable[[Tensor, tuple[int, int]], Tensor],
    join: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    down, across = (_odd(side) for side in x.shape[2:])
    for pair, ends in (
        ((2, 1), ((0, 0, down, 0), (0, 0, 0, down))),
        ((1, 2), ((across, 0, 0, 0), (0, across, 0, 0))),
    ):
        x = join(*(pool(F.pad(x, end, mode="replicate"), pair) for end in ends))
    return x


def _odd(side: int) -> int:
    """``side % 2`` in a form that cancels for the symbolic sides of exported graphs."""
    return side - side // 2 * 2
