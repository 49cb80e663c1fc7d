"""Depthwise harmonic convolution on CPU as plain depthwise convolutions, and its gradients.

Torch's grouped convolution has no fast form for the few channels of one field. Its depthwise one is
fast, in channels_last. So the rows of the parts of a field are interleaved: then each output part
is one depthwise convolution, whose kernel and stride are as many times higher as there are parts.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional.grouped import reference


def pays(fields: int, parts: tuple[int, int], size: int) -> bool:
    """Whether it is faster than the reference, by measurement."""
    return fields * size**2 >= 100 and max(parts) > 1


def forward(x: Tensor, kernel: Tensor, padding: int) -> Tensor:
    """The convolution of ``(batch, parts · fields, height, width)``.

    The kernel is ``(out parts · fields, parts, k, k)``, zeros are padded, and the stride is 1.
    """
    parts, size = kernel.shape[1:3]
    rows = _interleaved(x, parts, padding)
    fields = rows.shape[1]
    high = kernel.view(-1, fields, parts, size, size).transpose(2, 3)
    height, width = (side + 2 * padding - size + 1 for side in x.shape[2:])
    y = x.new_empty(len(x), len(kernel), height, width)
    if not x.is_contiguous():
        y = y.to(memory_format=torch.channels_last)
    kernels = high.reshape(-1, fields, 1, size * parts, size)
    for part, target in zip(kernels, y.split(fields, 1), strict=True):
        target.copy_(F.conv2d(rows, part, None, (parts, 1), (0, padding), 1, fields))
    return y


def _interleaved(x: Tensor, parts: int, padding: int) -> Tensor:
    """``(batch, fields, rows · parts, width)`` in channels_last, with zeros above and below."""
    by_part = x.unflatten(1, (parts, -1))
    batch, _, fields, height, width = by_part.shape
    rows = x.new_empty(batch, height + 2 * padding, parts, width, fields)
    above, inside, below = rows.split([padding, height, padding], 1)
    inside.copy_(by_part.permute(0, 3, 1, 4, 2))
    for margin in (above, below):
        margin.zero_()
    return rows.flatten(1, 2).movedim(3, 1)


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
