"""An image of any size in tiles, so that memory stays bounded and nothing else changes.

The output is computed tile by tile, each from a window around it that is wide enough for the
network's receptive field. For the output to be that of the whole image, a window also has to lie on
the grid of the network's pyramid: the whole image counts as padded to a length of ``16k`` or
``16k + 1`` (`hnets.models.EdgeNetwork.pad`), and a window of it begins at a multiple of 16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hnets.functional.pyramid import margin_to_halve, pad_mirrored

AT_ONCE = 2**21
"""Pixels that a network is given at once."""


class View(NamedTuple):
    """What a network needs to see for its output at a tile."""

    margin: int  # pixels beyond the tile
    inner: int  # those of them that its decoder needs
    halvings: int  # how often it halves the resolution
    device: torch.device

    @property
    def step(self) -> int:
        """Pixels of its finest level per pixel of its coarsest: where windows may begin."""
        return int(2**self.halvings)


Cut: TypeAlias = tuple[int, int, int, int]
"""Pixels of a window that no output is wanted of: at the left, right, top and bottom."""


def predict_tiled(
    network: Callable[[Tensor, Cut], Tensor],
    finish: Callable[[Tensor], Tensor],
    images: NDArray[Any],
    scales: Sequence[float],
    view: View,
) -> NDArray[np.float32]:
    """The network's output for images of one size, as a mean over scales.

    The network takes ``(n, 3, h, w)`` to maps ``(n, maps, ...)`` of what a `Cut` leaves of it, and
    ``finish`` the means ``(maps, n, h, w)`` to those that are wanted, pixel by pixel. The images
    ``(n, height, width, 3)`` are as `rgb` gives them, and the output is ``(maps, n, height,
    width)``. `at_once` says how many images are no more than a tile.
    """
    count, height, width = images.shape[:3]
    output: NDArray[np.float32] | None = None
    for rows, columns in split(height, width, view.margin, max(1, *scales), view.step):
        outputs = (_at_scale(network, images, rows, columns, scale, view) for scale in scales)
        total = sum(outputs, start=torch.zeros((), device=view.device))
        part: NDArray[np.float32] = finish((total / len(scales)).transpose(0, 1)).cpu().numpy()
        if part.shape[2:] == (height, width):
            return part
        if output is None:  # the number of maps is known now
            output = np.empty((len(part), count, height, width), np.float32)
        output[..., rows.start : rows.stop, columns.start : columns.stop] = part
    assert output is not None
    return output


def at_once(height: int, width: int, scales: Sequence[float], device: torch.device) -> int:
    """How many images of a size to give a network together: several where a GPU computes.

    >>> [at_once(321, 481, [1.0], torch.device(kind)) for kind in ("cuda", "cpu")]
    [13, 1]
    """
    if device.type == "cpu":  # its cores share the work on one image, which stays in their caches
        return 1
    return max(1, int(AT_ONCE / (height * width * max(1, *scales) ** 2)))


def split(
    height: int, width: int, margin: int = 0, scale: float = 1.0, step: int = 0
) -> Iterator[tuple[range, range]]:
    """Rows and columns of tiles: one, or those that share the least and fit in `AT_ONCE`.

    A tile has a margin where it has a neighbour, and is up to ``step`` pixels longer at either end.
    """
    if height * width * scale**2 <= AT_ONCE:
        yield range(height), range(width)
        return

    def longest(length: int, count: int) -> float:
        return -(-length // count) * scale + min(2, count - 1) * margin + 2 * step

    def total(length: int, count: int) -> float:
        return length * scale + (count - 1) * 2 * margin

    grids = list[tuple[float, int, int]]()
    columns = 1
    for rows in range(height, 0, -1):  # with fewer rows there are no fewer columns
        while columns <= width and longest(height, rows) * longest(width, columns) > AT_ONCE:
            columns += 1
        if columns <= width:
            grids.append((total(height, rows) * total(width, columns), rows, columns))
    _, *counts = min(grids, default=(0.0, height, width))
    yield from product(_parts(height, counts[0]), _parts(width, counts[1]))


def _parts(length: int, count: int) -> list[range]:
    """A length in parts that are nearly equal."""
    ends = [length * k // count for k in range(count + 1)]
    return [range(a, b) for a, b in pairwise(ends)]


def _at_scale(
    network: Callable[[Tensor, Cut], Tensor],
    images: NDArray[Any],
    rows: range,
    columns: range,
    scale: float,
    view: View,
) -> Tensor:
    """The network's maps ``(n, maps, rows, columns)`` of a tile of images at a scale."""
    down = _window(rows, images.shape[1], scale, view)
    across = _window(columns, images.shape[2], scale, view)
    part = images[:, down.read.start : down.read.stop, across.read.start : across.read.stop]
    # A stack of images is a copy of them already; a single one is the caller's own array.
    part = np.array(part, order="C") if len(part) == 1 else np.ascontiguousarray(part)
    x = torch.from_numpy(part).to(view.device).permute(0, 3, 1, 2)
    x = x.float() / 255 if part.dtype == np.uint8 else x
    x = _resampled(x, down.resize, across.resize)
    x = pad_mirrored(x, (*across.pad, *down.pad), view.halvings)
    maps = network(x, (*across.cut, *down.cut))[:, :, down.output, across.output]
    return _resampled(maps, down.back, across.back)


