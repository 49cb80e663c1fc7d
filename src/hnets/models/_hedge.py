"""Edge detectors with a top-down decoder, equivariant to rotations and mirrors.

A pyramid of stages, and on the way back up a decoder that adds the maps of each level to those of
the coarser ones. Every level of the decoder has a side output, and a weighted sum of them is the
edge map. Trained on the 300 photographs of BSDS500 alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.functional._dispatch import autocast_device
from hnets.models._hdsn import EdgeNetwork
from hnets.models._registry import register
from hnets.nn._base import circle, flag, gpu_order, number, probability
from hnets.nn.conv import all_kernels
from hnets.streams import Streams

ORDERS = 2
"""The highest rotation order: an edge, which is its own rotation by 180 degrees, is of order 2."""


@dataclass(frozen=True)
class HEdgeSize:
    """Kernel and fields of the first layer, and fields and layers of what follows."""

    stem: tuple[int, int]
    """At full resolution, which costs most: few fields, of a large kernel."""
    fields: tuple[int, ...]
    """Of the stages, the first at half the resolution of the image."""
    layers: tuple[int, ...]
    residual: bool
    """Whether layers but the first of a stage are added to their input."""
    decoder: int
    tail: int
    """Fields of the decoder at full resolution; 0 is none, and its finest level is the half."""


SIZES = {
    "tiny": HEdgeSize((5, 2), (5, 10, 14, 16), (2, 2, 2, 2), False, decoder=5, tail=0),
    "small": HEdgeSize((7, 4), (8, 16, 24, 32), (2, 2, 2, 2), False, decoder=8, tail=2),
    "base": HEdgeSize((9, 9), (19, 28, 38, 48), (2, 2, 3, 3), True, decoder=18, tail=7),
}


class HEdge(EdgeNetwork):
    """An edge detector of streams of orders 0 to 2, with nonlinearities on the circle.

    When the image is rotated or mirrored, so is the edge map: exactly by multiples of 90 degrees
    and in mirrors along the axes and diagonals, nearly at other angles.

    >>> sum(p.numel() for p in HEdge(SIZES["small"]).parameters())
    89921

    Args:
        size: kernels, fields and layers.
        mirror: whether mirrors are respected too; without it, a network of as many fields has
            nearly twice the parameters.
        drop_rate: in training, the probability that a field of a stage but the first is dropped.
        scale: factor of the logits, which with ``shift`` makes the strength of an edge the
            probability that someone drew it. A loss that gives edges and all other pixels the same
            total weight overestimates that probability.
        shift: added to the scaled logits.
    """

    def __init__(
        self,
        size: HEdgeSize,
        mirror: bool = True,
        drop_rate: float = 0.0,
        scale: float = 1.0,
        shift: float = 0.0,
    ) -> None:
        mirror, drop_rate = flag(mirror, "mirror"), probability(drop_rate, "drop_rate")
        stem, stages = circle(size.stem[1], ORDERS), list[nn.Module]()
        streams = stem
        for stage, (fields, layers) in enumerate(zip(size.fields, size.layers, strict=True)):
            out = circle(fields, ORDERS)
            parts: list[nn.Module] = [_layer(streams, out, 5, mirror)]
            for _ in range(1, layers):
                layer = _layer(out, out, 5, mirror)
                parts.append(_Residual(layer) if size.residual else layer)
            if stage:
                parts.append(hnn.HDropout2d(out, drop_rate))
            stages.append(nn.Sequential(*parts))
            streams = out
        widths = [*([size.tail] if size.tail else []), *[size.decoder] * len(stages)]
        super().__init__(stages, [(ORDERS + 1) * width for width in widths])
        self.scale = number(scale, "scale", "a number above 0", low=1e-3)
        self.shift = number(shift, "shift", "a number from -10 to 10", low=-10, high=10)
        self.stem = _layer(Streams("3x0r"), stem, size.stem[0], mirror)
        self.halvings = len(stages)
        self.levels = tuple(range(0 if size.tail else 1, self.halvings + 1))
        lateral = [circle(fields, ORDERS) for fields in (size.stem[1], *size.fields)]
        coarser = circle(size.decoder, ORDERS)
        self.decoder_streams = [circle(width, ORDERS) for width in widths]
        self.joins = nn.ModuleList(
            DecoderLevel(lateral[level], coarser if level < self.halvings else None, out, mirror)
            for level, out in zip(self.levels, self.decoder_streams, strict=True)
        )
        self.magnitudes = nn.ModuleList(map(hnn.Magnitude, self.decoder_streams))

    def read(self, stage: int, maps: Tensor) -> Tensor:
        """Order 0 and the magnitudes of the others."""
        lengths: Tensor = self.magnitudes[stage](maps)
        return lengths

    def forward_features(self, x: Tensor, cut: Sequence[int] = ()) -> list[Tensor]:
        """The decoder's maps, the finest first, of images as `pad` leaves them.

        The decoder covers less than the images by ``cut``, as in `EdgeNetwork`. Within
        `decoder_radius` of where it is cut, maps are not those of the whole.
        """
        maps = self.stem(gpu_order((x - self.mean) / self.std))
        joins = dict(zip(self.levels, cast(Iterable[DecoderLevel], self.joins), strict=True))
        laterals = list[Tensor]()
        for level, stage in enumerate(self.stages):
            half = F.halve2d(maps)
            if level in joins:
                laterals.append(joins[level].lateral(F.trim(maps, cut, level)))
            del maps  # or it would be held while the stage computes
            maps = stage(half)
        laterals.append(joins[self.halvings].lateral(F.trim(maps, cut, self.halvings)))
        decoded, coarser = list[Tensor](), None
        for join in reversed(joins.values()):
            coarser = join(laterals.pop(), coarser)
            decoded.append(coarser)
        return decoded[::-1]

    def forward_head(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        """The logits of the sides and the fusion from the decoder's maps."""
        logits = [
            side(self.read(number, maps))
            for number, (side, maps) in enumerate(zip(self.sides, features, strict=True))
        ]
        with torch.autocast(autocast_device(features[0]), enabled=False):
            # Half precision has too few digits to add up what cancels.
            real = torch.promote_types(logits[0].dtype, torch.float32)
            sides = torch.cat(
                [
                    F.enlarge2d(maps.to(real), height, width, level)
                    for level, maps in zip(self.levels, logits, strict=True)
                ],
                dim=1,
            )
            return torch.cat([sides, self.fusion(sides)], dim=1)

    def probability(self, logits: Tensor) -> Tensor:
        """That of an edge, calibrated, from the logits of the fusion."""
        return (self.scale * logits + self.shift).sigmoid()

    def receptive_radius(self) -> int:
        """How many pixels away from a pixel the network looks, at most.

        On the way down and up again every level adds the reach of its kernels, halving one pixel of
        the finer level, and enlarging one of the coarser.
        """
        parts = [self.stem, *self.stages]
        down = sum(2**level * self.kernel_reach(part) for level, part in enumerate(parts))
        return int(2**self.halvings - 1 + down + self.decoder_radius())

    def decoder_radius(self) -> int:
        """How many pixels away from a pixel what the decoder reads decides on the output."""
        parts = zip(self.levels, self.joins, strict=True)
        up = sum(2**level * self.kernel_reach(part) for level, part in parts)
        return int(2 ** (self.halvings + 1) - 2 + up)


