"""From radial weights and phases to one plain convolution kernel, and the convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional import _dispatch
from hnets.functional._autograd import Assemble
from hnets.functional._dispatch import (
    autocast_rounds,
    differentiated,
    exporting,
    has_triton,
    is_plain,
    needs_reference,
    tracing,
    transformed,
)
from hnets.functional.assembly import compiled, cpu, reference

_LARGE = 3 << 18
"""Values of a kernel from which the CPU form is faster than the reference, by measurement."""


def harmonic_kernel(
    radial: Tensor,
    phase: Tensor | None,
    spread: Tensor,
    assembly: Tensor,
    shape: tuple[int, int, int, int],
    kernel_size: int,
) -> Tensor:
    """The real kernel ``(out channels, in channels, k, k)`` of one `hnets.plan.Block`.

    ``radial`` is R, ``(out, in, columns)``; ``phase`` is β, ``(out, in, phases)``. The filters are
    the paper's R(r)·exp(i(mφ+β)), and one real convolution with the kernel computes
    Y_p = Σ_n W_{p−n} ⋆ F_n for all p at once.
    """
    if not _is_fast(radial, assembly, shape, kernel_size):
        return reference.assemble(radial, phase, spread, assembly, shape, kernel_size)
    if phase is None:
        phase = radial.new_empty(*radial.shape[:2], 0)
    tensors = (radial, phase, spread, assembly)
    if tracing():
        kernel: Tensor = compiled.assemble(*tensors, list(shape), kernel_size)
        return kernel
    return Assemble.apply(*tensors, (shape, kernel_size), reference.assemble)


def _is_fast(
    radial: Tensor, assembly: Tensor, shape: tuple[int, int, int, int], kernel_size: int
) -> bool:
    """Whether there is a faster form than the reference: on CPU for large kernels only."""
    if not radial.is_cpu or _dispatch.INTERPRETED:
        return has_triton(radial) and _fits_triton(radial, assembly)
    large = math.prod(shape) * kernel_size**2 >= _LARGE
    return large and is_plain(radial) and not transformed()


def _fits_triton(radial: Tensor, assembly: Tensor) -> bool:
    """Whether the Triton form has its tiles for these sizes; large ones are faster without it."""
    return (
        radial.dtype == torch.float32
        and radial.shape[-1] <= 64
        and assembly.shape[1] <= 512
        and not differentiated()
        and not exporting()
    )


def hconv2d(
    x: Tensor,
    kernel: Tensor,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    segments: Sequence[tuple[int, int, int]] = (),
) -> Tensor:
    """Cross-correlate with an assembled kernel.

    ``segments`` are the blocks of a block-diagonal kernel, as `hnets.plan.Segment` has them; a row
    of the kernel holds the weights on the inputs of one group of its own segment.
    """
    size = dilation[0] * (kernel.shape[2] - 1) + 1
    if _in_bands(x, kernel, stride, padding[0], size):

        def convolve(band: Tensor, padding: tuple[int, int]) -> Tensor:
            return _response(band, kernel, stride, padding, dilation, segments)

        return cpu.in_bands(convolve, x, size, padding, x.shape[1] + len(kernel))
    return _response(x, kernel, stride, padding, dilation, segments)


def _in_bands(x: Tensor, kernel: Tensor, stride: tuple[int, int], padding: int, size: int) -> bool:
    """Whether a map is taken in bands: a large one on CPU, without gradients."""
    if x.device.type != "cpu" or torch.is_grad_enabled() or stride != (1, 1) or needs_reference(x):
        return False
    # With more padding there would be bands of padding alone; a smaller map is torch's error.
    return padding < size <= x.shape[2] + 2 * padding and cpu.is_large(x, kernel)


def _response(
    x: Tensor,
    kernel: Tensor,
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    segments: Sequence[tuple[int, int, int]],
) -> Tensor:
    if len(segments) > 1:
        maps = x.split([segment[2] for segment in segments], 1)
        rows = kernel.split([segment[1] for segment in segments])
        responses = [
            _response(part, own[:, : inputs // groups], stride, padding, dilation, [segment])
            for part, own, segment in zip(maps, rows, segments, strict=True)
            for groups, _, inputs in [segment]
        ]
        return torch.cat(responses, 1)
    groups = segments[0][0] if segments else 1
    if groups > 1 and kernel.shape[2:] == (1, 1) and stride == (1, 1) and padding == (0, 0):
        return _product(x, kernel, groups)
    geometry = (stride, padding, dilation, groups)
    half = x.is_cpu and _in_half(x) and not tracing()
    if half and (padding[0] >= x.shape[2] or padding[1] >= x.shape[3]):
        return _on_small_map(x, kernel, *geometry)
    return F.conv2d(x, kernel, None, *geometry)


def _in_half(x: Tensor) -> bool:
    """Whether a convolution on CPU works in 16 bits."""
    return torch.is_autocast_enabled("cpu") or x.dtype.itemsize == 2


def _on_small_map(x: Tensor, kernel: Tensor, *geometry: Any) -> Tensor:
    """The convolution in at least float32, of a map that is no larger than its padding.

    Some pixels of the kernel meet zeros only: in bfloat16, oneDNN leaves their gradient
    uninitialised.
    """
    wide = torch.promote_types(x.dtype, torch.float32)
    out = torch.get_autocast_dtype("cpu") if autocast_rounds(x) else x.dtype
    with torch.autocast("cpu", enabled=False):
        return F.conv2d(x.to(wide), kernel.to(wide), None, *geometry).to(out)


def _product(x: Tensor, kernel: Tensor, groups: int) -> Tensor:
    """A 1×1 convolution in groups, as products of matrices: faster than torch's convolution."""
    matrices = kernel.view(groups, -1, kernel.shape[1])
    if transformed() or x.is_contiguous() or not x.is_contiguous(memory_format=torch.channels_last):
        maps = x.unflatten(1, (groups, -1)).flatten(3)
        products = matrices @ maps  # (batch, groups, out, pixels)
        return products.flatten(1, 2).unflatten(2, x.shape[2:])
    maps = x.movedim(1, 3)  # and so are the outputs in channels_last
    by_group = maps.reshape(-1, groups, kernel.shape[1]).transpose(0, 1) @ matrices.mT
    return by_group.transpose(0, 1).reshape(*maps.shape[:3], len(kernel)).movedim(3, 1)
