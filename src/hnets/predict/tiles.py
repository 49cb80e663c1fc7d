"""A picture of any size in windows, so that memory stays bounded and nothing else changes.

The answer is made tile by tile, each from a window around it that is wide enough for what a network
sees. For the answer to be that of the whole picture, a window also has to lie on the grid of the
network's pyramid: the whole picture is thought of as padded to a length of ``16k`` or ``16k + 1``
(`hnets.functional.pad_to_halve`), and a window of it begins at a multiple of 16 and is as long as a
multiple of 16, plus 1 where the picture is odd. The same holds at another scale, from which the
answer is brought back. Both axes are treated alike, so most of this is about one of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import torch.nn.functional as tf
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets.models._hdsn import EdgeNetwork

__all__ = ["View", "answer", "reach", "tiles"]

AT_ONCE = 2**21
"""Pixels that a network sees at once."""


@dataclass(frozen=True)
class View:
    """What a network has to see."""

    margin: int
    """Pixels beyond those it answers for."""
    step: int
    """Pixels of its finest level for one of its coarsest: where windows may begin."""
    device: torch.device


def reach(network: EdgeNetwork) -> int:
    """How many pixels away from a pixel a network looks, at most.

    From the coarsest level down: convolutions reach half their kernels, in pixels of their level,
    and a pixel is made of up to three of the level below, the middle one and one on either side. On
    the way back a pixel is interpolated between two of the coarsest, less than one of its pixels
    away. For five stages of two 3×3 convolutions that is 2·(2·(2·(2·2 + 3) + 3) + 3) + 3 + 16 = 93.
    """
    found = 0
    for number, stage in enumerate(reversed(list(network.stages))):
        found = (2 * found + 1 if number else 0) + sum(
            part.kernel_size[0] // 2 for part in stage.modules() if isinstance(part, nn.Conv2d)
        )
    return found + 2 ** (len(network.stages) - 1)


def answer(
    network: Callable[[Tensor], Tensor],
    finish: Callable[[NDArray[np.float32]], NDArray[np.float32]],
    image: NDArray[Any],
    scales: Sequence[float],
    view: View,
) -> NDArray[np.float32]:
    """What a network says of a picture, as a mean over scales: ``(maps, height, width)``.

    Args:
        network: from ``(1, 3, h, w)`` to maps ``(1, n, h, w)``.
        finish: from means of its maps to those that are wanted, pixel by pixel.
        image: ``(height, width, 3)``, uint8, or float32 from 0 to 1.
        scales: of the picture, as the network sees it.
        view: what the network has to see.
    """
    height, width = image.shape[:2]
    found: NDArray[np.float32] | None = None
    for rows, columns in tiles(height, width, view.margin + view.step, max(1, *scales)):
        total = sum(_at_scale(network, image, rows, columns, scale, view) for scale in scales)
        assert isinstance(total, Tensor)
        part = finish((total / len(scales)).cpu().numpy())
        if found is None:  # how many maps are wanted is known now
            found = np.empty((len(part), height, width), np.float32)
        found[:, rows.start : rows.stop, columns.start : columns.stop] = part
    assert found is not None
    return found


def tiles(
    height: int, width: int, margin: int = 0, scale: float = 1.0
) -> Iterator[tuple[range, range]]:
    """Rows and columns of tiles: one, or as many as keep each with its margins in `AT_ONCE`."""
    if height * width * scale**2 <= AT_ONCE:
        yield range(height), range(width)
        return
    side = max(1, int((math.isqrt(AT_ONCE) - 2 * margin) / scale))
    for rows in _parts(height, side):
        for columns in _parts(width, side):
            yield rows, columns


def _parts(length: int, largest: int) -> list[range]:
    """A length in parts that are nearly equal."""
    count = -(-length // largest)
    ends = [length * k // count for k in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def _at_scale(
    network: Callable[[Tensor], Tensor],
    image: NDArray[Any],
    rows: range,
    columns: range,
    scale: float,
    view: View,
) -> Tensor:
    """The network's maps ``(n, rows, columns)`` of a picture that is shown at a scale."""
    down = _window(rows, image.shape[0], scale, view)
    across = _window(columns, image.shape[1], scale, view)
    part = image[down.read.start : down.read.stop, across.read.start : across.read.stop]
    x = torch.from_numpy(np.array(part)).to(view.device).permute(2, 0, 1)
    x = x.float() / 255 if part.dtype == np.uint8 else x
    x = _resampled(x, down.there, across.there)
    x = tf.pad(x[None], (across.before, across.after, down.before, down.after), mode="replicate")
    maps = network(x)[
        0,
        :,
        down.answered.start : down.answered.stop,
        across.answered.start : across.answered.stop,
    ]
    return _resampled(maps, down.back, across.back)


@dataclass(frozen=True)
class _Window:
    """What is read of a picture, shown and answered along one axis, for a tile of the answer."""

    read: range
    """Pixels of the picture."""
    there: Tensor | None
    """Their weights in those that are shown, ``(shown, read)``; None at scale 1."""
    before: int
    """How often the first pixel that is shown is repeated before it."""
    after: int
    answered: range
    """Which of the pixels that are shown are answered for."""
    back: Tensor | None
    """Their weights in the tile, ``(tile, answered)``; None at scale 1."""


def _window(tile: range, length: int, scale: float, view: View) -> _Window:
    size = max(1, round(scale * length))  # of the picture as it is shown
    ratio, same = size / length, size == length
    needed = tile if same else _around(tile, ratio, size)
    pad = -(size - size % 2) % view.step // 2
    start = max(0, (needed.start + pad - view.margin) // view.step * view.step)
    stop = -(-(needed.stop + pad + view.margin) // view.step) * view.step + size % 2
    start, stop = start - pad, min(stop, size + 2 * pad) - pad
    shown = range(max(0, start), min(size, stop))
    read = shown if same else _around(shown, 1 / ratio, length)
    return _Window(
        read,
        None if same else _weights(shown, read, 1 / ratio, view.device),
        shown.start - start,
        stop - shown.stop,
        range(needed.start - start, needed.stop - start),
        None if same else _weights(tile, needed, ratio, view.device),
    )


def _around(pixels: range, ratio: float, length: int) -> range:
    """What `_weights` weighs for some pixels, out of ``ratio`` times as many."""
    more = 1 + math.ceil(max(1, ratio))
    start, stop = math.floor(pixels.start * ratio) - more, math.ceil(pixels.stop * ratio) + more
    return range(max(0, start), min(length, stop))


def _weights(wanted: range, given: range, ratio: float, device: torch.device) -> Tensor:
    """Of linear interpolation, as wide as it takes against aliasing: ``(wanted, given)``."""
    at = (torch.tensor(wanted, dtype=torch.float64) + 0.5) * ratio - 0.5
    away = (at[:, None] - torch.tensor(given, dtype=torch.float64)).abs()
    weights = (1 - away / max(1, ratio)).clamp(min=0)
    return (weights / weights.sum(1, keepdim=True)).float().to(device)


def _resampled(maps: Tensor, down: Tensor | None, across: Tensor | None) -> Tensor:
    maps = maps if down is None else down @ maps
    return maps if across is None else maps @ across.T
