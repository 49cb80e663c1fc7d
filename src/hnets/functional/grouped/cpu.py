"""Depthwise harmonic convolution on CPU as plain depthwise convolutions, and its gradients.

Torch's grouped convolution has no fast form for the few channels of one field. Its depthwise one is
fast, in channels_last. So the rows of the parts of a field are interleaved: then each output part
is one depthwise convolution, whose kernel and stride are as many times higher as there are parts.
"""

from __future__ import annotations

from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

_SHARE = 1 << 19
"""Shifted values per thread in a piece of the gradient of a kernel."""


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
    """The gradient of the kernel, for each field one product of matrices.

    Its rows are output parts with the gradient at each shift along the height, its columns input
    parts with the map at each shift along the width: together all pixels of the kernel.
    """
    fields, width = x.shape[1] // parts, grad.shape[3]
    out, height = grad.shape[1] // fields, x.shape[2] + 2 * padding
    maps, grads = x.unflatten(1, (parts, fields)), grad.unflatten(1, (out, fields))
    share = _SHARE * torch.get_num_threads() // ((parts + out) * size * height * width)
    few, some = max(1, share // fields), max(1, min(fields, share))
    total = x.new_zeros(fields, out * size, parts * size)
    for image, field in product(range(0, len(x), few), range(0, fields, some)):
        place = (slice(image, image + few), slice(None), slice(field, field + some))
        across = F.pad(maps[place], [padding] * 4).unfold(4, width, 1).transpose(3, 4)
        down = F.pad(grads[place], (0, 0, size - 1, size - 1)).unfold(3, height, 1).mT
        rows, columns = (  # (images, fields, parts · shifts, pixels)
            shifted.transpose(1, 2).flatten(4).flatten(2, 3) for shifted in (down, across)
        )
        total[field : field + some] += (rows @ columns.mT).sum(0)
    by_shift = total.view(fields, out, size, parts, size).flip(2)  # the last row comes first
    return by_shift.permute(1, 0, 3, 2, 4).reshape(-1, parts, size, size)
