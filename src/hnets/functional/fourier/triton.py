"""``relu(scale·f + shift)`` on CUDA, with the names and results of the CPU form.

A tile has the coefficients of some fields at some pixels as its columns, so that both transforms
are small matrix products of the tile, and no value of f ever leaves the chip. Sums are taken by a
fixed number of programs, each over its tiles in order: the same inputs give the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.functional._launch import PROGRAMS, memory_format, run

_TILE = 256


def forward(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    synthesis: Tensor,
    inplace: bool = False,
) -> Tensor:
    """``relu(scale·f + shift)`` as coefficients; a scale of None is 1."""
    x = x.contiguous(memory_format=memory_format(x))
    grid, values = _launch(x.shape, x.dtype, memory_format(x), *synthesis.shape)
    y = x if inplace else torch.empty_like(x)
    factors = (shift if scale is None else scale, shift)
    run(_forward, grid, (x, y, *factors, synthesis), *values, scale is not None)
    return y


def moments(x: Tensor, synthesis: Tensor) -> Tensor:
    """Σz₀ and Σ|z|² per field, ``(programs, 2, fields)`` in float64."""
    form, parts = memory_format(x), synthesis.shape[1]
    x, fields = x.contiguous(memory_format=form), x.shape[1] // parts
    last = form == torch.channels_last
    block = _block(fields, last)
    positions = x.numel() // x.shape[1]
    programs = min(PROGRAMS, triton.cdiv(positions, 1024 // block))
    partial = x.new_empty(programs, 2, fields, dtype=torch.float64)
    sizes = (positions, x.shape[2] * x.shape[3], fields)
    grid = (programs, triton.cdiv(fields, block))
    run(_moments, grid, (x, partial), *sizes, last, parts, block, 1024 // block)
    return partial


def backward_sums(
    grad: Tensor, x: Tensor, scale: Tensor, shift: Tensor, synthesis: Tensor
) -> tuple[Tensor, None]:
    """∂scale and ∂shift, ``(programs, 2, fields)`` in float64; no intermediate results."""
    return _gradients(grad, x, scale, shift, synthesis, input_too=False)[1], None


def backward(
    grad: Tensor, x: Tensor, scale: Tensor | None, shift: Tensor, synthesis: Tensor
) -> tuple[Tensor, Tensor]:
    """∂x, and the sums ∂scale and ∂shift."""
    return _gradients(grad, x, scale, shift, synthesis)


def backward_batch(
    grad: Tensor,
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    extra: Sequence[Tensor],
    intermediate: None,
    synthesis: Tensor,
) -> Tensor:
    """∂x of batch norm, whose c₁ and c₂ are ``extra``."""
    return _gradients(grad, x, scale, shift, synthesis, extra, sums=False)[0]


def _gradients(
    grad: Tensor,
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    synthesis: Tensor,
    extra: Sequence[Tensor] | None = None,
    sums: bool = True,
    input_too: bool = True,
) -> tuple[Tensor, Tensor]:
    form = memory_format(x)
    x, grad = x.contiguous(memory_format=form), grad.contiguous(memory_format=form)
    grid, values = _launch(x.shape, x.dtype, form, *synthesis.shape)
    grad_x = torch.empty_like(x) if input_too else x  # what is not asked for is not written
    partial = shift
    if sums:
        grid = (min(PROGRAMS, grid[0]), grid[1])
        partial = x.new_empty(grid[0], 2, len(shift), dtype=torch.float64)
    factors = (shift if scale is None else scale, shift)
    tensors = (x, grad, grad_x, *factors, *(extra or factors), synthesis, partial)
    flags = (scale is not None, sums, input_too, extra is not None)
    run(_backward, grid, tensors, *values, *flags)
    return grad_x, partial


def _block(fields: int, last: bool) -> int:
    """How many fields a tile has: it is long in the direction of contiguous memory."""
    return min(128, triton.next_power_of_2(fields)) if last else 1


@lru_cache(maxsize=512)
def _launch(
    shape: torch.Size, dtype: torch.dtype, form: torch.memory_format, samples: int, parts: int
) -> tuple[tuple[int, int], tuple[Any, ...]]:
    """The grid, and the numbers and constants of a kernel that transforms a map."""
    batch, channels, height, width = shape
    last, fields, positions = form == torch.channels_last, channels // parts, batch * height * width
    block = _block(fields, last)
    pixels = _TILE // block
    return (triton.cdiv(positions, pixels), triton.cdiv(fields, block)), (
        *(positions, height * width, fields, last, parts, samples),
        max(16, triton.next_power_of_2(parts)),
        max(16, triton.next_power_of_2(samples)),
        # Half precision has fewer bits than tf32; float32 needs all of its own.
        "tf32" if dtype.itemsize < 4 else "ieee",
        *(block, pixels),
    )


@triton.jit
def _columns(
    tile, positions, pixels, fields,
    LAST: tl.constexpr, PARTS: tl.constexpr, WIDE: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_F: tl.constexpr,
):  # fmt: skip
    """The field of each column of a tile, where its coefficients lie, and which of them exist."""
    column = tl.arange(0, BLOCK_N * BLOCK_F)
    n = tile * BLOCK_N + column // BLOCK_F
    f = tl.program_id(1) * BLOCK_F + column % BLOCK_F
    image, pixel = (n // pixels).to(tl.int64), n % pixels
    part = tl.arange(0, WIDE)[:, None]
    start = image * pixels * fields * PARTS
    if LAST:
        at = (start + pixel * fields * PARTS + f)[None, :] + part * fields
    else:
        at = (start + f * pixels + pixel)[None, :] + part * (fields * pixels)
    inside = (n < positions) & (f < fields)
    return f, at, inside, inside[None, :] & (part < PARTS)


@triton.jit
def _matrix(synthesis, PARTS: tl.constexpr, SAMPLES: tl.constexpr, WIDE: tl.constexpr,
            HIGH: tl.constexpr):  # fmt: skip
    """The matrix A with zeros around it: ``(HIGH, WIDE)``."""
    sample, part = tl.arange(0, HIGH)[:, None], tl.arange(0, WIDE)[None, :]
    exists = (sample < SAMPLES) & (part < PARTS)
    return tl.load(synthesis + sample * PARTS + part, mask=exists, other=0)


@triton.jit(do_not_specialize=["positions"])
def _forward(
    x, y, scale, shift, synthesis, positions, pixels, fields,
    LAST: tl.constexpr, PARTS: tl.constexpr, SAMPLES: tl.constexpr,
    WIDE: tl.constexpr, HIGH: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr, SCALED: tl.constexpr,
):  # fmt: skip
    f, at, inside, exists = _columns(
        tl.program_id(0), positions, pixels, fields, LAST, PARTS, WIDE, BLOCK_N, BLOCK_F
    )
    matrix = _matrix(synthesis, PARTS, SAMPLES, WIDE, HIGH)
    z = tl.load(x + at, mask=exists, other=0).to(tl.float32)
    values = tl.dot(matrix, z, input_precision=PRECISION)
    if SCALED:
        values *= tl.load(scale + f, mask=inside, other=0)[None, :]
    values += tl.load(shift + f, mask=inside, other=0)[None, :]
    values = tl.where(values <= 0, 0.0, values) / SAMPLES  # NaN stays NaN
    # Rows beyond the last sample hold relu(shift), and meet zeros of the matrix here.
    result = tl.dot(matrix.trans(), values, input_precision=PRECISION)
    tl.store(y + at, result, mask=exists)


@triton.jit(do_not_specialize=["positions"])
def _moments(
    x, partial, positions, pixels, fields,
    LAST: tl.constexpr, PARTS: tl.constexpr, BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    f = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)[None, :]
    first, second = tl.zeros((1, BLOCK_F), tl.float64), tl.zeros((1, BLOCK_F), tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(positions, BLOCK_N), tl.num_programs(0)):
        n = tile * BLOCK_N + tl.arange(0, BLOCK_N)[:, None]
        image, pixel = (n // pixels).to(tl.int64), n % pixels
        inside = (n < positions) & (f < fields)
        at = x + image * pixels * fields * PARTS
        at += pixel * fields * PARTS + f if LAST else f * pixels + pixel
        step = fields if LAST else fields * pixels
        # The variance is the power without that of the mean, which may be far larger.
        z = tl.load(at, mask=inside, other=0).to(tl.float64)
        first += tl.sum(z, 0)[None, :]
        second += tl.sum(z * z, 0)[None, :]
        power = tl.zeros((BLOCK_N, BLOCK_F), tl.float32)
        for part in tl.static_range(1, PARTS):
            z = tl.load(at + part * step, mask=inside, other=0).to(tl.float32)
            power += z * z
        second += tl.sum(power, 0)[None, :]
    to = partial + tl.program_id(0) * 2 * fields + f
    tl.store(to, first, mask=f < fields)
    tl.store(to + fields, second, mask=f < fields)


@triton.jit(do_not_specialize=["positions"])
def _backward(
    x, grad, grad_x, scale, shift, c1, c2, synthesis, partial, positions, pixels, fields,
    LAST: tl.constexpr, PARTS: tl.constexpr, SAMPLES: tl.constexpr,
    WIDE: tl.constexpr, HIGH: tl.constexpr, PRECISION: tl.constexpr,
    BLOCK_F: tl.constexpr, BLOCK_N: tl.constexpr, SCALED: tl.constexpr,
    SUMS: tl.constexpr, INPUT: tl.constexpr, EXTRA: tl.constexpr,
):  # fmt: skip
    matrix = _matrix(synthesis, PARTS, SAMPLES, WIDE, HIGH)
    by_scale, by_shift = tl.zeros((BLOCK_F,), tl.float64), tl.zeros((BLOCK_F,), tl.float64)
    for tile in range(tl.program_id(0), tl.cdiv(positions, BLOCK_N), tl.num_programs(0)):
        f, at, inside, exists = _columns(
            tile, positions, pixels, fields, LAST, PARTS, WIDE, BLOCK_N, BLOCK_F
        )
        z = tl.load(x + at, mask=exists, other=0).to(tl.float32)
        g = tl.load(grad + at, mask=exists, other=0).to(tl.float32)
        plain = tl.dot(matrix, z, input_precision=PRECISION)
        values = plain
        if SCALED:
            values *= tl.load(scale + f, mask=inside, other=0)[None, :]
        values += tl.load(shift + f, mask=inside, other=0)[None, :]
        by_value = tl.dot(matrix, g, input_precision=PRECISION) / SAMPLES
        by_value = tl.where(values <= 0, 0.0, by_value)
        if SUMS:
            by_scale += _by_field(by_value * plain, HIGH, BLOCK_N, BLOCK_F)
            by_shift += _by_field(by_value, HIGH, BLOCK_N, BLOCK_F)
        if INPUT:
            result = tl.dot(matrix.trans(), by_value, input_precision=PRECISION)
            if SCALED:
                result *= tl.load(scale + f, mask=inside, other=0)[None, :]
            if EXTRA:
                result -= z * tl.load(c2 + f, mask=inside, other=0)[None, :]
                constant = tl.load(c1 + f, mask=inside, other=0)[None, :]
                result -= tl.where(tl.arange(0, WIDE)[:, None] == 0, constant, 0.0)
            tl.store(grad_x + at, result, mask=exists)
    if SUMS:
        field = tl.program_id(1) * BLOCK_F + tl.arange(0, BLOCK_F)
        to = partial + tl.program_id(0) * 2 * fields + field
        tl.store(to, by_scale, mask=field < fields)
        tl.store(to + fields, by_shift, mask=field < fields)


@triton.jit
def _by_field(values, HIGH: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_F: tl.constexpr):
    """Sums of a tile over its rows and pixels."""
    columns = tl.sum(values, 0)
    return tl.sum(tl.reshape(columns, (BLOCK_N, BLOCK_F)), 0).to(tl.float64)
