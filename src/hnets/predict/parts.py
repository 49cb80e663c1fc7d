"""The connected parts of what is drawn, without specks and without what only looks in."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import max_pool2d

__all__ = ["main_parts"]

_GRID = 128
"""Blocks along the longer side: parts nearer than one of them are one part."""


def main_parts(drawn: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where the largest connected part is, and others a tenth as large; specks are left out.

    A part that touches the edge of the picture belongs to something else, unless the largest does.
    """
    block = -(-max(drawn.shape) // _GRID)
    margins = [(0, -n % block) for n in drawn.shape]
    padded = np.pad(drawn, margins)
    rows, columns = (n // block for n in padded.shape)
    amount = padded.reshape(rows, block, columns, block).sum((1, 3))
    labels = _labels(amount > 0)
    size = np.bincount(labels.ravel(), amount.ravel())
    size[0] = 0
    keep = size >= 0.1 * size.max()
    edge = np.zeros(len(size), dtype=bool)
    edge[np.concatenate([labels[[0, -1]].ravel(), labels[:, [0, -1]].ravel()])] = True
    if not edge[size.argmax()]:
        keep &= ~edge
    keep[0] = False
    kept = torch.from_numpy(keep[labels].astype(np.float32))[None, None]
    grown = max_pool2d(kept, 3, 1, 1)[0, 0].numpy() > 0  # the soft edges of strokes too
    whole = grown.repeat(block, 0).repeat(block, 1)
    return whole[: drawn.shape[0], : drawn.shape[1]]


def _labels(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A number for each connected part, counting diagonal neighbours; 0 outside."""
    inside = torch.from_numpy(mask.astype(np.float32))[None, None]
    labels = inside * torch.arange(1, mask.size + 1).view_as(inside)  # each pixel its own number
    while True:
        spread = max_pool2d(labels, 3, 1, 1) * inside
        if torch.equal(spread, labels):
            break
        # A number is that of a pixel, which may have found a higher one by now.
        labels = spread.flatten()[(spread.long() - 1).clamp(0)] * inside
    _, numbers = np.unique(np.append(labels.numpy().ravel(), 0), return_inverse=True)
    return numbers[:-1].reshape(mask.shape)
