"""What the Triton forms share: quick launches, tiles of a map, batch norm from sums over blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.streams import Streams

TILE = 1024
"""Complex numbers, or pixels, that one program works on at a time."""
PROGRAMS = 528
"""Programs that take sums, each over its tiles in order: four per multiprocessor of an H200."""

_ready: dict[tuple[Any, ...], Callable[..., None]] = {}
_MOST_READY = 4096


def run(kernel: Any, grid: tuple[int, ...], tensors: Sequence[Tensor], *values: Any) -> None:
    """Launch a kernel with its arguments in order: tensors, numbers, constants.

    Triton looks for the compiled kernel in Python at every launch, by the types, values and
    alignment of the arguments. That takes longer than a small kernel runs, so from the second
    launch of a kind on it is looked up here.
    """
    device = tensors[0].get_device()  # −1 on the CPU, where kernels are interpreted
    if device >= 0 and device != torch.cuda.current_device():
        with torch.cuda.device(device):  # as torch does; Triton launches on the current device
            run(kernel, grid, tensors, *values)
        return
    pointers, bits = [], 0
    for tensor in tensors:
        pointers.append(pointer := tensor.data_ptr())
        bits |= pointer
    if bits % 16:  # for memory that is not aligned to 16 bytes Triton compiles another kernel
        kernel[grid](*tensors, *values)
        return
    types = [tensor.dtype for tensor in tensors]
    key = (id(kernel), grid, values, device, *types)
    if ready := _ready.get(key):
        ready(*pointers, *values)
        return
    compiled = kernel[grid](*tensors, *values)
    if compiled is not None:  # as it is in Triton's interpreter
        if len(_ready) == _MOST_READY:  # images of ever new sizes
            _ready.clear()
        _ready[key] = compiled[(*grid, 1, 1)[:3]]


def memory_format(x: Tensor) -> torch.memory_format:
    """The format in which a tensor is contiguous; torch's default if both are or neither."""
    last = not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


class Launch(NamedTuple):
    """What a kernel on a map is launched with, besides its tensors."""

    grid: tuple[int, int]
    table: Tensor
    """The channels of every field's real and imaginary part."""
    values: tuple[Any, ...]


def launch(x: Tensor, streams: Streams, magnitude_eps: float, *others: Tensor) -> tuple[Any, ...]:
    """The launch for a map, and the tensors in the memory format of the first."""
    form = memory_format(x)
    tensors = (t.contiguous(memory_format=form) for t in (x, *others))
    last = form == torch.channels_last
    return _launch(x.shape, x.dtype, x.device, last, streams, magnitude_eps), *tensors


