"""The fused magnitude functions and the assembly of kernels on CUDA: one Triton kernel each.

The functions have the names and results of those in `_cpu`. Sums are taken block by block and then
added by torch, in a fixed order, so that the same inputs give the same bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.streams import Streams

__all__ = ["assemble", "assemble_backward", "backward", "backward_sums", "forward", "moments"]

_TILE = 1024


def forward(x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float) -> Tensor:
    """``x · relu(scale + shift/|x|)``."""
    x = _by_pixels(x)
    y = torch.empty_like(x)
    grid, common = _launch(x, streams)
    _forward[grid](x, y, scale, shift, *_strides(x), *_strides(y), eps, **common)
    return y


def moments(x: Tensor, streams: Streams, eps: float) -> Tensor:
    """Σ|x| and Σ|x|² of every field, ``(2, fields)`` in float64."""
    x = _by_pixels(x)
    grid, common = _launch(x, streams)
    partial = x.new_empty(grid[0], 2, streams.fields, dtype=torch.float64)
    _moments[grid](x, partial, *_strides(x), eps, **common)
    return partial.sum(0)


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float
) -> Tensor:
    """∂scale and ∂shift, ``(2, fields)`` in float64."""
    x, grad = _by_pixels(x), _by_pixels(grad)
    grid, common = _launch(x, streams)
    partial = x.new_empty(grid[0], 2, streams.fields, dtype=torch.float64)
    _backward[grid](
        *(x, grad, x, scale, shift, scale, shift, partial),
        *(*_strides(x), *_strides(grad), *_strides(x), eps),
        SUMS=True,
        INPUT=False,
        EXTRA=False,
        **common,
    )
    return partial.sum(0)


def backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    streams: Streams,
    eps: float,
    extra: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """∂x with ∂scale and ∂shift; or, given c₁ and c₂ of batch norm as ``extra``, its ∂x alone."""
    x, grad = _by_pixels(x), _by_pixels(grad)
    grad_x = torch.empty_like(x)
    grid, common = _launch(x, streams)
    sums = extra is None
    partial = x.new_empty(grid[0] if sums else 0, 2, streams.fields, dtype=torch.float64)
    first, second = (scale, shift) if extra is None else extra.unbind()
    _backward[grid](
        *(x, grad, grad_x, scale, shift, first, second, partial),
        *(*_strides(x), *_strides(grad), *_strides(grad_x), eps),
        SUMS=sums,
        INPUT=True,
        EXTRA=not sums,
        **common,
    )
    return grad_x, partial.sum(0)


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
        **_sizes(radial, phase, spread, shape, pixels),
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
        **_sizes(radial, phase, spread, shape, pixels),
    )
    return grad_radial, grad_phase


def _by_pixels(x: Tensor) -> Tensor:
    """``x``, or a copy of it, with one stride for all its pixels."""
    return x if x.stride(2) == x.shape[3] * x.stride(3) else x.contiguous()


def _strides(x: Tensor) -> tuple[int, int, int]:
    return x.stride(0), x.stride(1), x.stride(3)


def _launch(x: Tensor, streams: Streams) -> tuple[tuple[int, int], dict[str, Any]]:
    batch, _, height, width = x.shape
    # A tile is long where memory is: over the pixels, or over fields in channels_last.
    fields = min(32, triton.next_power_of_2(streams.fields)) if x.stride(1) == 1 else 1
    positions = batch * height * width
    re, im = _channels(streams, x.device)
    grid = (triton.cdiv(positions, _TILE // fields), triton.cdiv(streams.fields, fields))
    return grid, {
        "re_of": re,
        "im_of": im,
        "positions": positions,
        "pixels": height * width,
        "fields": streams.fields,
        "REAL": tl.float64 if x.dtype == torch.float64 else tl.float32,
        "BLOCK_F": fields,
        "BLOCK_N": _TILE // fields,
    }


@lru_cache(maxsize=512)
def _channels(streams: Streams, device: torch.device) -> tuple[Tensor, Tensor]:
    """The channel of every field's real part, and of its imaginary part or −1."""
    re: list[int] = []
    im: list[int] = []
    for stream, where in zip(streams, streams.slices, strict=True):
        width = stream.multiplicity
        re += range(where.start, where.start + width)
        im += [-1] * width if stream.real else range(where.start + width, where.stop)
    table = torch.tensor([re, im], dtype=torch.int32, device=device)
    return table[0], table[1]


