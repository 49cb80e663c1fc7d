"""Assembly of a kernel on CUDA, and its gradients.

A kernel lies in memory in channels_last, so that no convolution has to copy it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.functional._launch import run
from hnets.functional.assembly.reference import empty_kernel


def assemble(
    radial: Tensor,
    phase: Tensor,
    spread: Tensor,
    assembly: Tensor,
    shape: Sequence[int],
    size: int,
) -> Tensor:
    """The kernel ``(out channels, in channels, size, size)`` from radial weights and phases."""
    grid, values = _launch(radial.shape[2], spread.shape[1], phase.shape[2], *shape, size)
    kernel = empty_kernel(radial, shape, size)
    run(_assemble, grid, (radial, phase, spread, assembly, kernel), *values)
    return kernel


def assemble_backward(
    grad: Tensor,
    radial: Tensor,
    phase: Tensor,
    spread: Tensor,
    assembly: Tensor,
    shape: Sequence[int],
    size: int,
) -> tuple[Tensor, Tensor]:
    """Gradients of radial weights and phases.

    Most kernels have few pairs of channels: in one launch, a few programs would walk through all
    pixels. So every part of the kernel has a program, and a second launch adds up what they find.
    """
    grid, values = _launch(radial.shape[2], spread.shape[1], phase.shape[2], *shape, size)
    grad_radial, grad_phase = torch.empty_like(radial), torch.empty_like(phase)
    grad = grad.contiguous(memory_format=torch.channels_last)
    partial = radial.new_empty(grid[1], 2, *radial.shape)
    run(_by_coefficient, grid, (assembly, grad, partial), *values)
    tensors = (radial, phase, spread, partial, grad_radial, grad_phase)
    run(_assemble_backward, grid[:1], tensors, *values)
    return grad_radial, grad_phase


@lru_cache(maxsize=512)
def _launch(
    columns: int,
    phased: int,
    phases: int,
    out_parts: int,
    out: int,
    in_parts: int,
    into: int,
    size: int,
) -> tuple[tuple[int, int], tuple[int, ...]]:
    """The grid, and the numbers and constants of the kernels.

    A program works on 16 pairs of channels, and on 64 entries of the kernel of each.
    """
    pixels = size**2
    wide = max(16, triton.next_power_of_2(columns))
    across = out_parts * in_parts * pixels
    values = (into, out, across, columns, phased, phases, in_parts, pixels, wide)
    return (triton.cdiv(out * into, 16), triton.cdiv(across, 64)), values


@triton.jit
def _coefficients(
    radial, phase, spread, pair, pairs,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    column = tl.arange(0, WIDE)[None, :]
    inside = (pair < pairs)[:, None] & (column < COLUMNS)
    weight = tl.load(radial + pair[:, None] * COLUMNS + column, mask=inside, other=0)
    beta = tl.zeros_like(weight)
    for k in range(PHASES):
        mine = tl.load(spread + k * PHASED + column, mask=column < PHASED, other=0)
        beta += tl.load(phase + pair * PHASES + k, mask=pair < pairs, other=0)[:, None] * mine
    return weight, tl.cos(beta), tl.sin(beta), column, inside


@triton.jit
def _rows(assembly, column, where, first, limit, across):
    at = assembly + (first + column.trans()) * across + where
    return tl.load(at, mask=(column.trans() < limit) & (where < across), other=0)


@triton.jit
def _place(pair, where, into, out, IN_PARTS: tl.constexpr, PIXELS: tl.constexpr):
    """Where in the kernel the entry of a pair of channels and of (part, part, pixel) lies."""
    o, i = (pair // into)[:, None], (pair % into)[:, None]
    p, n, pixel = where // (IN_PARTS * PIXELS), where // PIXELS % IN_PARTS, where % PIXELS
    return ((p * out + o) * PIXELS + pixel) * IN_PARTS * into + n * into + i


@triton.jit(do_not_specialize=["into", "out"])
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


@triton.jit(do_not_specialize=["into", "out"])
def _by_coefficient(
    assembly, grad, partial,
    into, out, ACROSS: tl.constexpr,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr,
    IN_PARTS: tl.constexpr, PIXELS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The gradients of all coefficients, from one part of the kernel."""
    pairs = into * out
    pair = tl.program_id(0) * 16 + tl.arange(0, 16)
    column = tl.arange(0, WIDE)[None, :]
    inside = (pair < pairs)[:, None] & (column < COLUMNS)
    where = (tl.program_id(1) * 64 + tl.arange(0, 64))[None, :]
    at = grad + _place(pair, where, into, out, IN_PARTS, PIXELS)
    g = tl.load(at, mask=(pair < pairs)[:, None] & (where < ACROSS), other=0)
    to = partial + (2 * tl.program_id(1) * pairs + pair[:, None]) * COLUMNS + column
    rows = _rows(assembly, column, where, 0, COLUMNS, ACROSS)
    tl.store(to, tl.dot(g, rows.trans(), input_precision="ieee"), mask=inside)
    if PHASED > 0:
        rows = _rows(assembly, column, where, COLUMNS, PHASED, ACROSS)
        product = tl.dot(g, rows.trans(), input_precision="ieee")
        tl.store(to + pairs * COLUMNS, product, mask=inside)


@triton.jit(do_not_specialize=["into", "out"])
def _assemble_backward(
    radial, phase, spread, partial, grad_radial, grad_phase,
    into, out, ACROSS: tl.constexpr,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr,
    IN_PARTS: tl.constexpr, PIXELS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """The gradients of weights and phases, from those of the coefficients."""
    pairs = into * out
    pair = tl.program_id(0) * 16 + tl.arange(0, 16)
    weight, cos, sin, column, inside = _coefficients(
        radial, phase, spread, pair, pairs, COLUMNS, PHASED, PHASES, WIDE
    )
    by_cos = tl.zeros((16, WIDE), tl.float32)
    by_sin = tl.zeros((16, WIDE), tl.float32)
    at = partial + pair[:, None] * COLUMNS + column
    for part in tl.static_range(0, ACROSS, 64):  # unrolled: no load waits for another
        by_cos += tl.load(at + part // 64 * 2 * pairs * COLUMNS, mask=inside, other=0)
        if PHASED > 0:
            by_sin += tl.load(at + (part // 64 * 2 + 1) * pairs * COLUMNS, mask=inside, other=0)
    tl.store(
        grad_radial + pair[:, None] * COLUMNS + column, by_cos * cos + by_sin * sin, mask=inside
    )
    rotated = weight * (by_sin * cos - by_cos * sin)
    for k in range(PHASES):
        mine = tl.load(spread + k * PHASED + column, mask=column < PHASED, other=0)
        tl.store(grad_phase + pair * PHASES + k, tl.sum(rotated * mine, 1), mask=pair < pairs)
