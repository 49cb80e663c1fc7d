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
    out_parts, out, in_parts, into = shape
    kernel = empty_kernel(radial, shape, size)
    grid = (triton.cdiv(out * into, 16), triton.cdiv(out_parts * in_parts * size**2, 64))
    run(
        *(_assemble, grid, (radial, phase, spread, assembly, kernel)),
        *_values(radial.shape[2], spread.shape[1], phase.shape[2], *shape, size),
    )
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
    """Gradients of radial weights and phases."""
    grad_radial, grad_phase = torch.empty_like(radial), torch.empty_like(phase)
    grad = grad.contiguous(memory_format=torch.channels_last)
    tensors = (radial, phase, spread, assembly, grad, grad_radial, grad_phase)
    run(
        *(_assemble_backward, (triton.cdiv(shape[1] * shape[3], 16),), tensors),
        *_values(radial.shape[2], spread.shape[1], phase.shape[2], *shape, size),
    )
    return grad_radial, grad_phase


@lru_cache(maxsize=512)
def _values(
    columns: int,
    phased: int,
    phases: int,
    out_parts: int,
    out: int,
    in_parts: int,
    into: int,
    size: int,
) -> tuple[int, ...]:
    """The numbers and constants of both kernels."""
    pixels = size**2
    wide = max(16, triton.next_power_of_2(columns))
    across = out_parts * in_parts * pixels
    return into, out, across, columns, phased, phases, in_parts, pixels, wide


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
def _assemble_backward(
    radial, phase, spread, assembly, grad, grad_radial, grad_phase,
    into, out, ACROSS: tl.constexpr,
    COLUMNS: tl.constexpr, PHASED: tl.constexpr, PHASES: tl.constexpr,
    IN_PARTS: tl.constexpr, PIXELS: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    pairs = into * out
    pair = tl.program_id(0) * 16 + tl.arange(0, 16)
    weight, cos, sin, column, inside = _coefficients(
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
        grad_radial + pair[:, None] * COLUMNS + column, by_cos * cos + by_sin * sin, mask=inside
    )
    rotated = weight * (by_sin * cos - by_cos * sin)
    for k in range(PHASES):
        mine = tl.load(spread + k * PHASED + column, mask=column < PHASED, other=0)
        tl.store(grad_phase + pair * PHASES + k, tl.sum(rotated * mine, 1), mask=pair < pairs)