class _Window(NamedTuple):
    """What is read, resized, padded and computed along one axis, for one tile of the output."""

    read: range  # pixels of the image
    resize: Tensor | None  # their weights in the resized pixels, (resized, read); None at scale 1
    pad: tuple[int, int]  # how many pixels are mirrored at either end
    cut: tuple[int, int]  # how many of the padded pixels the network may leave out at either end
    output: slice  # which of the others the tile needs
    back: Tensor | None  # their weights in the tile, (tile, output); None at scale 1


def _window(tile: range, length: int, scale: float, view: View) -> _Window:
    size = max(1, round(scale * length))  # of the resized image
    ratio, same = size / length, size == length
    needed = tile if same else _around(tile, ratio, size)
    pad = margin_to_halve(size, view.halvings)
    start, stop = _on_grid(needed, view.margin, size, pad, view.step)
    first, last = _on_grid(needed, view.inner, size, pad, view.step)
    inside = range(max(0, start), min(size, stop))
    read = inside if same else _around(inside, 1 / ratio, length)
    return _Window(
        read,
        None if same else _weights(inside, read, 1 / ratio, view.device),
        (inside.start - start, stop - inside.stop),
        (first - start, stop - last),
        slice(needed.start - first, needed.stop - first),
        None if same else _weights(tile, needed, ratio, view.device),
    )


def _on_grid(pixels: range, margin: int, size: int, pad: int, step: int) -> tuple[int, int]:
    """The ends of some pixels and a margin, on the grid that a padded image is halved on."""
    start = max(0, (pixels.start + pad - margin) // step * step)
    stop = -(-(pixels.stop + pad + margin) // step) * step + size % 2
    return start - pad, min(stop, size + 2 * pad) - pad


def _around(pixels: range, ratio: float, length: int) -> range:
    """The pixels that `_weights` weighs for some pixels, out of ``ratio`` times as many."""
    more = 1 + math.ceil(max(1, ratio))
    start, stop = math.floor(pixels.start * ratio) - more, math.ceil(pixels.stop * ratio) + more
    return range(max(0, start), min(length, stop))


def _weights(pixels: range, source: range, ratio: float, device: torch.device) -> Tensor:
    """Of linear interpolation, wide enough against aliasing: ``(pixels, source)``."""
    at = (torch.tensor(pixels, dtype=torch.float64) + 0.5) * ratio - 0.5
    away = (at[:, None] - torch.tensor(source, dtype=torch.float64)).abs()
    weights = (1 - away / max(1, ratio)).clamp(min=0)
    return (weights / weights.sum(1, keepdim=True)).float().to(device)


def _resampled(maps: Tensor, down: Tensor | None, across: Tensor | None) -> Tensor:
    maps = maps if down is None else down @ maps
    return maps if across is None else maps @ across.T
