"""From channels to fields and back: the only place that knows how parts lie in channels.

By slices of channels, not by views with a dimension for each part: where height and width are free,
the compiler cannot follow those.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hnets.streams import Streams

__all__ = ["per_field", "squared", "to_channels"]


def squared(x: Tensor, streams: Streams) -> Tensor:
    """|z|² of every field: ``(batch, channels, ...)`` to ``(batch, fields, ...)``.

    In at least float32: half precision would overflow, and lose what is added to avoid zero.
    """
    wide = x.float() if x.dtype.itemsize < 4 else x
    power = wide * wide
    fields = []
    for stream, where in zip(streams, streams.slices, strict=True):
        middle = where.start + stream.multiplicity
        re, im = power[:, where.start : middle], power[:, middle : where.stop]
        fields.append(re if stream.real else re + im)
    return _join(fields)


def to_channels(values: Tensor, streams: Streams) -> Tensor:
    """Give every part its field's value: ``(batch, fields, ...)`` to ``(batch, channels, ...)``."""
    channels, start = [], 0
    for stream in streams:
        channels += [values[:, start : start + stream.multiplicity]] * stream.parts
        start += stream.multiplicity
    return _join(channels)


def per_field(values: Tensor, x: Tensor) -> Tensor:
    """Shape values, one a field, to broadcast against ``(batch, fields, ...)``."""
    return values.reshape(-1, *[1] * (x.dim() - 2))


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
