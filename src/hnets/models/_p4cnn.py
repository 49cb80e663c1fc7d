"""The networks of Cohen and Welling (2016), which the paper compares with.

One is plain, the others are equivariant to rotations by 90°. There a feature map has each channel
in four orientations, as a plain tensor ``(batch, 4·channels, height, width)``, the four of one
channel being neighbours. When the input is rotated by 90 degrees counter-clockwise, so is the map,
and what was in orientation r is in orientation r + 1.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.models._classifier import Classifier
from hnets.models._registry import register
from hnets.nn._base import image, probability

SMALLEST = 28
"""Pixels along a side that leave one position to the last layer."""


class SevenLayers(Classifier):
    """Six 3×3 layers and a 4×4 one, without padding, in the form that the paper counts.

    ReLU after each layer but the last, biases in 1, 3, 5 and 7, batch norm in 2, 4 and 6, max
    pooling after 2 and dropout, if any, after 1, 3, 4, 5 and 6. An image of 28×28 leaves one
    position; of larger ones, the logits are means over the positions.

    Subclasses say how wide layers are, in how many orientations, and what makes them.
    """

    last_layer = "layers.6"
    width: int
    orientations = 1

    def __init__(self, in_chans: int = 1, num_classes: int = 10, dropout: float = 0.0) -> None:
        super().__init__(in_chans, num_classes)
        dropout = probability(dropout, "dropout")
        layers, self.feature_info = list[nn.Module](), []
        for number in range(1, 7):
            bias = number % 2 == 1  # the others have a batch norm, which shifts
            into = in_chans if number == 1 else self.width
            layer = nn.Sequential(self._conv(number, into, self.width, 3, bias))
            if not bias:
                layer.append(self._norm(self.width))
            layer.append(nn.ReLU())
            if number == 2:
                layer.append(nn.MaxPool2d(2))
            elif dropout:
                layer.append(nn.Dropout(dropout))
            layers.append(layer)
            self.feature_info.append(
                {
                    "num_chs": self.width * self.orientations,
                    "reduction": 1 if number == 1 else 2,
                    "module": f"layers.{number - 1}",
                }
            )
        self.num_features = self.width
        self.layers = nn.Sequential(*layers, nn.Identity())
        self.reset_classifier(num_classes)

    @abstractmethod
    def _conv(self, number: int, into: int, out: int, size: int, bias: bool) -> nn.Module:
        """The convolution of a layer, by its number and the channels into it and out of it."""

    def _norm(self, channels: int) -> nn.Module:
        return nn.BatchNorm2d(channels)

    def forward_features(self, x: Tensor) -> Tensor:
        """The maps of the last layer but one."""
        who = type(self).__name__
        image(x, who)
        if x.shape[1] != self.in_chans or x.shape[2] < SMALLEST or x.shape[3] < SMALLEST:
            raise ValueError(
                f"{who} expects images (batch, {self.in_chans}, height, width) of at least "
                f"{SMALLEST}×{SMALLEST} pixels, got {tuple(x.shape)}"
            )
        for layer in list(self.layers)[:-1]:
            x = layer(x)
        return x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits ``(batch, num_classes)`` of those maps, or their means over the image.

        Of the means of a channel in several orientations, the largest.
        """
        if pre_logits or not self.num_classes:
            return x.mean((2, 3)).unflatten(1, (-1, self.orientations)).amax(2)
        logits: Tensor = self.layers[-1](x)
        return logits

    def _new_classifier(self) -> nn.Module:
        return nn.Sequential(self._conv(7, self.width, self.num_classes, 4, True), hnn.GlobalMean())


class Z2CNN(SevenLayers):
    """The plain CNN of the paper's Table 1: seven layers, of 20 maps each.

    >>> sum(p.numel() for p in Z2CNN().parameters())     # as the paper counts them
    21570
    """

    width = 20

    def _conv(self, number: int, into: int, out: int, size: int, bias: bool) -> nn.Conv2d:
        conv = nn.Conv2d(into, out, size, bias=bias)
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        if conv.bias is not None:
            nn.init.zeros_(conv.bias)
        return conv


