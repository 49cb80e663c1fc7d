"""Residual backbones of harmonic layers, for images of things that have no up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any, Literal

from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.functional._dispatch import tracing
from hnets.functional.pyramid import margin_to_halve
from hnets.models._classifier import Classifier, FeatureInfo, indices_of
from hnets.models._hedge import harmonic_conv
from hnets.models._registry import register
from hnets.models._weights import remember_options
from hnets.nn._base import circle, flag, gpu_order, image, probability, whole
from hnets.streams import Streams

STEM = (7, 8)
"""Kernel and fields of the first layer, at full resolution, where fields cost most."""
FIELDS = (12, 24, 38, 72)
"""With orders to 2, five channels each: just below 64, 128 and 192, and a multiple of 8, for which
GPUs have their fastest convolutions."""


class HResNet(Classifier):
    """A stem, four stages of residual blocks, and logits that do not depend on the rotation.

    Every layer has a real order 0 and orders 1 to ``orders`` of equal width: functions on the
    circle, by which `hnets.nn.FourierAct` mixes them. The resolution is halved about the centre of
    the image, so that rotations by 90 degrees are exact at every size: sides that cannot be halved
    often enough, which multiples of ``reduction`` can, are padded by repeating the border.

    >>> import hnets, torch
    >>> net = hnets.create_model("hresnet10", num_classes=5).eval()
    >>> net(torch.rand(1, 3, 64, 64)).shape
    torch.Size([1, 5])

    Args:
        blocks: residual blocks of each stage.
        fields: fields per order of each stage.
        light: whether blocks are `hnets.nn.LightBlock`, two for each `hnets.nn.ResidualBlock`.
        in_chans: channels of the images.
        num_classes: classes of the images; 0 gives ``num_features`` numbers per image.
        orders: the highest rotation order.
        mirror: give mirror images the same output too. What has no up is mostly seen from above or
            through a microscope, and its mirror image means the same. For letters, or where the
            label is the handedness, use False, which has up to 1.9 times the parameters.
        reduction: how many times smaller the last maps are than the image. 16 leaves out the
            halving in the stem and costs up to four times as much, for images of up to 128 pixels;
            8 leaves out that of the first stage too and costs up to 16 times as much, for up to 64.
        kernel_size: pixels along a side of the kernels after the stem.
        squeeze: gate the fields of each block, as `hnets.nn.SqueezeExcite` does.
        drop_rate: in training, the probability that a feature is dropped before the last layer.
        global_pool: what is kept of each magnitude over the image: ``"avg"``, or ``"max"``, which
            follows other angles less well.
    """

    fc: nn.Module

    def __init__(
        self,
        blocks: Sequence[int],
        fields: Sequence[int] = FIELDS,
        light: bool = False,
        in_chans: int = 3,
        num_classes: int = 1000,
        orders: int = 2,
        mirror: bool = True,
        reduction: int = 32,
        kernel_size: int = 5,
        squeeze: bool = False,
        drop_rate: float = 0.0,
        global_pool: Literal["avg", "max"] = "avg",
    ) -> None:
        super().__init__(in_chans, num_classes)
        if not isinstance(fields, tuple | list) or len(fields) != len(blocks):
            raise ValueError(f"fields are {len(blocks)} whole numbers, got {fields!r}")
        if reduction not in (8, 16, 32):
            raise ValueError(f"reduction is 8, 16 or 32, got {reduction!r}")
        options: dict[str, Any] = {"mirror": flag(mirror, "mirror"), "kernel_size": kernel_size}
        options["squeeze"] = flag(squeeze, "squeeze")
        circles = [
            circle(whole(width, "fields"), whole(orders, "orders")) for width in (STEM[1], *fields)
        ]
        halved = [reduction == 32, reduction > 8, *[True] * (len(blocks) - 1)]
        stages: list[nn.Module] = [_Stem(in_chans, circles[0], mirror, halved[0])]
        for number, count in enumerate(blocks):
            ends = (circles[number], circles[number + 1])
            stages.append(_Blocks(*ends, count, flag(light, "light"), halved[number + 1], options))
        self.stages, self.halvings = nn.Sequential(*stages), sum(halved)
        self.feature_info: list[dict[str, Any]] = [
            {
                "num_chs": streams.channels,
                "reduction": 2 ** sum(halved[: number + 1]),
                "module": f"stages.{number}",
                "streams": streams,
            }
            for number, streams in enumerate(circles)
        ]
        self.act = hnn.FourierAct(circles[-1], norm=True)
        self.magnitude = hnn.Magnitude(circles[-1])
        self.num_features = self.magnitude.out_streams.fields
        self.norm = nn.BatchNorm1d(self.num_features)
        self.drop = nn.Dropout(probability(drop_rate, "drop_rate"))
        self.reset_classifier(num_classes, global_pool)

    def features(self, out_indices: int | Sequence[int] | None = None) -> HResNetFeatures:
        """The stem and stages alone, which return their maps: what ``features_only`` gives."""
        return HResNetFeatures(self, out_indices)

    def forward_features(self, x: Tensor) -> Tensor:
        """The maps of the last stage, normalised and through the nonlinearity."""
        image(x, type(self).__name__)
        maps: Tensor = self.act(self.stages(F.pad_to_halve(x, self.halvings)))
        return maps

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits ``(batch, num_classes)`` of those maps, or the features that they are made of."""
        lengths = self.magnitude(x)
        pooled = lengths.amax((2, 3)) if self.global_pool == "max" else lengths.mean((2, 3))
        features: Tensor = self.drop(self.norm(pooled))
        return features if pre_logits else self.fc(features)

    def reset_classifier(
        self, num_classes: int, global_pool: Literal["avg", "max"] | None = None
    ) -> None:
        """Replace the last layer by a new one for other classes; 0 leaves it out."""
        if global_pool is not None:
            if global_pool not in ("avg", "max"):
                raise ValueError(f'global_pool is "avg" or "max", got {global_pool!r}')
            self.global_pool = global_pool
            remember_options(self, global_pool=global_pool)
        super().reset_classifier(num_classes)


