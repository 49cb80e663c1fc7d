"""Depthwise convolution on CUDA, and its gradients, as products of matrices.

It mixes the parts of a field, and no fields: too few channels for tensor cores. So their tiles take
patches of pixels. All parts of an output patch are a linear map of the input patch that they see,
and its Toeplitz matrix serves every patch of a field. The gradient of the kernel is that of this
matrix, summed along its diagonals. Rows of pixels have to lie in one piece for this, so maps in
channels_last are transposed before and after.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from hnets.functional._launch import PROGRAMS, memory_format, run


class Tile(NamedTuple):
    """What one program holds at once."""

    patches: int
    inputs: int
    """Numbers per input patch."""
    outputs: int
    """Numbers per output patch, at most."""


CONVOLVE = {2: Tile(128, 32, 64), 4: Tile(128, 32, 64)}
CORRELATE = {2: Tile(128, 64, 64), 4: Tile(32, 128, 40)}
"""By the bytes of a number, from measurements on an H200."""


def pays(fields: int, parts: tuple[int, int], size: int) -> bool:
    """Whether it has its tiles for these sizes; it then was faster than cuDNN wherever measured."""
    return size in (3, 5, 7, 9) and max(parts) <= 16


def forward(x: Tensor, kernel: Tensor, padding: int) -> Tensor:
    """The convolution of ``(batch, parts · fields, height, width)``.

    The kernel is ``(out parts · fields, parts, k, k)``, zeros are padded, and the stride is 1.
    """
    return _like(x, _convolve(_planes(x), kernel, padding, x.shape[1] // kernel.shape[1]))


def grad_input(grad: Tensor, kernel: Tensor, padding: int, fields: int) -> Tensor:
    """The gradient of the input: the convolution with the flipped, transposed kernel."""
    return _like(grad, _convolve(_planes(grad), kernel, padding, fields, transposed=True))


def grad_kernel(grad: Tensor, x: Tensor, padding: int, size: int, parts: int) -> Tensor:
    """The gradient of the kernel, in float32."""
    return _correlate(_planes(grad), _planes(x), padding, x.shape[1] // parts, size)


def _planes(x: Tensor) -> Tensor:
    """A map with each channel in one piece."""
    if memory_format(x) == torch.contiguous_format:
        return x.contiguous()
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    return _swapped(x, y, x.shape[2] * x.shape[3], x.shape[1])


def _like(x: Tensor, y: Tensor) -> Tensor:
    """The contiguous ``y`` in the memory format of ``x``."""
    if memory_format(x) == torch.contiguous_format:
        return y
    last = torch.empty_like(y, memory_format=torch.channels_last)
    return _swapped(y, last, y.shape[1], y.shape[2] * y.shape[3])


def _swapped(x: Tensor, y: Tensor, rows: int, columns: int) -> Tensor:
    grid = (triton.cdiv(rows, 64) * triton.cdiv(columns, 64), len(x))
    run(_swap, grid, (x, y), rows, columns, 64)
    return y


class _Matrix(NamedTuple):
    """The Toeplitz matrix: its sizes are constants of all kernels."""

    parts: int
    out_parts: int
    rows: int
    """Of an output patch."""
    columns: int
    tall: int
    """Rows of an input patch."""
    wide: int
    inputs: int
    """Numbers of an input patch, and zeros that fill up a tile."""
    out_rows: int
    """Rows of all parts of an output patch, up to a power of two."""

    @property
    def outputs(self) -> int:
        """Numbers of an output patch, and zeros up to a power of two."""
        return self.out_rows * self.columns


class _Blocks(NamedTuple):
    """How the patches of all images are divided, and what a kernel is told of it."""

    number: int
    out_size: tuple[int, int]
    sizes: tuple[int, ...]
    matrix: _Matrix
    constants: tuple[int, ...]


@lru_cache(maxsize=512)
def _blocks(
    size: torch.Size, fields: int, out_parts: int, kernel_size: int, padding: int, tile: Tile
) -> _Blocks:
    batch, channels, height, width = size
    parts, margin = channels // fields, kernel_size - 1
    out_height, out_width = (side + 2 * padding - margin for side in (height, width))
    wide = 8 if kernel_size <= 5 else 16
    columns = wide // 2
    rows = max(1, min(8, tile.outputs // (columns * out_parts)))
    inputs = triton.cdiv(parts * (rows + margin) * wide, tile.inputs) * tile.inputs
    out_rows = triton.next_power_of_2(out_parts * rows)
    # Input patches begin at multiples of their columns, where words of memory do.
    shift = -padding % columns
    patches = (batch, triton.cdiv(out_height, rows), triton.cdiv(out_width + shift, columns))

    def pixels(block: tuple[int, ...]) -> int:
        """Pixels that are read: blocks overlap, and reach beyond the edges of an image."""
        number = prod(triton.cdiv(n, per) for n, per in zip(patches, block, strict=True))
        return number * block[0] * (block[1] * rows + margin) * (block[2] * columns + margin)

    powers = [2**i for i in range(tile.patches.bit_length())]
    candidates = (b for b in product(powers, powers, powers[2:]) if prod(b) == tile.patches)
    block = min(candidates, key=pixels)
    images, down, across = (triton.cdiv(n, per) for n, per in zip(patches, block, strict=True))
    align, out_align = gcd(width, columns), gcd(out_width, columns, shift)
    return _Blocks(
        images * down * across,
        (out_height, out_width),
        (fields, batch, down, across, height, width // align, out_height, out_width // out_align),
        _Matrix(parts, out_parts, rows, columns, rows + margin, wide, inputs, out_rows),
        (align, out_align, padding, *block, tile.inputs),
    )


def _precision() -> str:
    """Products of float32 as torch's convolutions take them: in TF32, or else exact."""
    cudnn: Any = torch.backends.cudnn  # whose attributes its stubs do not all list
    return "tf32" if cudnn.conv.fp32_precision == "tf32" else "tf32x3"


