"""From channels to fields and back: the only place that knows how parts lie in channels.

By splitting channels, not by views with a dimension for each part: where height and width are free,
the compiler cannot follow those.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch import Tensor

from hnets.streams import Streams

__all__ = ["per_field", "squared", "to_channels"]


def squared(x: Tensor, streams: Streams) -> Tensor:
    """|z|² of every field: ``(batch, channels, ...)`` to ``(batch, fields, ...)``.

    In at least float32: half precision would overflow, and lose what is added to avoid zero.
    """
    wide = x.float() if x.dtype.itemsize < 4 else x
    parts = iter(_split(wide, [s.multiplicity for s in streams for _ in range(s.parts)]))
    fields = []
    for stream in streams:
        re = next(parts)
        power = re * re
        if not stream.real:
            im = next(parts)
            power = power + im * im
        fields.append(power)
    return _join(fields)


def to_channels(values: Tensor, streams: Streams) -> Tensor:
    """Give every part its field's value: ``(batch, fields, ...)`` to ``(batch, channels, ...)``."""
    blocks = _split(values, [stream.multiplicity for stream in streams])
    return _join([b for b, s in zip(blocks, streams, strict=True) for _ in range(s.parts)])


def per_field(values: Tensor, x: Tensor) -> Tensor:
    """Shape values, one a field, to broadcast against ``(batch, fields, ...)``."""
    return values.reshape(-1, *[1] * (x.dim() - 2))


def _split(x: Tensor, sizes: list[int]) -> Sequence[Tensor]:
    if not torch.compiler.is_compiling():
        return x.split(sizes, dim=1)
    # Slower in eager mode, where every slice has a full-size gradient. The compiler fuses them, but
    # cannot follow the gradient of a split where height and width are free.
    ends = accumulate(sizes)
    return [x.narrow(1, end - size, size) for size, end in zip(sizes, ends, strict=True)]


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