@lru_cache(maxsize=512)
def _launch(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    last: bool,
    streams: Streams,
    magnitude_eps: float,
) -> Launch:
    batch, channels, height, width = shape
    # A tile is long in the direction of contiguous memory: pixels, or fields in channels_last.
    fields = min(32, triton.next_power_of_2(streams.fields)) if last else 1
    positions = batch * height * width
    re: list[int] = []  # the channel of every field's real part,
    im: list[int] = []  # and of its imaginary part, or −1
    for stream, where in zip(streams, streams.slices, strict=True):
        re += range(where.start, where.start + stream.multiplicity)
        im += range(where.start + stream.multiplicity, where.stop)
        im += [-1] * (len(re) - len(im))
    return Launch(
        (triton.cdiv(positions, TILE // fields), triton.cdiv(streams.fields, fields)),
        torch.tensor([re, im], dtype=torch.int32, device=device),
        (
            positions,
            height * width,
            channels,
            streams.fields,
            last,
            magnitude_eps,  # a constant: as an argument it would be rounded to float32
            tl.float64 if dtype == torch.float64 else tl.float32,
            fields,
            TILE // fields,
        ),
    )


@triton.jit
def tile(
    number, table, positions, pixels, channels, fields,
    LAST: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """The fields of a tile, where their real and imaginary parts lie, and which of them exist."""
    n = number * BLOCK_N + tl.arange(0, BLOCK_N)
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
    """One value per field of a tile, as its rows."""
    return tl.load(values + f, mask=f < fields, other=0).to(REAL)[:, None]


def fold(
    sums: Tensor,
    count: float,
    weight: Tensor,
    bias: Tensor,
    eps: float,
    running: tuple[Tensor, Tensor],
    momentum: float,
) -> tuple[Tensor, ...]:
    """`_batch_norm.fold` for the sums of one process."""
    blocks, _, fields = sums.shape
    outputs = tuple(torch.empty_like(weight) for _ in range(4))
    values = (blocks, fields, int(count), float(eps), float(momentum))
    run(_fold, (triton.cdiv(fields, 16),), (sums, weight, bias, *running, *outputs), *values)
    return outputs


def fold_backward(
    sums: Tensor, count: float, scale: Tensor, mean: Tensor, var: Tensor, eps: float
) -> tuple[Tensor, ...]:
    """`_batch_norm.fold_backward` for the sums of one process."""
    blocks, _, fields = sums.shape
    outputs = tuple(torch.empty_like(scale) for _ in range(4))
    values = (blocks, fields, int(count), float(eps))
    run(_fold_backward, (triton.cdiv(fields, 16),), (sums, scale, mean, var, *outputs), *values)
    return outputs


def add_up(sums: Tensor, like: Tensor) -> tuple[Tensor, Tensor]:
    """`_batch_norm.add_up` for the sums of one process."""
    blocks, _, fields = sums.shape
    first, second = torch.empty_like(like), torch.empty_like(like)
    run(_add_up, (triton.cdiv(fields, 16),), (sums, first, second), blocks, fields)
    return first, second


@triton.jit
def _totals(sums, blocks, fields):
    """The 16 fields of a program, and their two sums over all blocks."""
    f = tl.program_id(0) * 16 + tl.arange(0, 16)
    block = tl.arange(0, 128)[:, None]
    first, second = tl.zeros((16,), tl.float64), tl.zeros((16,), tl.float64)
    for start in range(0, blocks, 128):
        inside = (start + block < blocks) & (f < fields)[None, :]
        at = sums + (start + block) * 2 * fields + f[None, :]
        first += tl.sum(tl.load(at, mask=inside, other=0), 0)
        second += tl.sum(tl.load(at + fields, mask=inside, other=0), 0)
    return f, first, second


@triton.jit(do_not_specialize=["blocks", "fields"])
def _add_up(sums, to_first, to_second, blocks, fields):
    f, first, second = _totals(sums, blocks, fields)
    tl.store(to_first + f, first, mask=f < fields)
    tl.store(to_second + f, second, mask=f < fields)


@triton.jit(do_not_specialize=["blocks", "fields", "count"])
def _fold(
    sums, weight, bias, running_mean, running_var, to_mean, to_var, to_scale, to_shift,
    blocks, fields, count, eps, momentum,
):  # fmt: skip
    f, first, second = _totals(sums, blocks, fields)
    mean = first / count
    var = tl.maximum(second / count - mean * mean, 0)
    inside = f < fields
    scale = tl.load(weight + f, mask=inside, other=0) * tl.rsqrt(var + eps)
    shift = tl.load(bias + f, mask=inside, other=0) - scale * mean
    tl.store(to_mean + f, mean, mask=inside)
    tl.store(to_var + f, var, mask=inside)
    tl.store(to_scale + f, scale, mask=inside)
    tl.store(to_shift + f, shift, mask=inside)
    slow = tl.load(running_mean + f, mask=inside, other=0)
    tl.store(running_mean + f, slow + momentum * (mean - slow), mask=inside)
    slow = tl.load(running_var + f, mask=inside, other=0)
    unbiased = var * (count.to(tl.float64) / (count - 1))
    tl.store(running_var + f, slow + momentum * (unbiased - slow), mask=inside)


@triton.jit(do_not_specialize=["blocks", "fields", "count"])
def _fold_backward(
    sums, scale, mean, var, by_weight, by_bias, to_c1, to_c2, blocks, fields, count, eps
):  # fmt: skip
    f, first, second = _totals(sums, blocks, fields)
    inside = f < fields
    mu = tl.load(mean + f, mask=inside, other=0)
    spread = tl.load(var + f, mask=inside, other=0) + eps
    factor = tl.load(scale + f, mask=inside, other=0)
    centred = first - mu * second
    slope = factor * centred / spread / count
    tl.store(by_weight + f, centred * tl.rsqrt(spread.to(tl.float64)), mask=inside)
    tl.store(by_bias + f, second, mask=inside)
    tl.store(to_c1 + f, factor * second / count - mu * slope, mask=inside)
    tl.store(to_c2 + f, slope, mask=inside)
