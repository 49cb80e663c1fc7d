"""The paper's network for rotated MNIST."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.basis import Rings
from hnets.nn._checks import whole
from hnets.streams import Streams, StreamsLike

__all__ = ["HNetMNIST", "InvariantLogits", "hnet_mnist"]

WIDTHS = (8, 8, 16, 16, 35, 35, 10)


class HNetMNIST(nn.Module):
    """Seven 5×5 layers with streams of orders 0 and 1; 33,347 parameters as the paper counts them.

    C-ReLU after layers 1, 3 and 5, batch norm on magnitudes after 2, 4 and 6, mean pooling after 2
    and 4. The last layer has no phases and is read out by `InvariantLogits`.

    Gaussian ``rings`` are fewer than the exact ones of the paper and lean less on the pixel grid:
    trained upright only, they follow other angles better.
    """

    def __init__(self, in_channels: int = 1, classes: int = 10, rings: Rings = "exact") -> None:
        super().__init__()
        self.in_channels, classes = whole(in_channels, "in_channels"), whole(classes, "classes")
        conv = partial(hnn.HConv2d, kernel_size=5, padding="same", rings=rings)
        streams = Streams(f"{in_channels}x0r")
        layers = []
        for number, width in enumerate(WIDTHS[:-1], start=1):
            out = Streams(f"{width}x0 + {width}x1")
            act = hnn.HBatchNorm2d(out) if number % 2 == 0 else hnn.ModReLU(out)
            layer = nn.Sequential(conv(streams, out), act)
            if number in (2, 4):
                layer.append(hnn.HAvgPool2d(2))
            layers.append(layer)
            streams = out
        out = Streams(f"{classes}x0 + {classes}x1")
        last = conv(streams, out, phase="none")
        layers.append(nn.Sequential(last, InvariantLogits(out)))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(batch, classes)`` of pictures ``(batch, channels, height, width)``."""
        for layer in self.layers:
            if x.device.type == "cuda":  # where convolutions of many channels are faster so
                x = x.contiguous(memory_format=torch.channels_last)
            x = layer(x)
        return x


class InvariantLogits(nn.Module):
    """Magnitudes, summed over the orders and averaged over the picture, plus a bias."""

    def __init__(self, streams: StreamsLike) -> None:
        super().__init__()
        self.magnitude, self.mean = hnn.Magnitude(streams, combine="sum"), hnn.GlobalMean()
        self.in_streams, self.out_streams = self.magnitude.in_streams, self.magnitude.out_streams
        self.bias = nn.Parameter(torch.zeros(self.out_streams.fields))

    def reset_parameters(self) -> None:
        """Start again, with biases of 0."""
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, height, width)`` to ``(batch, classes)``."""
        logits: Tensor = self.mean(self.magnitude(x))
        return logits + self.bias


def hnet_mnist(in_channels: int = 1, classes: int = 10, rings: Rings = "exact") -> HNetMNIST:
    """The H-Net of the paper's Table 1, untrained; with Gaussian rings, a smaller relative of it.

    >>> sum(p.numel() for p in hnet_mnist().parameters())
    33347
    >>> sum(p.numel() for p in hnet_mnist(rings="gaussian").parameters())
    17801
    """
    return HNetMNIST(in_channels, classes, rings)