class HResNetFeatures(nn.Module):
    """The maps of the stem and the stages of an `HResNet`, a list with the finest first.

    They are sums of a residual network, without norm or nonlinearity, and rotate with the image as
    their ``streams`` say. A side of the image is a multiple of the reduction, or one more, so that
    all maps share its centre; `hnets.functional.pad_to_halve` makes it so.

    >>> import hnets, torch
    >>> net = hnets.create_model("hresnet10", features_only=True, out_indices=(1, 4))
    >>> [tuple(maps.shape) for maps in net(torch.rand(1, 3, 64, 64))]
    [(1, 60, 16, 16), (1, 360, 2, 2)]
    >>> net.feature_info.channels(), net.feature_info.reduction()
    ([60, 360], [4, 32])
    >>> net.streams[0]
    Streams("12x0r + 12x1 + 12x2")

    Args:
        model: the network.
        out_indices: which of the five maps, or how many of the last; by default all. Stages after
            the last of them are left out.
    """

    def __init__(self, model: HResNet, out_indices: int | Sequence[int] | None = None) -> None:
        super().__init__()
        chosen = indices_of(out_indices, len(model.stages))
        self.in_chans = model.in_chans
        self.stages = nn.Sequential(*list(model.stages)[: chosen[-1] + 1])
        self.feature_info = FeatureInfo(model.feature_info, chosen)
        self.streams: list[Streams] = self.feature_info.get("streams")
        self.halvings = self.feature_info.reduction()[-1].bit_length() - 1

    def forward(self, x: Tensor) -> list[Tensor]:
        """The chosen maps of images ``(batch, in_chans, height, width)``."""
        image(x, type(self).__name__)
        if not tracing():
            margins = [margin_to_halve(side, self.halvings) for side in x.shape[2:]]
            if any(margins):
                raise ValueError(
                    f"{type(self).__name__} expects sides that are multiples of "
                    f"{2**self.halvings}, or one more, got {tuple(x.shape)}; pad them with "
                    f"hnets.functional.pad_to_halve(x, {self.halvings})"
                )
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        return [maps[index] for index in self.feature_info.out_indices]


class _Stem(nn.Sequential):
    """A convolution at full resolution and a nonlinearity, then halved or not."""

    def __init__(self, in_chans: int, out: Streams, mirror: bool, halve: bool) -> None:
        conv = harmonic_conv(Streams(f"{in_chans}x0r"), out, STEM[0], mirror)
        super().__init__(conv, hnn.FourierAct(out, norm=True))
        self.halve = halve

    def forward(self, x: Tensor) -> Tensor:
        x = gpu_order(x)
        maps = super().forward(x)
        return F.halve2d(maps) if self.halve else maps


class _Blocks(nn.Sequential):
    """Residual blocks, of maps that are halved first or not."""

    def __init__(
        self,
        into: Streams,
        out: Streams,
        count: int,
        light: bool,
        halve: bool,
        options: dict[str, Any],
    ) -> None:
        make = hnn.LightBlock if light else hnn.ResidualBlock
        ends = [into, *[out] * (2 * count if light else count)]
        super().__init__(*(make(*each, **options) for each in pairwise(ends)))
        self.halve = halve

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(F.halve2d(x) if self.halve else x)


hresnet10 = register("hresnet10", partial(HResNet, (1, 1, 1, 1)))
hresnet18 = register("hresnet18", partial(HResNet, (2, 2, 2, 2)))
hresnet34 = register("hresnet34", partial(HResNet, (3, 4, 6, 3)))
hresnet18_wide = register(
    "hresnet18_wide", partial(HResNet, (2, 2, 2, 2), fields=(25, 51, 80, 104))
)
hresnet18_light = register(
    "hresnet18_light", partial(HResNet, (2, 2, 2, 2), fields=(16, 32, 64, 128), light=True)
)
