"""The fused magnitude functions and the assembly of kernels on CUDA: one Triton kernel each.

The functions have the names and results of those in `_cpu`. Sums are taken block by block and then
added by torch, in a fixed order, so that the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.streams import Streams

__all__ = [
    "assemble",
    "assemble_backward",
    "backward",
    "backward_batch",
    "backward_sums",
    "fold",
    "forward",
    "halve",
    "magnitude",
    "magnitude_backward",
    "memory_format",
    "moments",
    "spread",
    "unfold",
]

_TILE = 1024


def forward(
    x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float, inplace: bool = False
) -> Tensor:
    """``x · relu(scale + shift/|x|)``."""
    plan, x = _plan(x, streams, eps)
    y = x if inplace else torch.empty_like(x)
    _forward[plan.grid](x, y, scale, shift, *plan.sizes, **plan.constants)
    return y


def moments(x: Tensor, streams: Streams, eps: float) -> Tensor:
    """Σ|x| and Σ|x|² of every field, ``(blocks, 2, fields)`` in float64."""
    plan, x = _plan(x, streams, eps)
    partial = x.new_empty(plan.grid[0], 2, streams.fields, dtype=torch.float64)
    _moments[plan.grid](x, partial, *plan.sizes, **plan.constants)
    return partial


def fold(
    sums: Tensor, count: float, weight: Tensor, bias: Tensor, norm_eps: float
) -> tuple[Tensor, ...]:
    """Mean and variance from the sums of `moments`, and the scale and shift they fold into."""
    blocks, _, fields = sums.shape
    out = weight.new_empty(4, fields)
    _fold[(triton.cdiv(fields, 16),)](sums, weight, bias, out, blocks, fields, int(count), norm_eps)
    return out.unbind()


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float
) -> tuple[Tensor, None]:
    """∂scale and ∂shift, ``(blocks, 2, fields)`` in float64; nothing is kept for later."""
    plan, x, grad = _plan(x, streams, eps, grad)
    partial = x.new_empty(plan.grid[0], 2, streams.fields, dtype=torch.float64)
    _backward[plan.grid](
        *(x, grad, x, scale, shift, scale, shift, partial, *plan.sizes),
        **(plan.constants | {"SUMS": True, "INPUT": False, "EXTRA": False}),
    )
    return partial, None


def unfold(
    sums: Tensor, count: float, scale: Tensor, mean: Tensor, var: Tensor, norm_eps: float
) -> tuple[Tensor, ...]:
    """From the sums of `backward_sums`: ∂weight and ∂bias of batch norm, and its c₁ and c₂."""
    blocks, _, fields = sums.shape
    out = scale.new_empty(4, fields)
    grid = (triton.cdiv(fields, 16),)
    _unfold[grid](sums, scale, mean, var, out, blocks, fields, int(count), norm_eps)
    return out.unbind()


def backward(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float
) -> tuple[Tensor, Tensor]:
    """∂x, and ∂scale and ∂shift as `backward_sums` gives them."""
    plan, x, grad = _plan(x, streams, eps, grad)
    grad_x = torch.empty_like(x)
    partial = x.new_empty(plan.grid[0], 2, streams.fields, dtype=torch.float64)
    _backward[plan.grid](
        *(x, grad, grad_x, scale, shift, scale, shift, partial, *plan.sizes),
        **(plan.constants | {"SUMS": True, "INPUT": True, "EXTRA": False}),
    )
    return grad_x, partial


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    streams: Streams,
    eps: float,
    extra: Sequence[Tensor],
    kept: None,
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``."""
    plan, x, grad = _plan(x, streams, eps, grad)
    grad_x = torch.empty_like(x)
    _backward[plan.grid](
        *(x, grad, grad_x, scale, shift, *extra, scale, *plan.sizes),
        **(plan.constants | {"SUMS": False, "INPUT": True, "EXTRA": True}),
    )
    return grad_x


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| of every field."""
    plan, x = _plan(x, streams, 0.0)
    form = memory_format(x)
    y = x.new_empty(x.shape[0], streams.fields, *x.shape[2:]).contiguous(memory_format=form)
    _magnitude[plan.grid](x, y, *plan.sizes, **plan.constants)
    return y


def magnitude_backward(grad: Tensor, x: Tensor, streams: Streams) -> Tensor:
    """∂x of `magnitude`: the gradient along z/|z|, and 0 where z is 0."""
    plan, x = _plan(x, streams, 0.0)
    grad_x = torch.empty_like(x)
    grad = grad.contiguous(memory_format=memory_format(x))
    _magnitude_backward[plan.grid](x, grad, grad_x, *plan.sizes, **plan.constants)
    return grad_x


def halve(x: Tensor) -> Tensor:
    """`hnets.functional.halve2d`."""
    x = x.contiguous()
    height, width = x.shape[2:]
    y = x.new_empty(*x.shape[:2], (height + 1) // 2, (width + 1) // 2)
    real = tl.float64 if x.dtype == torch.float64 else tl.float32
    _halve[(triton.cdiv(y.numel(), _TILE),)](
        x, y, y.numel(), height, width, *y.shape[2:], REAL=real, BLOCK=_TILE
    )
    return y


def spread(grad: Tensor, shape: torch.Size) -> Tensor:
    """The transpose of `halve`: its gradient, for an input of ``shape``."""
    grad = grad.contiguous()
    grad_x = grad.new_empty(shape)
    real = tl.float64 if grad.dtype == torch.float64 else tl.float32
    _spread[(triton.cdiv(grad_x.numel(), _TILE),)](
        grad, grad_x, grad_x.numel(), *shape[2:], *grad.shape[2:], REAL=real, BLOCK=_TILE
    )
    return grad_x


def assemble(
    radial: Tensor,
    phase: Tensor,
    spread: Tensor,
    assembly: Tensor,
    shape: tuple[int, int, int, int],
    pixels: int,
) -> Tensor:
    """The kernel of `hnets.functional.harmonic_kernel` as ``(out, in, pixels)``."""
    out_parts, out, in_parts, into = shape
    kernel = radial.new_empty(out_parts * out, in_parts * into, pixels)
    pairs, across = out * into, assembly.shape[1]
    _assemble[(triton.cdiv(pairs, 16), triton.cdiv(across, 64))](
        *(radial, phase, spread, assembly, kernel),
        **_sizes(radial.shape[2], spread.shape[1], phase.shape[2], shape, pixels),
    )
    return kernel


def assemble_backward(
    grad: Tensor,
    radial: Tensor,
    phase: Tensor,
    spread: Tensor,
    assembly: Tensor,
    shape: tuple[int, int, int, int],
    pixels: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of radial weights and phases from that of the kernel."""
    grad_radial, grad_phase = torch.empty_like(radial), torch.empty_like(phase)
    pairs = shape[1] * shape[3]
    _assemble_backward[(triton.cdiv(pairs, 16),)](
        *(radial, phase, spread, assembly, grad.contiguous(), grad_radial, grad_phase),
        **_sizes(radial.shape[2], spread.shape[1], phase.shape[2], shape, pixels),
    )
    return grad_radial, grad_phase


