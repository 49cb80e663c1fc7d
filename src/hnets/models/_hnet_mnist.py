"""The paper's network for rotated MNIST."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.basis import Rings
from hnets.models._registry import register
from hnets.nn._base import whole
from hnets.streams import Streams, StreamsLike

WIDTHS = (8, 8, 16, 16, 35, 35)


class HNetMNIST(nn.Module):
    """The H-Net of the paper's Table 1: seven 5×5 layers with streams of orders 0 and 1.

    C-ReLU after layers 1, 3 and 5, batch norm on magnitudes after 2, 4 and 6, mean pooling after 2
    and 4. The last layer has no phases and is read out by `InvariantLogits`.

    >>> sum(p.numel() for p in HNetMNIST().parameters())     # as the paper counts them
    33347

    Args:
        in_chans: channels of the images.
        num_classes: classes of the images.
        rings: ``"exact"``, as in the paper; ``"gaussian"`` ones are fewer (17,801 parameters) and
            depend less on the pixel grid: trained upright only, they follow other angles better.
        mirror: give mirror images the same output too. Convolutions then have all kernels that
            commute with reflections, 101,189 parameters; see `hnets.nn.HConv2d`.
    """

    def __init__(
        self,
        in_chans: int = 1,
        num_classes: int = 10,
        rings: Rings = "exact",
        mirror: bool = False,
    ) -> None:
        super().__init__()
        self.in_chans = whole(in_chans, "in_chans")
        self.num_classes = whole(num_classes, "num_classes")
        conv = partial(hnn.HConv2d, kernel_size=5, padding="same", rings=rings, mirror=mirror)
        streams, layers = Streams(f"{in_chans}x0r"), []
        for number, width in enumerate(WIDTHS, start=1):
            out = Streams(f"{width}x0 + {width}x1")
            act = hnn.HBatchNorm2d(out) if number % 2 == 0 else hnn.ModReLU(out)
            layer = nn.Sequential(conv(streams, out), act)
            if number in (2, 4):
                layer.append(hnn.HAvgPool2d(2))
            layers.append(layer)
            streams = out
        out = Streams(f"{num_classes}x0 + {num_classes}x1")
        last = conv(streams, out, phase="none")
        layers.append(nn.Sequential(last, InvariantLogits(out)))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(batch, num_classes)`` of images ``(batch, in_chans, height, width)``."""
        for layer in self.layers:
            if x.device.type == "cuda":  # where convolutions of many channels are faster so
                x = x.contiguous(memory_format=torch.channels_last)
            x = layer(x)
        return x


class InvariantLogits(nn.Module):
    """Magnitudes, summed over the orders and averaged over the image, plus a bias."""

    def __init__(self, streams: StreamsLike) -> None:
        super().__init__()
        self.magnitude, self.mean = hnn.Magnitude(streams, combine="sum"), hnn.GlobalMean()
        self.in_streams, self.out_streams = self.magnitude.in_streams, self.magnitude.out_streams
        self.bias = nn.Parameter(torch.zeros(self.out_streams.fields))

    def reset_parameters(self) -> None:
        """Start again, with biases of 0."""
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, height, width)`` to ``(batch, num_classes)``."""
        logits: Tensor = self.mean(self.magnitude(x))
        return logits + self.bias


hnet_mnist = register("hnet_mnist", HNetMNIST)
