"""Beyond the paper: networks whose nonlinearities act on the angle and so mix orders."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.basis import Rings
from hnets.models._classifier import Classifier, info_of
from hnets.models._registry import register
from hnets.nn._base import circle, flag, gpu_order, probability, whole
from hnets.plan import Phase
from hnets.streams import Streams

Nonlinearity = Literal["fourier", "poly", "gated", "magnitude"]


@dataclass(frozen=True)
class Size:
    """Kernels and fields of the convolutions, and how their filters are made up."""

    kernels: tuple[int, ...]
    fields: tuple[int, ...]
    """Multiples of 8, for which GPUs have their fastest convolutions."""
    orders: int
    head: int
    share: bool
    phase: Phase


SIZES = {
    "tiny": Size((7, 5, 5, 5, 5, 5), (8, 16, 16, 16, 24, 32), 3, 24, share=True, phase="filter"),
    "small": Size((9, 5, 5, 5, 5, 5), (8, 16, 16, 24, 32, 48), 3, 48, share=False, phase="free"),
    "base": Size((9, 7, 7, 7, 7, 5), (24, 32, 32, 32, 64, 96), 4, 96, share=False, phase="free"),
}


class HNetFourier(Classifier):
    """Six convolutions, each followed by batch norm and a nonlinearity, and a small head.

    Every layer has a real order 0 and orders 1 to ``orders`` of equal width: functions on the
    circle, by which `hnets.nn.FourierAct` mixes them. Mean pooling after layers 2 and 4, then
    magnitudes, their maximum over the image, and two linear layers. Rotations by 90 degrees are
    exact where both poolings are: with sides that are multiples of 4.

    Args:
        size: ``"tiny"``, ``"small"`` or ``"base"``.
        in_chans: channels of the images.
        num_classes: classes of the images; 0 gives ``num_features`` numbers per image.
        nonlinearity: ``"fourier"``, ``"poly"`` (exactly equivariant), ``"gated"``, or
            ``"magnitude"``, the paper's batch norm with C-ReLU. The latter two keep orders apart.
        orders: the highest order; by default that of the size.
        samples: angles of ``"fourier"``; by default those of `hnets.nn.FourierAct`.
        rings: ``"gaussian"`` or ``"exact"``; see `hnets.nn.HConv2d`.
        phase: ``"free"``, ``"ring"``, ``"filter"`` or ``"none"``, see `hnets.nn.HConv2d`; by
            default that of the size.
        share: whether paths of equal order difference share filters, as in the paper; else all are
            independent and the space of equivariant kernels is complete. By default as the size.
        dropout: of the head.
        centre_of_mass: whether every layer has an `hnets.nn.PointingBias` along the direction of
            the image's centre of mass: for light things on black whose place says which way up
            they were.
        mirror: give mirror images the same output too. Convolutions then have all kernels that
            commute with reflections, unless ``share`` is set: about half the parameters of
            ``"small"`` and ``"base"``, and 2.3 times those of ``"tiny"``.
    """

    last_layer = "head.6"

    def __init__(
        self,
        size: Literal["tiny", "small", "base"] = "small",
        in_chans: int = 1,
        num_classes: int = 10,
        nonlinearity: Nonlinearity = "fourier",
        orders: int | None = None,
        samples: int | None = None,
        rings: Rings = "gaussian",
        phase: Phase | None = None,
        share: bool | None = None,
        dropout: float = 0.3,
        centre_of_mass: bool = False,
        mirror: bool = False,
    ) -> None:
        super().__init__(in_chans, num_classes)
        if size not in SIZES:
            raise ValueError(f"size is one of {', '.join(SIZES)}, got {size!r}")
        chosen = SIZES[size]
        orders = chosen.orders if orders is None else whole(orders, "orders")
        if share is None:
            share = chosen.share and not flag(mirror, "mirror")
        if phase is None:
            phase = "none" if mirror else chosen.phase
        dropout = probability(dropout, "dropout")
        self.centre_of_mass = flag(centre_of_mass, "centre_of_mass")
        self.feature_info = []
        streams, layers = Streams(f"{in_chans}x0r"), list[nn.Module]()
        widths = zip(chosen.kernels, chosen.fields, strict=True)
        for number, (kernel, width) in enumerate(widths, start=1):
            act = _nonlinearity(nonlinearity, width, orders, samples)
            conv = hnn.HConv2d(
                *(streams, act.in_streams, kernel),
                padding="same",
                rings=rings,
                mirror=mirror,
                phase=phase,
                share=flag(share, "share"),
                conjugate=not share,
            )
            layer = _Layer(conv, act)
            if centre_of_mass:
                layer.insert(1, hnn.PointingBias(act.in_streams, mirror))
            if number in (2, 4):
                layer.append(hnn.HAvgPool2d(2))
            layers.append(layer)
            streams = act.out_streams
            self.feature_info.append(info_of(number - 1, streams, 2 ** (min(number, 4) // 2)))
        self.layers = nn.Sequential(*layers)
        self.magnitude = hnn.Magnitude(streams)
        fields, self.num_features = self.magnitude.out_streams.fields, chosen.head
        self.head = nn.Sequential(
            nn.BatchNorm1d(fields),
            nn.Dropout(dropout),
            nn.Linear(fields, chosen.head, bias=False),
            nn.BatchNorm1d(chosen.head),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Identity(),
        )
        self.reset_classifier(num_classes)

    def forward_features(self, x: Tensor) -> Tensor:
        """The maps of the last layer."""
        direction = F.mass_direction(x) if self.centre_of_mass else None
        for layer in self.layers:
            x = gpu_order(x)
            x = layer(x, direction)
        return x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits ``(batch, num_classes)`` of those maps, or the features that they are made of."""
        head = self.head[:-1] if pre_logits else self.head
        output: Tensor = head(self.magnitude(x).amax((2, 3)))
        return output