def memory_format(x: Tensor) -> torch.memory_format:
    """The one in which a tensor lies without gaps; the usual one if both would do or neither."""
    last = not x.is_contiguous() and x.is_contiguous(memory_format=torch.channels_last)
    return torch.channels_last if last else torch.contiguous_format


class _Plan(NamedTuple):
    grid: tuple[int, int]
    sizes: tuple[Any, ...]
    constants: dict[str, Any]


def _plan(x: Tensor, streams: Streams, eps: float, *others: Tensor) -> tuple[Any, ...]:
    """How to launch, and the tensors, brought to the memory format of the first if need be."""
    form = memory_format(x)
    tensors = (t.contiguous(memory_format=form) for t in (x, *others))
    last = form == torch.channels_last
    return _planned(x.shape, x.dtype, x.device, last, streams, eps), *tensors


@lru_cache(maxsize=512)
def _planned(
    shape: torch.Size,
    dtype: torch.dtype,
    device: torch.device,
    last: bool,
    streams: Streams,
    eps: float,
) -> _Plan:
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
    return _Plan(
        (triton.cdiv(positions, _TILE // fields), triton.cdiv(streams.fields, fields)),
        (
            torch.tensor([re, im], dtype=torch.int32, device=device),
            positions,
            height * width,
            channels,
            streams.fields,
        ),
        {
            "LAST": last,
            "EPS": eps,  # a constant of the kernel: as an argument it would be rounded to float32
            "REAL": tl.float64 if dtype == torch.float64 else tl.float32,
            "BLOCK_F": fields,
            "BLOCK_N": _TILE // fields,
        },
    )


@lru_cache(maxsize=512)
def _sizes(
    columns: int, phased: int, phases: int, shape: tuple[int, int, int, int], pixels: int
) -> dict[str, int]:
    out_parts, out, in_parts, into = shape
    return {
        "into": into,
        "out": out,
        "ACROSS": out_parts * in_parts * pixels,
        "COLUMNS": columns,
        "PHASED": phased,
        "PHASES": phases,
        "IN_PARTS": in_parts,
        "PIXELS": pixels,
        "WIDE": max(16, triton.next_power_of_2(columns)),
    }


@triton.jit
def _tile(
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
def _of_field(values, f, fields, REAL: tl.constexpr):
    return tl.load(values + f, mask=f < fields, other=0).to(REAL)[:, None]


@triton.jit
def _forward(
    x, y, scale, shift,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    f, re, im, has_re, has_im = _tile(
        table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    inverse = tl.rsqrt(a * a + b * b + EPS)
    factor = _of_field(scale, f, fields, REAL) + _of_field(shift, f, fields, REAL) * inverse
    factor = tl.maximum(factor, 0)
    tl.store(y + re, a * factor, mask=has_re)
    tl.store(y + im, b * factor, mask=has_im)


@triton.jit
def _moments(
    x, partial,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    f, re, im, has_re, has_im = _tile(
        table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    square = tl.where(has_re, a * a + b * b + EPS, 0.0)
    to = partial + tl.program_id(0) * 2 * fields + f
    tl.store(to, tl.sum(tl.sqrt(square), 1).to(tl.float64), mask=f < fields)
    tl.store(to + fields, tl.sum(square, 1).to(tl.float64), mask=f < fields)


@triton.jit
def _backward(
    x, grad, grad_x, scale, shift, first, second, partial,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
    SUMS: tl.constexpr, INPUT: tl.constexpr, EXTRA: tl.constexpr,
):  # fmt: skip
    f, re, im, has_re, has_im = _tile(
        table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    ga = tl.load(grad + re, mask=has_re, other=0).to(REAL)
    gb = tl.load(grad + im, mask=has_im, other=0).to(REAL)
    inverse = tl.rsqrt(a * a + b * b + EPS)
    slope = _of_field(shift, f, fields, REAL)
    factor = _of_field(scale, f, fields, REAL) + slope * inverse
    inner = tl.where(has_re & (factor > 0), ga * a + gb * b, 0.0)
    if SUMS:
        to = partial + tl.program_id(0) * 2 * fields + f
        tl.store(to, tl.sum(inner, 1).to(tl.float64), mask=f < fields)
        tl.store(to + fields, tl.sum(inner * inverse, 1).to(tl.float64), mask=f < fields)
    if INPUT:
        factor = tl.maximum(factor, 0)
        pull = inner * inverse * inverse * slope
        if EXTRA:
            pull += _of_field(first, f, fields, REAL)
        pull *= inverse
        if EXTRA:
            pull += _of_field(second, f, fields, REAL)
        tl.store(grad_x + re, ga * factor - a * pull, mask=has_re)
        tl.store(grad_x + im, gb * factor - b * pull, mask=has_im)


@triton.jit
def _field(
    pixels, fields, LAST: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Where the numbers of a tile's fields lie, if there is one for each field and pixel."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    f = (tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F))[:, None]
    image, pixel = (n // pixels).to(tl.int64)[None, :], (n % pixels)[None, :]
    start = image * fields * pixels + (pixel * fields if LAST else pixel)
    return start + f * (1 if LAST else pixels)


@triton.jit
def _magnitude(
    x, y,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    _, re, im, has_re, has_im = _tile(
        table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    at = _field(pixels, fields, LAST, BLOCK_F, BLOCK_N)
    tl.store(y + at, tl.sqrt(a * a + b * b), mask=has_re)


@triton.jit
def _magnitude_backward(
    x, grad, grad_x,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    _, re, im, has_re, has_im = _tile(
        table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    at = _field(pixels, fields, LAST, BLOCK_F, BLOCK_N)
    power = a * a + b * b
    factor = tl.load(grad + at, mask=has_re, other=0).to(REAL)
    # Below the smallest normal number a GPU takes the inverse root of 0, which is no number at all.
    there = power > 1.2e-38
    factor = tl.where(there, factor * tl.rsqrt(tl.where(there, power, 1)), 0)
    tl.store(grad_x + re, a * factor, mask=has_re)
    tl.store(grad_x + im, b * factor, mask=has_im)


@triton.jit
def _halve(x, y, total, height, width, rows, columns, REAL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    i, j, plane = at % columns, at // columns % rows, (at // columns // rows).to(tl.int64)
    odd_height, odd_width = height % 2, width % 2
    sum = tl.zeros((BLOCK,), REAL)
    for k in tl.static_range(3):  # rows of weight 1, 2 and 1 if they are odd, 2, 2 and 0 if even
        row = tl.minimum(tl.maximum(2 * j - odd_height + k, 0), height - 1)
        down = 2 - odd_height if k == 0 else (2 if k == 1 else odd_height)
        for m in tl.static_range(3):
            column = tl.minimum(tl.maximum(2 * i - odd_width + m, 0), width - 1)
            across = 2 - odd_width if m == 0 else (2 if m == 1 else odd_width)
            there = inside & (down * across > 0)
            value = tl.load(x + (plane * height + row) * width + column, mask=there, other=0)
            sum += value.to(REAL) * (down * across)
    tl.store(y + at, sum / 16, mask=inside)


@triton.jit
def _taps(at, side):
    """The half pixels that a pixel is part of, the first and the next, and four times how much."""
    odd = side % 2
    ends = (at == 0).to(tl.int32) + (at == side - 1).to(tl.int32)
    first = tl.where(odd == 1, tl.where(at % 2 == 1, 1, 2 + ends), 2)
    return at // 2, first, odd * (at % 2)


@triton.jit
def _spread(
    grad, grad_x, total, height, width, rows, columns, REAL: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    plane = (at // width // height).to(tl.int64)
    j, above, below = _taps(at // width % height, height)
    i, left, right = _taps(at % width, width)
    start = grad + (plane * rows + j) * columns + i
    sum = tl.load(start, mask=inside, other=0).to(REAL) * (above * left)
    sum += tl.load(start + 1, mask=inside & (right > 0), other=0).to(REAL) * (above * right)
    low = inside & (below > 0)
    sum += tl.load(start + columns, mask=low, other=0).to(REAL) * (below * left)
    sum += tl.load(start + columns + 1, mask=low & (right > 0), other=0).to(REAL) * (below * right)
    tl.store(grad_x + at, sum / 16, mask=inside)


@triton.jit
def _totals(sums, blocks, fields):
    """16 fields of a program, and their two sums over all blocks."""
    f = tl.program_id(0) * 16 + tl.arange(0, 16)
    block = tl.arange(0, 64)[:, None]
    first, second = tl.zeros((16,), tl.float64), tl.zeros((16,), tl.float64)
    for start in range(0, blocks, 64):
        there = (start + block < blocks) & (f < fields)[None, :]
        at = sums + (start + block) * 2 * fields + f[None, :]
        first += tl.sum(tl.load(at, mask=there, other=0), 0)
        second += tl.sum(tl.load(at + fields, mask=there, other=0), 0)
    return f, first, second


@triton.jit
def _fold(sums, weight, bias, out, blocks, fields, count, norm_eps):
    f, first, second = _totals(sums, blocks, fields)
    mean = first / count
    var = tl.maximum(second / count - mean * mean, 0)
    there = f < fields
    scale = tl.load(weight + f, mask=there, other=0) * tl.rsqrt(var + norm_eps)
    tl.store(out + f, mean, mask=there)
    tl.store(out + fields + f, var, mask=there)
    tl.store(out + 2 * fields + f, scale, mask=there)
    tl.store(
        out + 3 * fields + f, tl.load(bias + f, mask=there, other=0) - scale * mean, mask=there
    )


@triton.jit
def _unfold(sums, scale, mean, var, out, blocks, fields, count, norm_eps):
    f, first, second = _totals(sums, blocks, fields)
    there = f < fields
    mu = tl.load(mean + f, mask=there, other=0)
    spread = tl.load(var + f, mask=there, other=0) + norm_eps
    factor = tl.load(scale + f, mask=there, other=0)
    centred = first - mu * second
    slope = factor * centred / spread / count
    tl.store(out + f, centred * tl.rsqrt(spread.to(tl.float64)), mask=there)
    tl.store(out + fields + f, second, mask=there)
    tl.store(out + 2 * fields + f, factor * second / count - mu * slope, mask=there)
    tl.store(out + 3 * fields + f, slope, mask=there)


@triton.jit
def _coefficients(
    radial, phase, spread, pair, pairs,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDE)[None, :]
    there = (pair < pairs)[:, None] & (column < COLUMNS)
    weight = tl.load(radial + pair[:, None] * COLUMNS + column, mask=there, other=0)
    beta = tl.zeros_like(weight)
    for k in range(PHASES):
        mine = tl.load(spread + k * PHASED + column, mask=column < PHASED, other=0)
        beta += tl.load(phase + pair * PHASES + k, mask=pair < pairs, other=0)[:, None] * mine
    return weight, tl.cos(beta), tl.sin(beta), column, there


@triton.jit
def _rows(assembly, column, where, first, limit, across):
    at = assembly + (first + column.trans()) * across + where
    return tl.load(at, mask=(column.trans() < limit) & (where < across), other=0)


@triton.jit
def _place(pair, where, into, out, IN_PARTS: tl.constexpr, PIXELS: tl.constexpr):
    """Where in the kernel the entry of a pair of channels and of (part, part, pixel) lies."""
    o, i = (pair // into)[:, None], (pair % into)[:, None]
    p, n, pixel = where // (IN_PARTS * PIXELS), where // PIXELS % IN_PARTS, where % PIXELS
    return ((p * out + o) * IN_PARTS * into + n * into + i) * PIXELS + pixel


@triton.jit
def _assemble(
    radial, phase, spread, assembly, kernel,
    into, out, ACROSS: tl.constexpr,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr,
    IN_PARTS: tl.constexpr, PIXELS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    pairs = into * out
    pair = tl.program_id(0) * 16 + tl.arange(0, 16)
    where = (tl.program_id(1) * 64 + tl.arange(0, 64))[None, :]
    weight, cos, sin, column, _ = _coefficients(
        radial, phase, spread, pair, pairs, COLUMNS, PHASED, PHASES, WIDE
    )
    rows = _rows(assembly, column, where, 0, COLUMNS, ACROSS)
    total = tl.dot(weight * cos, rows, input_precision="ieee")
    if PHASED > 0:
        rows = _rows(assembly, column, where, COLUMNS, PHASED, ACROSS)
        total += tl.dot(weight * sin, rows, input_precision="ieee")
    to = kernel + _place(pair, where, into, out, IN_PARTS, PIXELS)
    tl.store(to, total, mask=(pair < pairs)[:, None] & (where < ACROSS))


@triton.jit
def _assemble_backward(
    radial, phase, spread, assembly, grad, grad_radial, grad_phase,
    into, out, ACROSS: tl.constexpr,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr,
    IN_PARTS: tl.constexpr, PIXELS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    pairs = into * out
    pair = tl.program_id(0) * 16 + tl.arange(0, 16)
    weight, cos, sin, column, there = _coefficients(
        radial, phase, spread, pair, pairs, COLUMNS, PHASED, PHASES, WIDE
    )
    by_cos = tl.zeros((16, WIDE), tl.float32)
    by_sin = tl.zeros((16, WIDE), tl.float32)
    for start in range(0, ACROSS, 64):
        where = (start + tl.arange(0, 64))[None, :]
        at = grad + _place(pair, where, into, out, IN_PARTS, PIXELS)
        g = tl.load(at, mask=(pair < pairs)[:, None] & (where < ACROSS), other=0)
        rows = _rows(assembly, column, where, 0, COLUMNS, ACROSS)
        by_cos += tl.dot(g, rows.trans(), input_precision="ieee")
        if PHASED > 0:
            rows = _rows(assembly, column, where, COLUMNS, PHASED, ACROSS)
            by_sin += tl.dot(g, rows.trans(), input_precision="ieee")
    tl.store(
        grad_radial + pair[:, None] * COLUMNS + column, by_cos * cos + by_sin * sin, mask=there
    )
    turned = weight * (by_sin * cos - by_cos * sin)
    for k in range(PHASES):
        mine = tl.load(spread + k * PHASED + column, mask=column < PHASED, other=0)
        tl.store(grad_phase + pair * PHASES + k, tl.sum(turned * mine, 1), mask=pair < pairs)
