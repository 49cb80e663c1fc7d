"""Functions of magnitudes on CUDA, with the names and results of the CPU form.

Sums are taken by a fixed number of programs, each over its tiles in order: the same inputs give the
same bits, and few partial sums are left to add.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.functional._launch import PROGRAMS, launch, memory_format, of_field, run, tile
from hnets.streams import Streams

_SIZES = ["positions", "channels", "fields"]
"""Arguments whose values make no faster kernel: one that is compiled serves all."""


def forward(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
    inplace: bool = False,
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, where a scale of None is 1."""
    (grid, table, values), x = launch(x, streams, magnitude_eps)
    y = x if inplace else torch.empty_like(x)
    factors = (shift if scale is None else scale, shift)
    run(_forward, grid, (x, y, *factors, table), *values, scale is not None)
    return y


def moments(x: Tensor, streams: Streams, magnitude_eps: float) -> Tensor:
    """Σ|x| and Σ|x|² per field, ``(programs, 2, fields)`` in float64."""
    (grid, table, values), x = launch(x, streams, magnitude_eps)
    grid = (min(PROGRAMS, grid[0]), grid[1])
    partial = x.new_empty(grid[0], 2, streams.fields, dtype=torch.float64)
    run(_moments, grid, (x, partial, table), *values)
    return partial


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, magnitude_eps: float
) -> tuple[Tensor, None]:
    """∂scale and ∂shift, ``(programs, 2, fields)`` in float64; no intermediate results."""
    return _gradients(grad, x, scale, shift, streams, magnitude_eps, input_too=False)[1], None


def backward(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
) -> tuple[Tensor, Tensor]:
    """∂x, and the sums ∂scale and ∂shift."""
    return _gradients(grad, x, scale, shift, streams, magnitude_eps)


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    extra: Sequence[Tensor],
    intermediate: None,
    streams: Streams,
    magnitude_eps: float,
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``."""
    return _gradients(grad, x, scale, shift, streams, magnitude_eps, extra, sums=False)[0]


def _gradients(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float,
    extra: Sequence[Tensor] | None = None,
    sums: bool = True,
    input_too: bool = True,
) -> tuple[Tensor, Tensor]:
    (grid, table, values), x, grad = launch(x, streams, magnitude_eps, grad)
    grad_x = torch.empty_like(x) if input_too else x  # what is not asked for is not written
    partial = shift
    if sums:
        grid = (min(PROGRAMS, grid[0]), grid[1])
        partial = x.new_empty(grid[0], 2, streams.fields, dtype=torch.float64)
    factors = (shift if scale is None else scale, shift)
    tensors = (x, grad, grad_x, *factors, *(factors if extra is None else extra), partial, table)
    flags = (scale is not None, sums, input_too, extra is not None)
    run(_backward, grid, tensors, *values, *flags)
    return grad_x, partial


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| per field."""
    (grid, table, values), x = launch(x, streams, 0.0)
    size = (x.shape[0], streams.fields, *x.shape[2:])
    y = torch.empty(size, dtype=x.dtype, device=x.device, memory_format=memory_format(x))
    run(_magnitude, grid, (x, y, table), *values)
    return y


def magnitude_backward(grad: Tensor, x: Tensor, streams: Streams) -> Tensor:
    """∂x of `magnitude`: the gradient along z/|z|, and 0 where z is 0."""
    (grid, table, values), x = launch(x, streams, 0.0)
    grad_x = torch.empty_like(x)
    grad = grad.contiguous(memory_format=memory_format(x))
    run(_magnitude_backward, grid, (x, grad, grad_x, table), *values)
    return grad_x