class _Layer(nn.Sequential):
    """Parts one after the other, those with a bias that points along a direction."""

    def forward(self, x: Tensor, direction: Tensor | None = None) -> Tensor:
        for part in self:
            x = part(x, direction) if isinstance(part, hnn.PointingBias) else part(x)
        return x


class _NormedGates(nn.Module):
    """Batch norm of the fields and of their gates, and then the gates."""

    def __init__(self, streams: Streams) -> None:
        super().__init__()
        self.norm, self.gate_norm = hnn.AngularNorm2d(streams), nn.BatchNorm2d(streams.fields)
        self.gated = hnn.Gated(streams)
        self.in_streams, self.out_streams = self.gated.in_streams, streams

    def forward(self, x: Tensor) -> Tensor:
        fields, gates = x.tensor_split([self.out_streams.channels], dim=1)
        gated: Tensor = self.gated(torch.cat([self.norm(fields), self.gate_norm(gates)], dim=1))
        return gated


_Act = hnn.FourierAct | hnn.PolyAct | hnn.HBatchNorm2d | _NormedGates


def _nonlinearity(kind: Nonlinearity, width: int, orders: int, samples: int | None) -> _Act:
    streams = circle(width, orders)
    if samples is not None and kind != "fourier":
        raise ValueError(f'samples are those of "fourier", got samples={samples} and {kind!r}')
    match kind:
        case "fourier":
            return hnn.FourierAct(streams, samples=samples, norm=True)
        case "poly":
            return hnn.PolyAct(streams, norm=True)
        case "magnitude":
            return hnn.HBatchNorm2d(streams)
        case "gated":
            return _NormedGates(streams)
    raise ValueError(f'nonlinearity is "fourier", "poly", "gated" or "magnitude", got {kind!r}')


hnet_fourier_tiny = register("hnet_fourier_tiny", partial(HNetFourier, "tiny"))
hnet_fourier_small = register("hnet_fourier_small", partial(HNetFourier, "small"))
hnet_fourier_base = register("hnet_fourier_base", partial(HNetFourier, "base"))
