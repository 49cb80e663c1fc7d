"""Assembly of large kernels on CPU, and convolution of large maps in bands of rows.

The kernel between two parts depends on few of the coefficients: those of the one or two filters
that join their streams. The reference multiplies all coefficients, mostly by zero, and then
transposes the result, which for large kernels takes as long as the product.

Torch copies the input and the output of a convolution to another order in memory and back. Of a
large map these copies are more than the map, and slower to write than a band that is reused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional.assembly import reference

_SHARE = 1 << 20
"""Values per thread, of the input and the output, in a band."""


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
    coefficients = reference.coefficients(radial, phase, spread)
    by_column = coefficients.flatten(0, 1).T.contiguous()
    kernel = radial.new_empty(out_parts, out, in_parts, into, size**2)
    for a, b, columns, matrix in _parts(assembly, out_parts, in_parts):
        kernel[a, :, b] = (by_column[columns].T @ matrix).view(out, into, -1)
    return kernel.view(out_parts * out, in_parts * into, size, size)


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
    out_parts, out, in_parts, into = shape
    by_part = grad.reshape(out_parts, out, in_parts, into, size**2)
    by_column = grad.new_zeros(len(assembly), out * into)
    with torch.autocast("cpu", enabled=False):
        for a, b, columns, matrix in _parts(assembly, out_parts, in_parts):
            by_column.index_add_(0, columns, matrix @ by_part[a, :, b].reshape(out * into, -1).T)
        with torch.enable_grad():  # of the coefficients, which are few
            radial, phase = radial.detach().requires_grad_(), phase.detach().requires_grad_()
            coefficients = reference.coefficients(radial, phase, spread)
        by_coefficient = by_column.T.reshape(coefficients.shape)
        by_radial, by_phase = torch.autograd.grad(coefficients, (radial, phase), by_coefficient)
    return by_radial, by_phase


def _parts(
    assembly: Tensor, out_parts: int, in_parts: int
) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """For each output and input part the columns it depends on, and their rows of the matrix."""
    by_part = assembly.unflatten(1, (out_parts * in_parts, -1))
    used = by_part.any(2).T.tolist()
    for part, (row, matrix) in enumerate(zip(used, by_part.unbind(1), strict=True)):
        columns = torch.tensor([c for c, uses in enumerate(row) if uses], dtype=torch.long)
        yield *divmod(part, in_parts), columns, matrix[columns]


def is_large(x: Tensor, kernel: Tensor) -> bool:
    """Whether a map of ``(batch, channels, height, width)`` is worth more than one band."""
    values = x.numel() + x.numel() // x.shape[1] * len(kernel)
    return values > 2 * _SHARE * torch.get_num_threads() and x.stride(3) == 1


def in_bands(
    convolve: Callable[[Tensor, tuple[int, int]], Tensor],
    x: Tensor,
    size: int,
    padding: tuple[int, int],
    values: int,
) -> Tensor:
    """A convolution of stride 1, given as a function of maps and their padding.

    ``size`` is the height of the kernel with its dilation, and ``values`` how many a pixel has in
    the input and the output.
    """
    height, above = x.shape[2], padding[0]
    rows = height + 2 * above - size + 1
    step = max(1, _SHARE * torch.get_num_threads() // (len(x) * x.shape[3] * values))
    y: Tensor | None = None
    for start in range(0, rows, step):
        top, bottom = start - above, min(start + step, rows) - above + size - 1
        band = x[:, :, max(0, top) : bottom]
        if top < 0 or bottom > height:
            band = F.pad(band, (0, 0, max(0, -top), max(0, bottom - height)))
        part = convolve(band, (0, padding[1]))
        if y is None:
            y = part.new_empty(*part.shape[:2], rows, part.shape[3])
        y[:, :, start : start + step] = part
    assert y is not None
    return y
