"""Deeply supervised networks that find edges: the paper's H-DSN, and the HED it is compared with.

Five stages of two 3×3 convolutions, each at half the resolution of the one before. Every stage has
a side output, a weighted sum of its maps brought back to full size, and a weighted sum of the five
is the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.models._registry import register
from hnets.nn._base import ComputedBuffers, gpu_order, image
from hnets.streams import Streams

WIDTHS = (8, 16, 32, 64, 64)
MEAN, STD = (0.4311, 0.4400, 0.3680), (0.2498, 0.2358, 0.2424)
"""Of the red, green and blue of BSDS500's training and validation photographs."""


class EdgeNetwork(ComputedBuffers):
    """What H-DSN and HED share: the input's mean and variance, side outputs and fusion.

    All levels share the centre of the image, so that only the stages decide what a rotation of the
    image does to the output (`hnets.functional.pyramid`).

    Args:
        stages: from images, or the maps of the stage before, to maps.
        widths: real numbers that `read` gives of the maps of each stage.
    """

    in_chans = 3
    mean: Tensor
    std: Tensor
    halvings: int
    """How often the resolution is halved."""
    levels: tuple[int, ...]
    """How often the maps of each side output were halved."""

    def __init__(self, stages: Sequence[nn.Module], widths: Sequence[int]) -> None:
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.halvings, self.levels = len(stages) - 1, tuple(range(len(stages)))
        self.sides = nn.ModuleList(WeightedSum(width) for width in widths)
        self.fusion = WeightedSum(len(widths))
        nn.init.constant_(self.fusion.weight, 1 / len(widths))
        self._add_computed()

    def _computed(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        for name, values in (("mean", MEAN), ("std", STD)):
            yield name, np.array(values).reshape(1, 3, 1, 1)

    def _buffer_dtype(self, dtype: torch.dtype) -> torch.dtype:
        return dtype  # and so is the input of the first convolution

    def read(self, stage: int, maps: Tensor) -> Tensor:
        """The real numbers of a stage's maps that its side output weighs: here, all of them."""
        return maps

    def halve(self, maps: Tensor) -> Tensor:
        """Maps at half the resolution: here, means."""
        return F.halve2d(maps)

    def forward_features(self, x: Tensor, cut: Sequence[int] = ()) -> list[Tensor]:
        """The maps of every stage, of images as `pad` leaves them.

        ``cut`` is what `hnets.functional.trim` takes: how much less than the images they cover.
        """
        maps = (x - self.mean) / self.std
        features: list[Tensor] = []
        for number, stage in enumerate(self.stages):
            maps = stage(self.halve(maps) if number else maps)
            features.append(F.trim(maps, cut, number))
        return features

    def forward_head(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        """The logits of the sides and the fusion from the maps of the stages."""
        sides = torch.cat(
            [
                F.enlarge2d(side(self.read(number, maps)), height, width, number)
                for number, (side, maps) in enumerate(zip(self.sides, features, strict=True))
            ],
            dim=1,
        )
        return torch.cat([sides, self.fusion(sides)], dim=1)

    def pad(self, x: Tensor) -> Tensor:
        """Images of a size that can be halved, which go on as their mirror images.

        Where a border is repeated instead, its pixels become stripes, which have edges.
        """
        return F.pad_to_halve(x, self.halvings, mirror=True)

    def logits(self, x: Tensor) -> Tensor:
        """``(batch, sides + 1, height, width)``: those of the sides, and of their fusion."""
        if x.dim() != 4 or x.shape[1] != 3:
            raise ValueError(
                f"{type(self).__name__} expects images (batch, 3, height, width) in red, green "
                f"and blue from 0 to 1, got {tuple(x.shape)}"
            )
        image(x, type(self).__name__)  # whole numbers would be taken for values from 0 to 1
        features = self.forward_features(self.pad(x))
        return self.forward_head(features, x.shape[2], x.shape[3])

    def receptive_radius(self) -> int:
        """How many pixels away from a pixel the network looks, at most.

        From the coarsest level down: convolutions reach half their kernels, in pixels of their
        level, and a pixel is made of up to three of the level below, the middle one and one on
        either side. On the way back a pixel is interpolated between two of the coarsest, less than
        one of its pixels away. For five stages of two 3×3 convolutions that is
        2·(2·(2·(2·2 + 3) + 3) + 3) + 3 + 16 = 93.
        """
        radius = 0
        for number, stage in enumerate(reversed(list(self.stages))):
            radius = (2 * radius + 1 if number else 0) + self.kernel_reach(stage)
        return radius + self.decoder_radius()

    def decoder_radius(self) -> int:
        """How many pixels away from a pixel features decide on the output, at most."""
        return int(2**self.halvings)

    @staticmethod
    def kernel_reach(part: nn.Module) -> int:
        """How many pixels of its level away a part of the network looks."""
        convs = (each for each in part.modules() if isinstance(each, nn.Conv2d | hnn.HConv2d))
        sizes = (conv.kernel_size for conv in convs)
        return sum((size if isinstance(size, int) else size[0]) // 2 for size in sizes)

    def forward(self, x: Tensor) -> Tensor:
        """The probability of an edge, 0 to 1: ``(batch, 1, height, width)``.

        Images ``(batch, 3, height, width)`` are red, green and blue from 0 to 1, of any size.
        """
        return self.probability(self.logits(x)[:, -1:])

    def probability(self, logits: Tensor) -> Tensor:
        """That of an edge, from the logits of the fusion."""
        return logits.sigmoid()


class WeightedSum(nn.Conv2d):
    """Weighted sums of maps, by default one."""

    def __init__(self, maps: int, sums: int = 1) -> None:
        super().__init__(maps, sums, 1)
        nn.init.zeros_(self.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, maps, height, width)`` to ``(batch, sums, height, width)``, in their type."""
        weight, bias = self.weight.to(x.dtype), self.get_parameter("bias").to(x.dtype)
        eager = x.device.type == "cpu" and not torch.compiler.is_compiling()
        if not eager or x.dtype.itemsize < 4 or torch.is_autocast_enabled("cpu"):
            return nn.functional.conv2d(x, weight, bias)
        # On CPU, convolutions to a single map are an order of magnitude slower than this.
        sums = weight.flatten(1) @ x.flatten(2) + bias[:, None]
        return sums.unflatten(2, x.shape[2:])


class HDSN(EdgeNetwork):
    """The H-DSN of the paper's Table 2: streams of orders 0 and 1, magnitudes in the side outputs.

    C-ReLU after the first convolution of a stage and batch norm on magnitudes after the second;
    mean pooling. When the image is rotated, so is the output, and the phases of the maps of order 1
    advance by the angle: they say in which direction an edge runs.

    >>> sum(p.numel() for p in HDSN().parameters())
    115891

    Args:
        widths: fields per order of each stage.
        mirror: mirror the edges of mirror images too. Convolutions then have all kernels that
            commute with reflections, 279,043 parameters; see `hnets.nn.HConv2d`.
    """

    def __init__(self, widths: Sequence[int] = WIDTHS, mirror: bool = False) -> None:
        conv = partial(hnn.HConv2d, kernel_size=3, padding="same", mirror=mirror)
        streams, stages = Streams("3x0r"), []
        self.streams = [Streams(f"{width}x0 + {width}x1") for width in widths]
        for out in self.streams:
            stages.append(
                nn.Sequential(
                    conv(streams, out),
                    hnn.ModReLU(out),
                    conv(out, out),
                    hnn.HBatchNorm2d(out),
                )
            )
            streams = out
        super().__init__(stages, [2 * width for width in widths])
        self.magnitudes = nn.ModuleList(hnn.Magnitude(out) for out in self.streams)

    def read(self, stage: int, maps: Tensor) -> Tensor:
        """The magnitudes of both orders."""
        lengths: Tensor = self.magnitudes[stage](maps)
        return lengths


class HED(EdgeNetwork):
    """Holistically-nested edge detection (Xie and Tu, 2015) with two convolutions per stage.

    As the paper compares with it: trained from random values, with batch norm after the second
    convolution of a stage, where the H-DSN has its own. ``hed`` has half of HED's maps; ``hed_low``
    has about as many parameters as the H-DSN.

    >>> [sum(p.numel() for p in build().parameters()) for build in (hed, hed_low)]
    [2354635, 113460]
    """

    def __init__(self, widths: Sequence[int]) -> None:
        before, stages = 3, []
        for width in widths:
            stages.append(
                nn.Sequential(
                    _conv(before, width),
                    nn.ReLU(),
                    _conv(width, width),
                    nn.BatchNorm2d(width),
                    nn.ReLU(),
                )
            )
            before = width
        super().__init__(stages, widths)

    def forward_features(self, x: Tensor, cut: Sequence[int] = ()) -> list[Tensor]:
        """As in `EdgeNetwork`."""
        x = gpu_order(x)
        return super().forward_features(x, cut)

    def halve(self, maps: Tensor) -> Tensor:
        """Maxima."""
        return F.halve_max2d(maps)


def _conv(into: int, out: int) -> nn.Conv2d:
    conv = nn.Conv2d(into, out, 3, padding=1)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    nn.init.zeros_(conv.get_parameter("bias"))
    return conv


hdsn = register("hdsn", partial(HDSN, WIDTHS))
hed = register("hed", partial(HED, (32, 64, 128, 256, 256)))
hed_low = register("hed_low", partial(HED, (7, 14, 28, 56, 56)))
