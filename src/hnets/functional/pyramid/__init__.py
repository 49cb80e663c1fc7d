"""Maps of another resolution: pooling, halving about the centre of an image, and enlarging again.

A pyramid whose levels all share the centre of the image rotates with it by 90 degrees exactly. A
level of even length has the means of pairs below it; one of odd length keeps every second pixel,
smoothed with [1 2 1]/4. So that all levels are of one kind, `pad_to_halve` makes a length of 16k
from an even one and of 16k + 1 from an odd one, with the same margin at either end.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._autograd import Halve, MeanPool
from hnets.functional._dispatch import autocast_device, backend, needs_reference, tracing
from hnets.functional.pyramid import reference


def mean_pool2d(x: Tensor, size: int) -> Tensor:
    """Means of non-overlapping squares; rows and columns that do not fill one are cut off.

    ``avg_pool2d`` keeps its input for a gradient that does not depend on it, and is slow on CPU.

    >>> mean_pool2d(torch.arange(4.0).reshape(1, 1, 2, 2), 2)
    tensor([[[[1.5000]]]])
    """
    if needs_reference(x) or x.shape[2] < size or x.shape[3] < size:
        return F.avg_pool2d(x, size)
    if torch.is_grad_enabled():
        return MeanPool.apply(x, size)
    return backend("pyramid", x).mean_pool(x, size)


def gaussian_window(size: int, sigma: float) -> Tensor:
    """A normalised Gaussian of ``size`` samples about its middle, in float64 on the CPU.

    >>> gaussian_window(4, 1.0).sum()
    tensor(1., dtype=torch.float64)
    """
    offset = torch.arange(size, dtype=torch.float64, device="cpu") - (size - 1) / 2
    window = (-(offset**2) / (2 * sigma**2)).exp()
    return window / window.sum()


def blur_pool2d(x: Tensor, window: Tensor, stride: int) -> Tensor:
    """Blur with a separable window, reflecting at the border, and keep every ``stride``-th pixel.

    The window and the stride are both odd or both even; ``size − stride`` pixels of padding, half
    on either side, then put the centres where mean pooling puts them.
    """
    channels, size = x.shape[1], window.numel()
    pad = (size - stride) // 2
    window = window.to(x)
    x = F.pad(x, (pad, pad, pad, pad), mode="reflect")
    across = window.view(1, 1, 1, size).expand(channels, 1, 1, size)
    down = window.view(1, 1, size, 1).expand(channels, 1, size, 1)
    x = F.conv2d(x, across, stride=(1, stride), groups=channels)
    return F.conv2d(x, down, stride=(stride, 1), groups=channels)


def pad_to_halve(x: Tensor, times: int, mirror: bool = False) -> Tensor:
    """Repeat the border of ``(batch, channels, height, width)`` so that it can be halved.

    With ``mirror``, an image goes on as its mirror image instead, as `pad_mirrored` makes it.

    >>> pad_to_halve(torch.zeros(1, 1, 24, 321), 4).shape
    torch.Size([1, 1, 32, 321])
    """
    down, across = (margin_to_halve(side, times) for side in x.shape[2:])
    if not tracing() and not down and not across:
        return x
    margins = across, across, down, down
    return pad_mirrored(x, margins, times) if mirror else F.pad(x, margins, mode="replicate")


def pad_mirrored(x: Tensor, margins: Sequence[int], times: int) -> Tensor:
    """Continue ``(batch, channels, height, width)`` as its mirror image, the border once.

    ``margins``, at the left, right, top and bottom, are at most those of `margin_to_halve`. Torch's
    "reflect" refuses the ones that are as long as the side; here it is mirrored back and forth.

    >>> pad_mirrored(torch.tensor([[[[1.0, 2.0, 3.0]]]]), (3, 1, 0, 0), 4)
    tensor([[[[2., 3., 2., 1., 2., 3., 2.]]]])
    """
    for axis, (before, after) in ((3, margins[:2]), (2, margins[2:])):
        if not tracing() and not before and not after:
            continue
        last = x.shape[axis] - 1
        at = torch.arange(-before, last + 1 + after, device=x.device)
        for _ in range(max(1, 2**times // 4)):  # two pixels with a margin of 2**times / 2 − 1
            at = last - (last - at.abs()).abs()
        x = x.index_select(axis, at)
    return x


def margin_to_halve(side: int, times: int) -> int:
    """How many pixels `pad_to_halve` adds at either end of a side.

    They make the half of an even side, or of one less, a multiple of what one halving less needs.

    >>> margin_to_halve(24, 4)
    4
    """
    if times == 0:
        return 0
    step = 2**times
    return (side + step - 2) // step * (step // 2) - side // 2


def crop(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of ``(batch, channels, height, width)``: the inverse of `pad_to_halve`."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    if tracing():  # a graph would specialise on whether a slice is the whole map
        rows, columns = (torch.arange(side, device=x.device) for side in (height, width))
        return x.index_select(2, rows + top).index_select(3, columns + left)
    return x[:, :, top : top + height, left : left + width]


def trim(x: Tensor, cut: Sequence[int], times: int) -> Tensor:
    """Crop maps that were halved ``times`` by a margin given in pixels of the full size.

    ``cut`` is the margin left, right, above and below, in multiples of ``2**times``, or empty.

    >>> trim(torch.zeros(1, 1, 9, 9), (0, 8, 4, 0), 2).shape
    torch.Size([1, 1, 8, 7])
    """
    if not any(cut):
        return x
    left, right, top, bottom = (side >> times for side in cut)
    return x[:, :, top : x.shape[2] - bottom, left : x.shape[3] - right]


def halve2d(x: Tensor) -> Tensor:
    """Means of pairs along an even side, [1 2 1]/4 at every second pixel of an odd one.

    >>> halve2d(torch.tensor([[[[0.0, 4.0, 8.0]]]]))
    tensor([[[[1., 7.]]]])
    """
    if needs_reference(x):
        return reference.halve(x)
    if x.shape[2] % 2 == x.shape[3] % 2 == 0:
        return mean_pool2d(x, 2)
    if torch.is_grad_enabled():
        return Halve.apply(x)
    return backend("pyramid", x).halve(x)


def halve_max2d(x: Tensor) -> Tensor:
    """Maxima in place of means, over the same pixels."""
    if tracing():
        return reference.halve_max(x)
    odd_height, odd_width = x.shape[2] % 2, x.shape[3] % 2
    return F.max_pool2d(x, (2 + odd_height, 2 + odd_width), 2, (odd_height, odd_width))


def enlarge2d(x: Tensor, height: int, width: int, times: int) -> Tensor:
    """Bilinear interpolation back to the size before ``times`` halvings, or the middle of it.

    >>> enlarge2d(torch.tensor([[[[1.0, 7.0]]]]), 1, 3, 1)
    tensor([[[[1., 4., 7.]]]])
    """
    device = autocast_device(x)
    if torch.is_autocast_enabled(device):  # 8 bits are too few for the position of a pixel
        with torch.autocast(device, enabled=False):
            return enlarge2d(x.float(), height, width, times).to(x.dtype)
    if times == 0:
        return crop(x, height, width)
    down = _weights(height, x.shape[2], times, x)
    across = _weights(width, x.shape[3], times, x)
    return down @ x @ across.T


def double2d(x: Tensor, height: int, width: int) -> Tensor:
    """Bilinear interpolation back to the size before one halving, in the precision of the maps.

    >>> double2d(torch.tensor([[[[1.0, 7.0]]]]), 1, 3)
    tensor([[[[1., 4., 7.]]]])
    """
    odd = height % 2
    # A graph would specialise on whether sides are odd.
    if not tracing() and x.device.type == "cpu" and odd == width % 2:
        return F.interpolate(x, (height, width), mode="bilinear", align_corners=bool(odd))
    # Weights are quarters, which half precision holds exactly.
    down, across = (
        _weights(fine, coarse, 1, x)
        for fine, coarse in zip((height, width), x.shape[2:], strict=True)
    )
    doubled = down @ x.contiguous() @ across.T
    if x.is_contiguous(memory_format=torch.channels_last):
        return doubled.contiguous(memory_format=torch.channels_last)
    return doubled


def _weights(fine: int, coarse: int, times: int, like: Tensor) -> Tensor:
    """The weight of each coarse pixel in each fine one, ``(fine, coarse)``."""
    dtype = torch.promote_types(like.dtype, torch.float32)
    # Twice the position, a whole number: exported graphs have no fractions of symbolic sizes.
    at = torch.arange(fine, device=like.device, dtype=dtype) * 2 - (fine - 1)
    at = ((at / 2**times + (coarse - 1)) / 2).clamp(0, coarse - 1)
    pixels = torch.arange(coarse, device=like.device, dtype=dtype)
    return (1 - (at[:, None] - pixels).abs()).clamp(min=0).to(like.dtype)