class _Residual(nn.Module):
    """The sum of its input and a layer of it."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x)
        y += x  # a sum of its own is a map more
        return y


class DecoderLevel(nn.Module):
    """Maps of a level, brought to other streams, plus the coarser ones, through a layer."""

    def __init__(
        self, lateral: Streams, coarser: Streams | None, out: Streams, mirror: bool
    ) -> None:
        super().__init__()
        self.lateral = _mix(lateral, out, mirror)
        self.narrow = _mix(coarser, out, mirror) if coarser not in (None, out) else None
        self.layer = _layer(out, out, 5, mirror)

    def forward(self, maps: Tensor, coarser: Tensor | None) -> Tensor:
        """What ``lateral`` makes of a level, and the maps of the next coarser one, if there is one.

        The sum is written over the former.
        """
        if coarser is not None:
            above = coarser if self.narrow is None else self.narrow(coarser)
            maps += F.double2d(above, maps.shape[2], maps.shape[3])
        joined: Tensor = self.layer(maps)
        return joined


def harmonic_conv(into: Streams, out: Streams, kernel_size: int, mirror: bool) -> hnn.HConv2d:
    """A convolution of independent filters that keeps the size of the maps."""
    kernels = all_kernels(mirror)
    return hnn.HConv2d(into, out, kernel_size, padding="same", rings="gaussian", **kernels)


def _layer(into: Streams, out: Streams, kernel_size: int, mirror: bool) -> nn.Sequential:
    conv = harmonic_conv(into, out, kernel_size, mirror)
    return nn.Sequential(conv, hnn.FourierAct(out, norm=True))


def _mix(into: Streams, out: Streams, mirror: bool) -> hnn.HConv2d:
    """A weighted sum of fields, order by order."""
    return hnn.HConv2d(into, out, 1, phase="none" if mirror else "free", share=False)


hedge_tiny = register("hedge_tiny", partial(HEdge, SIZES["tiny"]))
hedge_small = register("hedge_small", partial(HEdge, SIZES["small"]))
hedge_base = register("hedge_base", partial(HEdge, SIZES["base"]))
