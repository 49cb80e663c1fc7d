"""Changing the resolution, and where the centres of equivariance go.

A feature map is equivariant about the centre of each of its pixels. Pooling by s leaves one such
centre per s×s pixels, at their middle: between pixels where s is even. The image's own centre stays
one of symmetry as long as s divides its height and width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import InputPrecisionBuffers, image, square, width


class HAvgPool2d(nn.Module):
    """Mean of non-overlapping squares, as the paper pools; no maximum, which would move centres.

    Centres of equivariance go to the middles of the squares. Rows and columns that do not fill a
    square are cut off at the bottom and right, which shifts the centre of the image.
    """

    def __init__(self, kernel_size: int | tuple[int, int]) -> None:
        super().__init__()
        self.kernel_size = square(kernel_size, "kernel_size")

    def forward(self, x: Tensor) -> Tensor:
        """Pool ``(batch, channels, height, width)``."""
        image(x, "HAvgPool2d")
        return F.mean_pool2d(x, self.kernel_size)

    def extra_repr(self) -> str:
        """The size, for `print`."""
        return str(self.kernel_size)


class HBlurPool2d(InputPrecisionBuffers):
    """Gaussian blur, then every ``stride``-th pixel: less aliasing than a mean (section 4.2).

    Centres of equivariance go where `HAvgPool2d` puts them: the window has the parity of the
    stride. The border is continued by reflection.

    Args:
        stride: factor by which height and width shrink.
        sigma: width of the Gaussian in pixels; by default a third of the stride.
    """

    window: Tensor

    def __init__(self, stride: int | tuple[int, int] = 2, sigma: float | None = None) -> None:
        super().__init__()
        self.stride = square(stride, "stride")
        self.sigma = self.stride / 3 if sigma is None else width(sigma, "sigma", most=1000)
        self._add_computed()

    def _computed(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        size = self.stride + 2 * math.ceil(2 * self.sigma)
        yield "window", F.gaussian_window(size, self.sigma).numpy()

    def forward(self, x: Tensor) -> Tensor:
        """Pool ``(batch, channels, height, width)``."""
        image(x, "HBlurPool2d")
        return F.blur_pool2d(x, self._buffer_for(x, "window"), self.stride)

    def extra_repr(self) -> str:
        """The arguments, for `print`."""
        return f"stride={self.stride}, sigma={self.sigma:g}"


class HUpsample2d(nn.Module):
    """Bilinear interpolation to ``scale`` times the size, by default twice.

    Every pixel becomes a scale×scale square about its own centre of equivariance; the new centres
    are as good as the interpolation between the old ones.
    """

    def __init__(self, scale: int | tuple[int, int] = 2) -> None:
        super().__init__()
        self.scale = square(scale, "scale")

    def forward(self, x: Tensor) -> Tensor:
        """Enlarge ``(batch, channels, height, width)``."""
        image(x, "HUpsample2d")
        return nn.functional.interpolate(
            x, scale_factor=float(self.scale), mode="bilinear", align_corners=False
        )

    def extra_repr(self) -> str:
        """The factor, for `print`."""
        return str(self.scale)


class GlobalMean(nn.Module):
    """Mean over the image: ``(batch, channels, height, width)`` to ``(batch, channels)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over height and width."""
        image(x, "GlobalMean")
        return x.mean((2, 3))
