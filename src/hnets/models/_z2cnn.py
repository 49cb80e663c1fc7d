"""The plain network that the paper compares with, and the plan that it shares with the p4 networks.

The architecture is Cohen and Welling's (2016), in the form that the paper counts: biases in layers
1, 3 and 5, batch norm in layers 2, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from torch import Tensor, nn

from hnets import nn as hnn
from hnets.models._registry import register
from hnets.nn._base import image, probability, whole

WIDTH = 20
SMALLEST = 28
"""Pixels along a side that leave one position to the last layer."""


class SevenLayers(nn.Module):
    """What stands around seven convolutions: norms, ReLU, pooling and dropout.

    ReLU after each layer but the last, batch norm in 2, 4 and 6, max pooling after 2 and dropout,
    if any, after 1, 3, 4, 5 and 6. Without padding an image of 28×28 leaves one position; of
    larger ones, the logits are means over the positions.
    """

    def __init__(
        self,
        in_chans: int,
        num_classes: int,
        convolutions: Sequence[nn.Module],
        norm: Callable[[], nn.Module],
        dropout: float,
    ) -> None:
        super().__init__()
        self.in_chans, self.num_classes = in_chans, num_classes
        dropout = probability(dropout, "dropout")
        *body, last = convolutions
        layers = []
        for number, conv in enumerate(body, start=1):
            layer = nn.Sequential(conv)
            if not has_bias(number):
                layer.append(norm())
            layer.append(nn.ReLU())
            if number == 2:
                layer.append(nn.MaxPool2d(2))
            elif dropout:
                layer.append(nn.Dropout(dropout))
            layers.append(layer)
        self.layers = nn.Sequential(*layers, nn.Sequential(last, hnn.GlobalMean()))

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(batch, num_classes)`` of images ``(batch, in_chans, height, width)``."""
        who = type(self).__name__
        image(x, who)
        if x.shape[1] != self.in_chans or x.shape[2] < SMALLEST or x.shape[3] < SMALLEST:
            raise ValueError(
                f"{who} expects images (batch, {self.in_chans}, height, width) of at least "
                f"{SMALLEST}×{SMALLEST} pixels, got {tuple(x.shape)}"
            )
        logits: Tensor = self.layers(x)
        return logits


def has_bias(number: int) -> bool:
    """Whether a layer, counted from 1, has a bias; the others have a batch norm that shifts."""
    return number % 2 == 1


class Z2CNN(SevenLayers):
    """The plain CNN of the paper's Table 1: six 3×3 layers of 20 maps and a 4×4 one.

    >>> sum(p.numel() for p in Z2CNN().parameters())     # as the paper counts them
    21570
    """

    def __init__(self, in_chans: int = 1, num_classes: int = 10, dropout: float = 0.0) -> None:
        in_chans, num_classes = whole(in_chans, "in_chans"), whole(num_classes, "num_classes")
        body = [
            _conv(in_chans if number == 1 else WIDTH, WIDTH, 3, has_bias(number))
            for number in range(1, 7)
        ]
        last = _conv(WIDTH, num_classes, 4, bias=True)
        norm = partial(nn.BatchNorm2d, WIDTH)
        super().__init__(in_chans, num_classes, [*body, last], norm, dropout)


def _conv(into: int, out: int, size: int, bias: bool) -> nn.Conv2d:
    conv = nn.Conv2d(into, out, size, bias=bias)
    nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    return conv


z2cnn = register("z2cnn", Z2CNN)