def p4_kernel(weight: Tensor) -> Tensor:
    """The filter bank ``(4·out, in·s, k, k)`` of filters ``(out, in, s, k, k)``.

    Every filter is rotated to the four orientations; one that acts on feature maps (s = 4) has its
    own orientations moved on as well, one that acts on an image (s = 1) has none.

    >>> p4_kernel(torch.tensor([[0.0, 1.0], [2.0, 3.0]]).view(1, 1, 1, 2, 2))[1, 0]
    tensor([[1., 3.],
            [0., 2.]])
    """
    rotated = [torch.rot90(weight.roll(r, 2), r, (3, 4)) for r in range(4)]
    return torch.stack(rotated, dim=1).flatten(2, 3).flatten(0, 1)


class P4Conv2d(nn.Module):
    """A convolution over positions and rotations by 90°, as one plain convolution.

    >>> P4Conv2d(3, 10, 3, lift=True)(torch.randn(2, 3, 12, 12)).shape
    torch.Size([2, 40, 10, 10])

    With ``lift`` the input is an image, without orientations; with ``pool`` the output keeps the
    maximum of its four. A bias is one value per output channel.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        bias: bool = True,
        *,
        lift: bool = False,
        pool: bool = False,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.orientations, self.pool = kernel_size, 1 if lift else 4, pool
        # Four dimensions, as memory formats want them of every convolution.
        shape = (out_channels, in_channels * self.orientations, kernel_size, kernel_size)
        self.weight = nn.Parameter(torch.empty(shape))
        self.bias = nn.Parameter(torch.empty(self.out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw filters that keep the scale of activations through a ReLU (He et al., 2015)."""
        nn.init.kaiming_normal_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Convolve ``(batch, in channels · orientations, height, width)``."""
        kernel = p4_kernel(self.weight.unflatten(1, (self.in_channels, self.orientations)))
        bias = None if self.bias is None else self.bias.repeat_interleave(4)
        y = F.conv2d(x, kernel, bias)
        return y.unflatten(1, (self.out_channels, 4)).amax(2) if self.pool else y

    def extra_repr(self) -> str:
        """The arguments, for `print`."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"bias={self.bias is not None}, lift={self.orientations == 1}, pool={self.pool}"
        )


class P4BatchNorm2d(nn.Module):
    """Batch norm with one scale and one shift for the four orientations of a channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise over batch, orientations and positions."""
        by_channel = x.unflatten(1, (-1, 4)).flatten(2, 3)  # (batch, channels, 4·height, width)
        normed: Tensor = self.norm(by_channel)
        return normed.reshape(x.shape)


class P4CNN(SevenLayers):
    """The P4CNN of the paper's Table 1: `Z2CNN` with 10 channels in four orientations per layer.

    The last layer keeps the maximum over the orientations, so that rotations by 90 degrees do not
    change the logits.

    >>> sum(p.numel() for p in P4CNN().parameters())
    24590
    """

    width, orientations = 10, 4

    def _conv(self, number: int, into: int, out: int, size: int, bias: bool) -> P4Conv2d:
        return P4Conv2d(into, out, size, bias, lift=number == 1, pool=number == 7)

    def _norm(self, channels: int) -> P4BatchNorm2d:
        return P4BatchNorm2d(channels)


class P4CNNPooling(SevenLayers):
    """The P4CNN with rotation pooling of the paper's Table 1.

    `Z2CNN` with the maximum over the four rotations of every filter: no layer passes orientations
    on, so that the next cannot tell how parts are rotated relative to one another.

    >>> sum(p.numel() for p in P4CNNPooling().parameters())
    21570
    """

    width = 20

    def _conv(self, number: int, into: int, out: int, size: int, bias: bool) -> P4Conv2d:
        return P4Conv2d(into, out, size, bias, lift=True, pool=True)


z2cnn = register("z2cnn", Z2CNN)
p4cnn = register("p4cnn", P4CNN)
p4cnn_pooling = register("p4cnn_pooling", P4CNNPooling)
