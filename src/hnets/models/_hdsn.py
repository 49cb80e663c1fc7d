"""Deeply supervised networks that find boundaries: the paper's H-DSN, and the HED it is held to.

Five stages of two 3×3 convolutions, each at half the resolution of the one before. Every stage has
a side output, a weighted mean of its maps brought back to full size, and a weighted mean of the
five is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.streams import Streams

__all__ = ["HDSN", "HED", "EdgeNetwork", "hdsn", "hed", "hed_low"]

WIDTHS = (8, 16, 32, 64, 64)
MEAN, STD = (0.4311, 0.4400, 0.3680), (0.2498, 0.2358, 0.2424)
"""Of the red, green and blue of BSDS500's training and validation photographs."""


class EdgeNetwork(nn.Module):
    """What stands around five stages: the input's mean and variance, side outputs and fusion.

    All levels share the centre of the picture, so that nothing in here but the stages decides what
    becomes of a turned picture (`hnets.functional.pyramid`).

    Args:
        stages: from pictures, or the maps of the stage before, to maps.
        widths: real numbers that `read` gives of the maps of each stage.
    """

    in_channels = 3
    mean: Tensor
    std: Tensor

    def __init__(self, stages: Sequence[nn.Module], widths: Sequence[int]) -> None:
        super().__init__()
        for name, values in (("mean", MEAN), ("std", STD)):
            buffer = torch.tensor(values).view(1, 3, 1, 1)
            self.register_buffer(name, buffer, persistent=False)
        self.stages = nn.ModuleList(stages)
        self.sides = nn.ModuleList(WeightedSum(width) for width in widths)
        self.fusion = WeightedSum(len(widths))
        nn.init.constant_(self.fusion.weight, 1 / len(widths))

    def read(self, stage: int, maps: Tensor) -> Tensor:
        """The real numbers of a stage's maps that its side output weighs."""
        raise NotImplementedError

    def halve(self, maps: Tensor) -> Tensor:
        """Maps at half the resolution."""
        raise NotImplementedError

    def features(self, x: Tensor) -> list[Tensor]:
        """The maps of every stage, of pictures as `pad_to_halve` leaves them."""
        maps = (x - self.mean) / self.std
        found: list[Tensor] = []
        for number, stage in enumerate(self.stages):
            maps = stage(self.halve(maps) if number else maps)
            found.append(maps)
        return found

    def answers(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        """The logits of the sides and the fusion from the maps of the stages."""
        sides = torch.cat(
            [
                F.enlarge2d(side(self.read(number, maps)), height, width, number)
                for number, (side, maps) in enumerate(zip(self.sides, features, strict=True))
            ],
            dim=1,
        )
        return torch.cat([sides, self.fusion(sides)], dim=1)

    def logits(self, x: Tensor) -> Tensor:
        """``(batch, 6, height, width)``: those of the five sides, and of their fusion."""
        if x.dim() != 4 or x.shape[1] != 3:
            raise ValueError(
                f"{type(self).__name__} expects pictures (batch, 3, height, width) in red, green "
                f"and blue from 0 to 1, got {tuple(x.shape)}"
            )
        height, width = x.shape[2:]
        return self.answers(self.features(F.pad_to_halve(x, len(self.stages) - 1)), height, width)

    def forward(self, x: Tensor) -> Tensor:
        """How sure the network is of a boundary, 0 to 1: ``(batch, 1, height, width)``.

        Pictures ``(batch, 3, height, width)`` are red, green and blue from 0 to 1, of any size.
        """
        return self.logits(x)[:, -1:].sigmoid()


class WeightedSum(nn.Conv2d):
    """A weighted sum of maps."""

    def __init__(self, maps: int) -> None:
        super().__init__(maps, 1, 1)
        nn.init.zeros_(self.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, maps, height, width)`` to ``(batch, 1, height, width)``."""
        eager = x.device.type == "cpu" and not torch.compiler.is_compiling()
        if not eager or x.dtype.itemsize < 4 or torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        # On CPU, convolutions to a single map are an order of magnitude slower than this.
        sums = self.weight.flatten(1) @ x.flatten(2) + self.get_parameter("bias")
        return sums.view(len(x), 1, *x.shape[2:])


class HDSN(EdgeNetwork):
    """The paper's H-DSN: streams of orders 0 and 1, magnitudes in the side outputs.

    C-ReLU after the first convolution of a stage and batch norm on magnitudes after the second;
    mean pooling. Turn the picture, and the answer turns with it, while the phases of the maps of
    order 1 advance by the angle: they say which way a boundary runs.
    """

    def __init__(self) -> None:
        streams, stages = Streams("3x0r"), []
        self.streams = [Streams(f"{width}x0 + {width}x1") for width in WIDTHS]
        for out in self.streams:
            stages.append(
                nn.Sequential(
                    hnn.HConv2d(streams, out, kernel_size=3, padding="same"),
                    hnn.ModReLU(out),
                    hnn.HConv2d(out, out, kernel_size=3, padding="same"),
                    hnn.HBatchNorm2d(out),
                )
            )
            streams = out
        super().__init__(stages, [2 * width for width in WIDTHS])
        self.magnitudes = nn.ModuleList(hnn.Magnitude(out) for out in self.streams)

    def read(self, stage: int, maps: Tensor) -> Tensor:
        """The magnitudes of both orders."""
        lengths: Tensor = self.magnitudes[stage](maps)
        return lengths

    def halve(self, maps: Tensor) -> Tensor:
        """Means."""
        return F.halve2d(maps)


class HED(EdgeNetwork):
    """Holistically-nested edge detection (Xie and Tu, 2015) with two convolutions a stage.

    As the paper compares with it: trained from random values, with batch norm after the second
    convolution of a stage, where the H-DSN has its own.
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

    def features(self, x: Tensor) -> list[Tensor]:
        """The maps of every stage, of pictures as `pad_to_halve` leaves them."""
        if x.device.type == "cuda":  # in the order that cuDNN's fastest kernels and norms take
            x = x.contiguous(memory_format=torch.channels_last)
        return super().features(x)

    def read(self, stage: int, maps: Tensor) -> Tensor:
        """The maps themselves."""
        return maps

    def halve(self, maps: Tensor) -> Tensor:
        """Maxima."""
        return F.halve_max2d(maps)


def _conv(into: int, out: int) -> nn.Conv2d:
    conv = nn.Conv2d(into, out, 3, padding=1)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    nn.init.zeros_(conv.get_parameter("bias"))
    return conv


def hdsn() -> HDSN:
    """The H-DSN of the paper's Table 2.

    >>> sum(p.numel() for p in hdsn().parameters())
    115891
    """
    return HDSN()


def hed() -> HED:
    """HED with half its maps, as in the paper's Table 2.

    >>> sum(p.numel() for p in hed().parameters())
    2354635
    """
    return HED((32, 64, 128, 256, 256))


def hed_low() -> HED:
    """HED with about as many parameters as the H-DSN.

    >>> sum(p.numel() for p in hed_low().parameters())
    113460
    """
    return HED((7, 14, 28, 56, 56))