def _convolve(
    x: Tensor, kernel: Tensor, padding: int, fields: int, *, transposed: bool = False
) -> Tensor:
    """The convolution, or with the kernel flipped and transposed the gradient of its input."""
    size, first = kernel.shape[3], 0
    by_out, by_field, by_part = kernel.stride(0) * fields, kernel.stride(0), kernel.stride(1)
    by_row, by_column = kernel.stride()[2:]
    out_parts = kernel.shape[0] // fields
    if transposed:
        out_parts, by_out, by_part = kernel.shape[1], by_part, by_out
        first, by_row, by_column = (size - 1) * (by_row + by_column), -by_row, -by_column
        padding = size - 1 - padding
    blocks = _blocks(x.shape, fields, out_parts, size, padding, CONVOLVE[x.element_size()])
    sizes = blocks.matrix
    matrix = x.new_empty(fields, sizes.inputs, sizes.outputs)
    strides = (by_out, by_field, by_part, by_row, by_column)
    run(_toeplitz, (fields, sizes.inputs // 32), (kernel, matrix), first, *strides, *sizes, size)
    y = x.new_empty(len(x), out_parts * fields, *blocks.out_size)
    values = (*blocks.sizes, *sizes, *blocks.constants, _precision())
    run(_apply, (blocks.number, fields), (x, matrix, y), *values)
    return y


def _correlate(grad: Tensor, x: Tensor, padding: int, fields: int, size: int) -> Tensor:
    """The gradient of the kernel, in float32; sums over programs are added in a fixed order."""
    out_parts, parts = grad.shape[1] // fields, x.shape[1] // fields
    tile = CORRELATE[x.element_size()]
    blocks = _blocks(x.shape, fields, out_parts, size, padding, tile)
    _, _, rows, columns, tall, wide, inputs, _ = blocks.matrix
    pieces, outputs = inputs // tile.inputs, blocks.matrix.outputs
    steps = triton.cdiv(blocks.number, max(1, PROGRAMS // (fields * pieces)))
    programs = triton.cdiv(blocks.number, steps)
    partial = torch.empty(programs, fields, inputs, outputs, device=x.device)
    values = (steps, *blocks.sizes, *blocks.matrix, *blocks.constants, _precision())
    run(_gradient, (programs, fields, pieces), (x, grad, partial), *values)
    line = wide * outputs
    diagonals = partial.sum(0).as_strided(
        (out_parts, fields, parts, size, size, rows, columns),
        (rows * columns, inputs * outputs, tall * line, line, outputs, line + columns, outputs + 1),
    )
    return diagonals.sum((5, 6)).view(out_parts * fields, parts, size, size)


@triton.jit
def _swap(x, y, rows, columns, BLOCK: tl.constexpr):
    """Matrices ``(rows, columns)`` transposed."""
    start = tl.program_id(1).to(tl.int64) * rows * columns
    across = tl.cdiv(columns, BLOCK)
    row = tl.program_id(0) // across * BLOCK + tl.arange(0, BLOCK)[:, None]
    column = tl.program_id(0) % across * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    value = tl.load(x + start + row * columns + column, mask=inside)
    tl.store(y + start + column * rows + row, value, mask=inside)


@triton.jit
def _toeplitz(
    kernel, matrix, first, by_out, by_field, by_part, by_row, by_column,
    PARTS: tl.constexpr, OUT_PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, INPUTS: tl.constexpr, OUT_ROWS: tl.constexpr,
    SIZE: tl.constexpr,
):  # fmt: skip
    """A row per number of an input patch, a column per number of an output patch."""
    field = tl.program_id(0).to(tl.int64)
    i = (tl.program_id(1) * 32 + tl.arange(0, 32))[:, None]
    o = tl.arange(0, OUT_ROWS * COLUMNS)[None, :]
    part, out = i // (TALL * WIDE), o // (ROWS * COLUMNS)
    row = i // WIDE % TALL - o // COLUMNS % ROWS
    column = i % WIDE - o % COLUMNS
    inside = (row >= 0) & (row < SIZE) & (column >= 0) & (column < SIZE)
    at = first + field * by_field + out * by_out + part * by_part + row * by_row
    inside &= (part < PARTS) & (out < OUT_PARTS)
    value = tl.load(kernel + at + column * by_column, mask=inside, other=0)
    tl.store(matrix + (field * INPUTS + i) * (OUT_ROWS * COLUMNS) + o, value)


@triton.jit
def _inputs(
    x, field, block, first, fields, images, down, across, height, width,
    PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, TALL: tl.constexpr,
    WIDE: tl.constexpr, PADDING: tl.constexpr,
    M_IMAGES: tl.constexpr, M_ROWS: tl.constexpr, M_COLUMNS: tl.constexpr, K: tl.constexpr,
):  # fmt: skip
    """Numbers of the input patches of a block, ``(patches, K)``, from a row of them on."""
    M: tl.constexpr = M_IMAGES * M_ROWS * M_COLUMNS
    # As (patches, rows, columns): neighbouring threads then read neighbouring patches.
    m = tl.arange(0, M)[:, None, None]
    row = (first + tl.arange(0, K // WIDE))[None, :, None]
    column = tl.arange(0, WIDE)[None, None, :]
    image = block // (down * across) * M_IMAGES + m // (M_ROWS * M_COLUMNS)
    top = (block // across % down * M_ROWS + m // M_COLUMNS % M_ROWS) * ROWS - PADDING
    left = (block % across * M_COLUMNS + m % M_COLUMNS) * COLUMNS
    left -= (PADDING + COLUMNS - 1) // COLUMNS * COLUMNS
    part, row = row // TALL, row % TALL
    plane = (image.to(tl.int64) * PARTS * fields + field) * height * width
    at = plane + top * width + left + (part * fields * height + row) * width + column
    # Unsigned, a row or column below 0 is beyond any other.
    row, column = (top + row).to(tl.uint32), (left + column).to(tl.uint32)
    inside = (row < height) & (column < width) & (image < images) & (part < PARTS)
    return tl.load(x + at, mask=inside, other=0).reshape(M, K)


@triton.jit
def _outputs(
    field, block, fields, images, down, across, height, width,
    PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, OUT_ROWS: tl.constexpr,
    PADDING: tl.constexpr,
    M_IMAGES: tl.constexpr, M_ROWS: tl.constexpr, M_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Where the output patches of a block lie, and which of their pixels exist.

    As ``(rows of patches, rows of their parts, columns)``: side by side, as in memory.
    """
    m = tl.arange(0, M_IMAGES * M_ROWS)[:, None, None]
    o = tl.arange(0, OUT_ROWS)[None, :, None]
    c = tl.arange(0, M_COLUMNS * COLUMNS)[None, None, :]
    image = block // (down * across) * M_IMAGES + m // M_ROWS
    row = (block // across % down * M_ROWS + m % M_ROWS) * ROWS + o % ROWS
    column = block % across * (M_COLUMNS * COLUMNS) + c - (-PADDING % COLUMNS)
    part = o // ROWS
    plane = ((image.to(tl.int64) * PARTS + part) * fields + field) * height * width
    inside = (row < height) & (column.to(tl.uint32) < width)
    return plane + row * width + column, inside & (image < images) & (part < PARTS)


@triton.jit
def _apply(
    x, matrix, y, fields, images, down, across, height, units, out_height, out_units,
    PARTS: tl.constexpr, OUT_PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, INPUTS: tl.constexpr, OUT_ROWS: tl.constexpr,
    ALIGN: tl.constexpr, OUT_ALIGN: tl.constexpr, PADDING: tl.constexpr,
    M_IMAGES: tl.constexpr, M_ROWS: tl.constexpr, M_COLUMNS: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    N: tl.constexpr = OUT_ROWS * COLUMNS
    LINES: tl.constexpr = M_IMAGES * M_ROWS
    block, field = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((LINES * M_COLUMNS, N), tl.float32)
    for start in range(0, INPUTS, K):
        a = _inputs(
            x, field, block, start // WIDE, fields, images, down, across, height, units * ALIGN,
            PARTS, ROWS, COLUMNS, TALL, WIDE, PADDING, M_IMAGES, M_ROWS, M_COLUMNS, K,
        )  # fmt: skip
        i = (field * INPUTS + start + tl.arange(0, K))[:, None]
        b = tl.load(matrix + i * N + tl.arange(0, N)[None, :])
        total = tl.dot(a, b, total, input_precision=PRECISION)
    at, inside = _outputs(
        field, block, fields, images, down, across, out_height, out_units * OUT_ALIGN,
        OUT_PARTS, ROWS, COLUMNS, OUT_ROWS, PADDING, M_IMAGES, M_ROWS, M_COLUMNS,
    )  # fmt: skip
    total = total.to(y.dtype.element_ty).reshape(LINES, M_COLUMNS, OUT_ROWS, COLUMNS)
    total = total.permute(0, 2, 1, 3).reshape(LINES, OUT_ROWS, M_COLUMNS * COLUMNS)
    tl.store(y + at, total, mask=inside)


@triton.jit
def _gradient(
    x, grad, partial, steps,
    fields, images, down, across, height, units, out_height, out_units,
    PARTS: tl.constexpr, OUT_PARTS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    TALL: tl.constexpr, WIDE: tl.constexpr, INPUTS: tl.constexpr, OUT_ROWS: tl.constexpr,
    ALIGN: tl.constexpr, OUT_ALIGN: tl.constexpr, PADDING: tl.constexpr,
    M_IMAGES: tl.constexpr, M_ROWS: tl.constexpr, M_COLUMNS: tl.constexpr, K: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The gradient of the matrix of `_apply`, summed over the blocks of each program."""
    N: tl.constexpr = OUT_ROWS * COLUMNS
    LINES: tl.constexpr = M_IMAGES * M_ROWS
    field, piece = tl.program_id(1), tl.program_id(2)
    total = tl.zeros((K, N), tl.float32)
    for step in range(steps):
        block = tl.program_id(0) * steps + step
        a = _inputs(
            x, field, block, piece * (K // WIDE),
            fields, images, down, across, height, units * ALIGN,
            PARTS, ROWS, COLUMNS, TALL, WIDE, PADDING, M_IMAGES, M_ROWS, M_COLUMNS, K,
        )  # fmt: skip
        at, inside = _outputs(
            field, block, fields, images, down, across, out_height, out_units * OUT_ALIGN,
            OUT_PARTS, ROWS, COLUMNS, OUT_ROWS, PADDING, M_IMAGES, M_ROWS, M_COLUMNS,
        )  # fmt: skip
        b = tl.load(grad + at, mask=inside, other=0)
        b = b.reshape(LINES, OUT_ROWS, M_COLUMNS, COLUMNS).permute(0, 2, 1, 3)
        b = b.reshape(LINES * M_COLUMNS, N)
        total = tl.dot(a.T, b, total, input_precision=PRECISION)
    i = ((tl.program_id(0).to(tl.int64) * fields + field) * INPUTS + piece * K) * N
    i += tl.arange(0, K)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(partial + i, total)
