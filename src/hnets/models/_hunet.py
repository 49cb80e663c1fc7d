"""Segmentation: a harmonic U-Net on any `HResNet`, and the plain one that it is compared with.

An encoder halves the resolution from level to level, and a decoder adds the maps of each level to
those of the coarser ones on the way back to full resolution. All levels share the centre of the
image (`hnets.functional.pyramid`), at every size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.models._hdsn import WeightedSum
from hnets.models._hedge import DecoderLevel
from hnets.models._hresnet import HResNetFeatures
from hnets.models._registry import backbones, create_model, register
from hnets.models._weights import remember_options
from hnets.nn._base import flag, gpu_order, image, probability, whole

LEVELS = 4
"""Stages of the encoder, each with twice the width of the one before."""


class SegmentationNetwork(nn.Module, ABC):
    """What the two U-Nets share: sizes, the norm of the input, and the logits of pixels.

    Subclasses set ``joins``, the decoder from the finest level to the coarsest, each a function of
    the maps of its level and of the coarser ones, and implement `encode` and `read`.

    Args:
        in_chans: channels of the images.
        num_classes: outputs per pixel.
        values: real numbers that `read` gives of a pixel.
        halvings: how often the resolution is halved, to the finest level and to the coarsest.
    """

    def __init__(
        self, in_chans: int, num_classes: int, values: int, halvings: tuple[int, int]
    ) -> None:
        super().__init__()
        self.finest, self.halvings = halvings
        self.in_chans, self._values = whole(in_chans, "in_chans"), values
        self.norm = nn.BatchNorm2d(in_chans, affine=False)
        self.joins = nn.ModuleList()
        self.reset_classifier(num_classes)

    def reset_classifier(self, num_classes: int) -> None:
        """Replace the last layer by a fresh one of other outputs."""
        self.num_classes = whole(num_classes, "num_classes")
        like = self.norm.get_buffer("running_mean")
        self.head = WeightedSum(self._values, num_classes).to(like)
        remember_options(self, num_classes=num_classes)

    @abstractmethod
    def encode(self, x: Tensor) -> list[Tensor]:
        """What the decoder reads of each level, the finest first; it may write over it."""

    @abstractmethod
    def read(self, maps: Tensor) -> Tensor:
        """The real numbers of the decoder's maps that the last layer weighs."""

    def forward_features(self, x: Tensor) -> Tensor:
        """The decoder's maps of the finest level, of images as `pad_to_halve` leaves them."""
        x = gpu_order(x)
        maps: Tensor | None = None
        encoded = self.encode(self.norm(x))
        for join, level in zip(reversed(list(self.joins)), reversed(encoded), strict=True):
            maps = join(level, maps)
        assert maps is not None
        return maps

    def forward_head(self, features: Tensor) -> Tensor:
        """Logits of the decoder's maps."""
        logits: Tensor = self.head(self.read(features))
        return logits

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(batch, num_classes, height, width)`` of images of any size."""
        image(x, type(self).__name__)
        if x.shape[1] != self.in_chans:
            raise ValueError(
                f"{type(self).__name__} expects images (batch, {self.in_chans}, height, width), "
                f"got {tuple(x.shape)}"
            )
        features = self.forward_features(F.pad_to_halve(x, self.halvings))
        return F.enlarge2d(self.forward_head(features), x.shape[2], x.shape[3], self.finest)


class HUNet(SegmentationNetwork):
    """An `HResNet` and a harmonic decoder: rotate the image, and the segmentation rotates with it.

    Exactly so by multiples of 90 degrees, and with ``mirror`` in mirrors along the axes and
    diagonals, at every size of the image; nearly so at other angles. Every layer has a real order 0
    and the orders above it of equal width, and the last one weighs order 0 and the magnitudes of
    the others.

    >>> net = HUNet(in_chans=1, num_classes=2)
    >>> net(torch.rand(1, 1, 37, 50)).shape
    torch.Size([1, 2, 37, 50])
    >>> sum(p.numel() for p in net.parameters())
    374242

    Args:
        in_chans: channels of the images.
        num_classes: outputs per pixel: one, whose sigmoid is a probability, or one per class.
        mirror: whether mirrors are respected too; without it, a network of as many fields has
            nearly twice the parameters.
        orders: the highest rotation order; a vessel, which is its own rotation by 180 degrees, is
            of order 2.
        drop_rate: in training, the probability that a field of a level but the finest is dropped.
        width: fields of the first stage of the encoder, each with all orders, which double from
            stage to stage; None for those of the encoder's own.
        encoder: which backbone: ``hresnet10``, ``hresnet18``, ``hresnet34``, ``hresnet18_wide`` or
            ``hresnet18_light``.
        reduction: how many times smaller the coarsest maps are than the image: 8, 16, or 32, whose
            finest maps are half the size of the image.
    """

    def __init__(
        self,
        in_chans: int = 3,
        num_classes: int = 1,
        mirror: bool = True,
        orders: int = 2,
        drop_rate: float = 0.0,
        width: int | None = 8,
        encoder: str = "hresnet10",
        reduction: int = 8,
    ) -> None:
        if encoder not in backbones():
            raise ValueError(f"encoder is one of {', '.join(backbones())}, got {encoder!r}")
        drop_rate = probability(drop_rate, "drop_rate")
        options: dict[str, Any] = {} if width is None else {"fields": _doubling(width)}
        options |= {"in_chans": in_chans, "orders": orders, "mirror": mirror}
        features = create_model(encoder, features_only=True, reduction=reduction, **options)
        assert isinstance(features, HResNetFeatures)
        sizes = dict(zip(features.feature_info.reduction(), features.streams, strict=True))
        streams = list(sizes.values())  # of each resolution, the last stage
        halvings = min(sizes).bit_length() - 1, max(sizes).bit_length() - 1
        super().__init__(in_chans, num_classes, streams[0].fields, halvings)
        self.encoder, self._levels = features, len(streams)
        self.acts = nn.ModuleList(
            nn.Sequential(
                hnn.FourierAct(each, norm=True),
                *([hnn.HDropout2d(each, drop_rate)] if level else []),
            )
            for level, each in enumerate(streams)
        )
        self.joins.extend(
            DecoderLevel(out, coarser, out, flag(mirror, "mirror"))
            for out, coarser in zip(streams, [*streams[1:], None], strict=True)
        )
        self.magnitude = hnn.Magnitude(streams[0])

    def encode(self, x: Tensor) -> list[Tensor]:
        """As in `SegmentationNetwork`."""
        maps = self.encoder(x)[-self._levels :]
        parts = zip(cast(Iterable[DecoderLevel], self.joins), self.acts, maps, strict=True)
        return [join.lateral(act(each)) for join, act, each in parts]

    def read(self, maps: Tensor) -> Tensor:
        """Order 0 and the magnitudes of the others."""
        lengths: Tensor = self.magnitude(maps)
        return lengths


class UNet(SegmentationNetwork):
    """The plain U-Net (Ronneberger et al., 2015): two 3×3 convolutions per level, down and up.

    With batch norm, maxima on the way down, bilinear enlargement on the way up, and the maps of a
    level stacked on those of the coarser ones.

    >>> sum(p.numel() for p in UNet(in_chans=1, num_classes=2).parameters())
    373592

    Args:
        in_chans: channels of the images.
        num_classes: outputs per pixel.
        drop_rate: in training, the probability that a map of a level but the finest is dropped.
        width: maps of the finest level; the default has as many parameters as `HUNet` has.
    """

    def __init__(
        self,
        in_chans: int = 3,
        num_classes: int = 1,
        drop_rate: float = 0.0,
        width: int = 14,
    ) -> None:
        drop_rate = probability(drop_rate, "drop_rate")
        widths = _doubling(width)
        super().__init__(in_chans, num_classes, width, (0, LEVELS - 1))
        self.stages = nn.ModuleList(
            nn.Sequential(_twice(before, out), nn.Dropout2d(drop_rate if level else 0))
            for level, (before, out) in enumerate(zip([in_chans, *widths], widths, strict=False))
        )
        self.joins.extend(
            _Stacked(out, coarser) for out, coarser in zip(widths, [*widths[1:], 0], strict=True)
        )

    def encode(self, x: Tensor) -> list[Tensor]:
        """As in `SegmentationNetwork`."""
        encoded = [self.stages[0](x)]
        for stage in list(self.stages)[1:]:
            encoded.append(stage(F.halve_max2d(encoded[-1])))
        return encoded

    def read(self, maps: Tensor) -> Tensor:
        """All maps."""
        return maps


class _Stacked(nn.Module):
    """Two convolutions of the maps of a level and the coarser ones; of the coarsest, its maps."""

    def __init__(self, width: int, coarser: int) -> None:
        super().__init__()
        self.layers = _twice(width + coarser, width) if coarser else nn.Identity()

    def forward(self, maps: Tensor, coarser: Tensor | None) -> Tensor:
        if coarser is not None:
            above = F.double2d(coarser, maps.shape[2], maps.shape[3])
            maps = torch.cat([maps, above], dim=1)
        joined: Tensor = self.layers(maps)
        return joined


def _twice(before: int, after: int) -> nn.Sequential:
    parts = list[nn.Module]()
    for into in (before, after):
        conv = nn.Conv2d(into, after, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(conv.weight, nonlinearity="relu")
        parts += [conv, nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*parts)


def _doubling(width: int) -> list[int]:
    return [whole(width, "width") * 2**level for level in range(LEVELS)]


hunet = register("hunet", HUNet)
unet = register("unet", UNet)
