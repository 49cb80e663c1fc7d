"""Functions of magnitudes in plain torch, and the layout of fields in channels.

Channels are split, not viewed with a dimension per part: with dynamic height and width the
compiler cannot follow such views.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._batch_norm import fold_batch_norm, moments
from hnets.functional._dispatch import tracing
from hnets.streams import Streams


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| per field, with a gradient of zero where z is zero."""
    power = squared(x, streams)
    zero = power == 0
    return power.masked_fill(zero, 1).sqrt().masked_fill(zero, 0).to(x.dtype)


def magnitude_relu(
    x: Tensor, scale: Tensor | None, shift: Tensor, streams: Streams, magnitude_eps: float
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, one scale (or None for 1) and one shift per field."""
    scale = torch.ones_like(shift) if scale is None else scale
    inverse = (squared(x, streams) + magnitude_eps).rsqrt()
    around = [1] * (x.dim() - 2)
    factor = F.relu(scale.reshape(-1, *around) + shift.reshape(-1, *around) * inverse)
    return (x * to_channels(factor, streams)).to(x.dtype)


def batch_magnitude_relu(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    streams: Streams,
    magnitude_eps: float,
    eps: float,
    group: torch.distributed.ProcessGroup | None,
) -> tuple[Tensor, Tensor, Tensor, float | Tensor]:
    """The same with scale and shift from batch statistics; also mean, variance and their count."""
    lengths = (squared(x, streams) + magnitude_eps).sqrt()
    dims, count = [0, *range(2, x.dim())], x.numel() // x.shape[1]
    total: float | Tensor = count
    if group is None:
        var, mean = torch.var_mean(lengths, dims, correction=0)
    else:
        wide = lengths.double()
        mean, var, total = moments(wide.sum(dims), wide.square().sum(dims), count, group)
        mean, var = mean.to(weight.dtype), var.to(weight.dtype)
    scale, shift = fold_batch_norm(mean, var, weight, bias, eps)
    return magnitude_relu(x, scale, shift, streams, magnitude_eps), mean, var, total


def squared(x: Tensor, streams: Streams) -> Tensor:
    """|z|² per field: ``(batch, channels, ...)`` to ``(batch, fields, ...)``.

    In at least float32: half precision would overflow, and lose the epsilon that is added to it.
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


def _split(x: Tensor, sizes: list[int]) -> Sequence[Tensor]:
    if not tracing():
        return x.split(sizes, dim=1)
    # Slower in eager mode, where every slice has a full-size gradient. The compiler fuses them, but
    # cannot follow the gradient of a split where height and width are dynamic.
    ends = accumulate(sizes)
    return [x.narrow(1, end - size, size) for size, end in zip(sizes, ends, strict=True)]


def _join(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
