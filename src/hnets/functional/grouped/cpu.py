"""Depthwise harmonic convolution on CPU: a sum of plain depthwise convolutions, and its gradients.

Torch's grouped convolution has no fast form for the few channels of one field. A depthwise one has:
it is called once per output part on all inputs, and its responses to the input parts are added.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional.grouped import reference

_MOST = 1 << 19
"""Numbers of a map per piece, so that the responses to it stay in cache."""


def pays(fields: int, parts: tuple[int, int], size: int) -> bool:
    """Whether it is faster than the reference: 1.2 to 6 times where it was measured to be."""
    return fields * size**2 >= 100 and max(parts) > 1


def forward(x: Tensor, kernel: Tensor, padding: int) -> Tensor:
    """The convolution of ``(batch, parts · fields, height, width)``.

    The kernel is ``(out parts · fields, parts, k, k)``, zeros are padded, and the stride is 1.
    """
    (batch, channels, *sides), (parts, size) = x.shape, kernel.shape[1:3]
    fields = channels // parts
    by_part = kernel.view(-1, fields, parts, size, size).transpose(1, 2)  # (out, in, fields, k, k)
    rows = by_part.reshape(-1, channels, 1, size, size)
    height, width = (side + 2 * padding - size + 1 for side in sides)
    y = x.new_empty(batch, len(rows) * fields, height, width)
    if not x.is_contiguous():
        y = y.to(memory_format=torch.channels_last)
    images = max(1, _MOST // x[0].numel())
    lines = max(1, min(height, _MOST // (channels * sides[1])))
    for piece, whole in zip(x.split(images), y.split(images), strict=True):
        for top in range(0, height, lines):
            _band(piece, rows, padding, top, whole[:, :, top : top + lines].split(fields, 1))
    return y


def _band(x: Tensor, rows: Tensor, padding: int, top: int, targets: tuple[Tensor, ...]) -> None:
    """Lines of the output from ``top`` on, part by part."""
    fields, lines = targets[0].shape[1:3]
    first, last = top - padding, top - padding + lines + rows.shape[3] - 1
    above, below = max(0, -first), max(0, last - x.shape[2])
    band, down = x[:, :, max(0, first) : last], padding
    if (above, below) != (padding, padding):
        band, down = F.pad(band, (0, 0, above, below)), 0
    for row, target in zip(rows, targets, strict=True):
        responses = F.conv2d(band, row, None, 1, (down, padding), 1, len(row))
        torch.sum(responses.unflatten(1, (-1, fields)), 1, out=target)


def grad_input(grad: Tensor, kernel: Tensor, padding: int, fields: int) -> Tensor:
    """The gradient of the input: the convolution with the flipped, transposed kernel."""
    parts, size = kernel.shape[1], kernel.shape[3]
    swapped = kernel.view(-1, fields, parts, size, size).transpose(0, 2).flip(3, 4)
    return forward(grad, swapped.reshape(parts * fields, -1, size, size), size - 1 - padding)


def grad_kernel(grad: Tensor, x: Tensor, padding: int, size: int, parts: int) -> Tensor:
    """The gradient of the kernel, by torch's grouped convolution, which here is the faster one."""
    fields = x.shape[1] // parts
    apart, inputs = (reference.regrouped(t, 1, t.shape[1] // fields, fields) for t in (grad, x))
    weight = x.new_empty(grad.shape[1], parts, size, size)
    _, by_field, _ = torch.ops.aten.convolution_backward(
        *(apart, inputs, weight, None, [1, 1], [padding, padding], [1, 1]),
        *(False, [0, 0], fields, [False, True, False]),
    )
    return reference.regrouped(by_field, 0, fields, grad.shape[1] // fields)