@triton.jit(do_not_specialize=_SIZES)
def _forward(
    x, y, scale, shift,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    f, re, im, has_re, has_im = tile(
        tl.program_id(0), table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    inverse = tl.rsqrt(a * a + b * b + EPS)
    factor = of_field(shift, f, fields, REAL) * inverse
    factor += of_field(scale, f, fields, REAL) if SCALED else 1
    factor = tl.where(factor <= 0, 0.0, factor)  # NaN stays NaN
    tl.store(y + re, a * factor, mask=has_re)
    tl.store(y + im, b * factor, mask=has_im)


@triton.jit(do_not_specialize=_SIZES)
def _moments(
    x, partial,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    first, second = tl.zeros((BLOCK_F,), tl.float64), tl.zeros((BLOCK_F,), tl.float64)
    for number in range(tl.program_id(0), tl.cdiv(positions, BLOCK_N), tl.num_programs(0)):
        _, re, im, has_re, has_im = tile(
            number, table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
        )
        a = tl.load(x + re, mask=has_re, other=0).to(REAL)
        b = tl.load(x + im, mask=has_im, other=0).to(REAL)
        square = tl.where(has_re, a * a + b * b + EPS, 0.0)
        first += tl.sum(tl.sqrt(square), 1).to(tl.float64)
        second += tl.sum(square, 1).to(tl.float64)
    _store_sums(partial, first, second, fields, BLOCK_F)


@triton.jit
def _store_sums(partial, first, second, fields, BLOCK_F: tl.constexpr):
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
    to = partial + tl.program_id(0) * 2 * fields + f
    tl.store(to, first, mask=f < fields)
    tl.store(to + fields, second, mask=f < fields)


@triton.jit(do_not_specialize=_SIZES)
def _backward(
    x, grad, grad_x, scale, shift, c1, c2, partial,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr, SCALED: tl.constexpr,
    SUMS: tl.constexpr, INPUT: tl.constexpr, EXTRA: tl.constexpr,
):  # fmt: skip
    by_scale, by_shift = tl.zeros((BLOCK_F,), tl.float64), tl.zeros((BLOCK_F,), tl.float64)
    for number in range(tl.program_id(0), tl.cdiv(positions, BLOCK_N), tl.num_programs(0)):
        f, re, im, has_re, has_im = tile(
            number, table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
        )
        a = tl.load(x + re, mask=has_re, other=0).to(REAL)
        b = tl.load(x + im, mask=has_im, other=0).to(REAL)
        ga = tl.load(grad + re, mask=has_re, other=0).to(REAL)
        gb = tl.load(grad + im, mask=has_im, other=0).to(REAL)
        inverse = tl.rsqrt(a * a + b * b + EPS)
        slope = of_field(shift, f, fields, REAL)
        factor = slope * inverse
        factor += of_field(scale, f, fields, REAL) if SCALED else 1
        inner = tl.where(has_re & (factor > 0), ga * a + gb * b, 0.0)
        if SUMS:
            by_scale += tl.sum(inner, 1).to(tl.float64)
            by_shift += tl.sum(inner * inverse, 1).to(tl.float64)
        if INPUT:
            factor = tl.maximum(factor, 0)
            pull = inner * inverse * inverse * slope
            if EXTRA:
                pull += of_field(c1, f, fields, REAL)
            pull *= inverse
            if EXTRA:
                pull += of_field(c2, f, fields, REAL)
            tl.store(grad_x + re, ga * factor - a * pull, mask=has_re)
            tl.store(grad_x + im, gb * factor - b * pull, mask=has_im)
    if SUMS:
        _store_sums(partial, by_scale, by_shift, fields, BLOCK_F)


@triton.jit
def _field(
    pixels, fields, LAST: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """Where the numbers of a tile lie in a map of one number per field and pixel."""
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    f = (tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F))[:, None]
    image, pixel = (n // pixels).to(tl.int64)[None, :], (n % pixels)[None, :]
    start = image * fields * pixels + (pixel * fields if LAST else pixel)
    return start + f * (1 if LAST else pixels)


@triton.jit(do_not_specialize=_SIZES)
def _magnitude(
    x, y,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    _, re, im, has_re, has_im = tile(
        tl.program_id(0), table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    at = _field(pixels, fields, LAST, BLOCK_F, BLOCK_N)
    tl.store(y + at, tl.sqrt(a * a + b * b), mask=has_re)


@triton.jit(do_not_specialize=_SIZES)
def _magnitude_backward(
    x, grad, grad_x,
    table, positions, pixels, channels, fields,
    LAST: tl.constexpr, EPS: tl.constexpr, REAL: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    _, re, im, has_re, has_im = tile(
        tl.program_id(0), table, positions, pixels, channels, fields, LAST, BLOCK_F, BLOCK_N
    )
    a = tl.load(x + re, mask=has_re, other=0).to(REAL)
    b = tl.load(x + im, mask=has_im, other=0).to(REAL)
    at = _field(pixels, fields, LAST, BLOCK_F, BLOCK_N)
    power = a * a + b * b
    factor = tl.load(grad + at, mask=has_re, other=0).to(REAL)
    # Below the smallest normal number a GPU takes the inverse root of 0, which would give NaN.
    normal = power > 1.2e-38
    factor = tl.where(normal, factor * tl.rsqrt(tl.where(normal, power, 1)), 0)
    tl.store(grad_x + re, a * factor, mask=has_re)
    tl.store(grad_x + im, b * factor, mask=has_im)