def _sizes(
    radial: Tensor, phase: Tensor, spread: Tensor, shape: tuple[int, int, int, int], pixels: int
) -> dict[str, int]:
    out_parts, out, in_parts, into = shape
    return {
        "into": into,
        "out": out,
        "ACROSS": out_parts * in_parts * pixels,
        "COLUMNS": radial.shape[-1],
        "PHASED": spread.shape[-1],
        "PHASES": phase.shape[-1],
        "IN_PARTS": in_parts,
        "PIXELS": pixels,
        "WIDE": max(16, triton.next_power_of_2(radial.shape[-1])),
    }


@triton.jit
def _tile(positions, pixels, fields, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr):
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    image, pixel = (n // pixels).to(tl.int64), n % pixels
    inside = (n < positions)[None, :] & (f < fields)[:, None]
    return f, image[None, :], pixel[None, :], inside


@triton.jit
def _pair(x, image, pixel, re, im, inside, s_image, s_channel, s_pixel, REAL: tl.constexpr):
    start = x + image * s_image + pixel * s_pixel
    a = tl.load(start + re * s_channel, mask=inside, other=0).to(REAL)
    b = tl.load(start + im * s_channel, mask=inside & (im >= 0), other=0).to(REAL)
    return a, b


@triton.jit
def _put(y, image, pixel, re, im, inside, s_image, s_channel, s_pixel, a, b):
    start = y + image * s_image + pixel * s_pixel
    tl.store(start + re * s_channel, a, mask=inside)
    tl.store(start + im * s_channel, b, mask=inside & (im >= 0))


@triton.jit
def _of_field(values, f, fields, REAL: tl.constexpr):
    return tl.load(values + f, mask=f < fields, other=0).to(REAL)[:, None]


@triton.jit
def _forward(
    x, y, scale, shift,
    x0, x1, x2, y0, y1, y2, eps,
    re_of, im_of, positions, pixels, fields,
    REAL: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    f, image, pixel, inside = _tile(positions, pixels, fields, BLOCK_F, BLOCK_N)
    re = tl.load(re_of + f, mask=f < fields, other=0)[:, None]
    im = tl.load(im_of + f, mask=f < fields, other=-1)[:, None]
    a, b = _pair(x, image, pixel, re, im, inside, x0, x1, x2, REAL)
    inverse = tl.rsqrt(a * a + b * b + eps)
    factor = _of_field(scale, f, fields, REAL) + _of_field(shift, f, fields, REAL) * inverse
    factor = tl.maximum(factor, 0)
    _put(y, image, pixel, re, im, inside, y0, y1, y2, a * factor, b * factor)


@triton.jit
def _moments(
    x, partial,
    x0, x1, x2, eps,
    re_of, im_of, positions, pixels, fields,
    REAL: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    f, image, pixel, inside = _tile(positions, pixels, fields, BLOCK_F, BLOCK_N)
    re = tl.load(re_of + f, mask=f < fields, other=0)[:, None]
    im = tl.load(im_of + f, mask=f < fields, other=-1)[:, None]
    a, b = _pair(x, image, pixel, re, im, inside, x0, x1, x2, REAL)
    square = tl.where(inside, a * a + b * b + eps, 0.0)
    to = partial + tl.program_id(0) * 2 * fields + f
    tl.store(to, tl.sum(tl.sqrt(square), 1).to(tl.float64), mask=f < fields)
    tl.store(to + fields, tl.sum(square, 1).to(tl.float64), mask=f < fields)


@triton.jit
def _backward(
    x, grad, grad_x, scale, shift, first, second, partial,
    x0, x1, x2, g0, g1, g2, d0, d1, d2, eps,
    re_of, im_of, positions, pixels, fields,
    SUMS: tl.constexpr, INPUT: tl.constexpr, EXTRA: tl.constexpr,
    REAL: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    f, image, pixel, inside = _tile(positions, pixels, fields, BLOCK_F, BLOCK_N)
    re = tl.load(re_of + f, mask=f < fields, other=0)[:, None]
    im = tl.load(im_of + f, mask=f < fields, other=-1)[:, None]
    a, b = _pair(x, image, pixel, re, im, inside, x0, x1, x2, REAL)
    ga, gb = _pair(grad, image, pixel, re, im, inside, g0, g1, g2, REAL)
    inverse = tl.rsqrt(a * a + b * b + eps)
    slope = _of_field(shift, f, fields, REAL)
    factor = _of_field(scale, f, fields, REAL) + slope * inverse
    inner = tl.where(inside & (factor > 0), ga * a + gb * b, 0.0)
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
        da, db = ga * factor - a * pull, gb * factor - b * pull
        _put(grad_x, image, pixel, re, im, inside, d0, d1, d2, da, db)


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
