"""From radial weights and phases to one plain convolution kernel, and the convolution."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._autograd import Assemble
from hnets.functional._dispatch import has_triton, transformed
from hnets.functional.assembly import reference
from hnets.functional.grouped import stream_conv2d
from hnets.streams import Streams


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
    pixels = kernel_size**2
    if radial.is_cuda and _fits_triton(radial, assembly):
        if phase is None:
            phase = radial.new_empty(*radial.shape[:2], 0)
        flat = Assemble.apply(radial, phase, spread, assembly, (shape, pixels), reference.assemble)
    else:
        flat = reference.assemble(radial, phase, spread, assembly, shape, pixels)
    return flat.unflatten(2, (kernel_size, kernel_size))


def _fits_triton(radial: Tensor, assembly: Tensor) -> bool:
    """Whether the Triton form has its tiles for these sizes; large ones are faster without it."""
    return (
        radial.dtype == torch.float32
        and radial.shape[-1] <= 64
        and assembly.shape[1] <= 512
        and has_triton(radial)
        and not transformed()
    )


def hconv2d(
    x: Tensor,
    kernel: Tensor,
    stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int] = (0, 0),
    dilation: tuple[int, int] = (1, 1),
    padding_mode: str = "zeros",
    groups: int = 1,
    streams: tuple[Streams, Streams] | None = None,
) -> Tensor:
    """Cross-correlate with an assembled kernel, padding with zeros or by reflection.

    ``groups`` are torch's: of neighbouring channels. With ``streams``, those of the input and the
    output, they are of neighbouring fields in every stream.
    """
    if padding_mode == "reflect":
        x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]), mode="reflect")
        padding = (0, 0)
    if streams is None:
        return F.conv2d(x, kernel, None, stride, padding, dilation, groups)
    return stream_conv2d(x, kernel, groups, streams, stride, padding, dilation)
