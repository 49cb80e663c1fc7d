"""Convolution in groups of fields: it mixes orders, but no fields of different groups.

The channels of a map are part after part (the real, then the imaginary parts of each stream), and
within a part the fields, group after group: channel = part · fields + field.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hnets.functional._autograd import Depthwise
from hnets.functional._dispatch import autocast_rounds, backend, has_triton, needs_reference
from hnets.functional.grouped import reference
from hnets.functional.grouped.reference import Pair
from hnets.streams import Streams


def grouped_conv2d(
    x: Tensor,
    kernel: Tensor,
    groups: int,
    parts: Pair,
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """Join the j-th share of the fields of every input part with that of every output part.

    ``x`` is ``(batch, input parts · fields, height, width)`` and ``kernel`` ``(output parts ·
    fields, input parts · fields / groups, k, k)``, both part after part; ``parts`` are the numbers
    of input and output parts.
    """
    geometry = (stride, padding, dilation)
    if x.is_cpu and autocast_rounds(x) and not (has_triton(x) or needs_reference(x)):
        # Unlike a dense convolution, one in groups is slower in bfloat16 there.
        with torch.autocast("cpu", enabled=False):
            y = grouped_conv2d(x.float(), kernel.float(), groups, parts, *geometry)
        return y.to(torch.get_autocast_dtype("cpu"))
    if _is_fast(x, kernel, groups, parts, *geometry):
        if autocast_rounds(x):  # and the kernel where it is read
            x = x.to(torch.get_autocast_dtype(x.device.type))
        if torch.is_grad_enabled() and (x.requires_grad or kernel.requires_grad):
            return Depthwise.apply(x, kernel, padding[0], _depthwise)
        return backend("grouped", x).forward(x, kernel, padding[0])
    return reference.grouped_conv2d(x, kernel, groups, parts, *geometry)


def _is_fast(x: Tensor, kernel: Tensor, groups: int, parts: Pair, *geometry: Pair) -> bool:
    """Whether a fast form takes these arguments: depthwise, dense, with the same margin around."""
    margin, size = geometry[1][0], kernel.shape[3]
    return (
        (len(kernel), kernel.shape[1]) == (parts[1] * groups, parts[0])
        and geometry == ((1, 1), (margin, margin), (1, 1))
        and margin < size <= min(x.shape[2:]) + 2 * margin
        and max(parts) * groups * x.shape[2] * x.shape[3] < 2**31
        and not needs_reference(x)
        and _has_type(x, kernel)
        and backend("grouped", x).pays(groups, parts, size)
    )


def _has_type(x: Tensor, kernel: Tensor) -> bool:
    """Whether a fast form takes these types of numbers."""
    if not has_triton(x):
        return x.dtype == kernel.dtype == torch.float32
    autocast = torch.is_autocast_enabled(x.device.type)
    known = {torch.float32, torch.float16, torch.bfloat16}
    return (autocast or x.dtype == kernel.dtype) and {x.dtype, kernel.dtype} <= known


def _depthwise(x: Tensor, kernel: Tensor, padding: int) -> Tensor:
    kernel = kernel.to(x.dtype)
    fields = x.shape[1] // kernel.shape[1]
    parts = (kernel.shape[1], len(kernel) // fields)
    return reference.grouped_conv2d(x, kernel, fields, parts, (1, 1), (padding, padding), (1, 1))


def stream_conv2d(
    x: Tensor,
    kernel: Tensor,
    groups: int,
    streams: tuple[Streams, Streams],
    stride: Pair = (1, 1),
    padding: Pair = (0, 0),
    dilation: Pair = (1, 1),
) -> Tensor:
    """`grouped_conv2d` between streams of any multiplicities that ``groups`` divides."""
    into, out = streams
    geometry = (stride, padding, dilation)
    if len({stream.multiplicity for stream in into}) == 1 == len({s.multiplicity for s in out}):
        parts = (into.channels // into[0].multiplicity, out.channels // out[0].multiplicity)
        return grouped_conv2d(x, kernel, groups, parts, *geometry)
    # The k-th field of every share of a part becomes a part of its own, with a field per group.
    parts = (into.channels // groups, out.channels // groups)
    x, kernel = _swap(x, 1, _shares(into, groups)), _swap(kernel, 0, _shares(out, groups))
    y = grouped_conv2d(x, kernel, groups, parts, *geometry)
    return _swap(y, 1, [(inner, outer) for outer, inner in _shares(out, groups)])


def _shares(streams: Streams, groups: int) -> list[tuple[int, int]]:
    """For each part of each stream the number of groups and of fields in one."""
    return [(groups, s.multiplicity // groups) for s in streams for _ in range(s.parts)]


def _swap(x: Tensor, dim: int, sizes: list[tuple[int, int]]) -> Tensor:
    """A dimension that holds matrices of these sizes, each of them transposed."""
    pieces = zip(x.split([a * b for a, b in sizes], dim), sizes, strict=True)
    swapped = [p.unflatten(dim, size).transpose(dim, dim + 1) for p, size in pieces]
    return torch.cat([piece.flatten(dim, dim + 1) for piece in swapped], dim)
