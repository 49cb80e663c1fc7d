"""Views of a plain tensor by streams: the only place that knows how parts lie in channels."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate

import torch
from torch import Tensor

from hnets.streams import Run, Streams

__all__ = ["fields_of_runs", "join", "per_field", "views"]


def views(x: Tensor, streams: Streams) -> Iterator[tuple[Run, Tensor]]:
    """Each run of the layout with its view ``(batch, streams, parts, multiplicity, ...)``."""
    start = 0
    for run in streams.runs:
        part = x if len(streams.runs) == 1 else x.narrow(1, start, run.channels)
        yield run, part.unflatten(1, (run.streams, run.parts, run.multiplicity))
        start += run.channels


def fields_of_runs(values: Tensor, streams: Streams, dim: int = -1) -> tuple[Tensor, ...]:
    """Split values that stand one a field, along ``dim``, by the runs of the layout."""
    if len(streams.runs) == 1:
        return (values,)
    ends = accumulate(run.fields for run in streams.runs)
    # One view a run: `split` would be a sequence in an ONNX graph.
    return tuple(
        values.narrow(dim, end - run.fields, run.fields)
        for run, end in zip(streams.runs, ends, strict=True)
    )


def per_field(values: Tensor, run: Run, x: Tensor) -> Tensor:
    """Shape a run's values, one a field, to broadcast against ``(batch, streams, mult, ...)``."""
    return values.reshape(run.streams, run.multiplicity, *[1] * (x.dim() - 2))


def join(parts: list[Tensor]) -> Tensor:
    """Put the channels of all runs back together."""
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
