"""How maps are cut into tiles: the launch of a kernel, and where the fields of a tile lie."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.streams import Streams

__all__ = ["TILE", "Plan", "memory_format", "of_field", "planned", "tile"]

TILE = 1024
"""Complex numbers, or pixels, that one program works on."""


def memory_format(x: Tensor) -> torch.memory_format:
    """The one in which a tensor lies without gaps; the usual one if both would do or neither."""
    last = not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


class Plan(NamedTuple):
    """What a kernel is launched with, besides its tensors."""

    grid: tuple[int, int]
    sizes: tuple[Any, ...]
    constants: dict[str, Any]


def planned(x: Tensor, streams: Streams, magnitude_eps: float, *others: Tensor) -> tuple[Any, ...]:
    """How to launch, and the tensors, brought to the memory format of the first if need be."""
    form = memory_format(x)
    tensors = (t.contiguous(memory_format=form) for t in (x, *others))
    last = form == torch.channels_last
    return _plan(x.shape, x.dtype, x.device, last, streams, magnitude_eps), *tensors


@lru_cache(maxsize=512)
def _plan(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    last: bool,
    streams: Streams,
    magnitude_eps: float,
) -> Plan:
    batch, channels, height, width = shape
    # A tile is long where memory is: over the pixels, or over fields in channels_last.
    fields = min(32, triton.next_power_of_2(streams.fields)) if last else 1
    positions = batch * height * width
    re: list[int] = []  # the channel of every field's real part,
    im: list[int] = []  # and of its imaginary part, or −1
    for stream, where in zip(streams, streams.slices, strict=True):
        re += range(where.start, where.start + stream.multiplicity)
        im += range(where.start + stream.multiplicity, where.stop)
        im += [-1] * (len(re) - len(im))
    return Plan(
        (triton.cdiv(positions, TILE // fields), triton.cdiv(streams.fields, fields)),
        (
            torch.tensor([re, im], dtype=torch.int32, device=device),
            positions,
            height * width,
            channels,
            streams.fields,
        ),
        {
            "LAST": last,
            "EPS": magnitude_eps,  # a constant: as an argument it would be rounded to float32
            "REAL": tl.float64 if dtype == torch.float64 else tl.float32,
            "BLOCK_F": fields,
            "BLOCK_N": TILE // fields,
        },
    )


@triton.jit
def tile(
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The fields of a tile, and where their real and imaginary parts lie and are there."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    re = tl.load(table + f, mask=f < fields, other=0)[:, None]
    im = tl.load(table + fields + f, mask=f < fields, other=-1)[:, None]
    image, pixel = (n // pixels).to(tl.int64)[None, :], (n % pixels)[None, :]
    start = image * channels * pixels + (pixel * channels if LAST else pixel)
    step = 1 if LAST else pixels
    inside = (n < positions)[None, :] & (f < fields)[:, None]
    return f, start + re * step, start + im * step, inside, inside & (im >= 0)


@triton.jit
def of_field(values, f, fields, REAL: tl.constexpr):
    """A value for each field of a tile, as its rows."""
    return tl.load(values + f, mask=f < fields, other=0).to(REAL)[:, None]
