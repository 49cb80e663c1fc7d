"""Learned filters and their phases, and how many of them are blank or near-copies of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets.errors import InputError
from hnets.functional import rotate_pixels
from hnets.nn import HConv2d
from hnets.nn.kernel import HarmonicFilters
from hnets.studies.networks import Network, find_network
from hnets.studies.numbers import Numbers, percent

BLANK = 0.1
"""A filter is blank if its norm is below this part of the layer's root mean square norm."""
COPY = 0.95
"""Two filters are near-copies if, rotated to fit best, their cosine is above this."""
_ANGLES = tuple(range(0, 360, 15))
"""Degrees by which a plain filter is rotated to look for copies."""
_PLAIN = {"hdsn": ("hed_low", "z2cnn")}
"""The plain network beside one, the first that has trained weights; else z2cnn."""


@dataclass(frozen=True, eq=False)
class FirstFilter:
    """A filter of the first layer, of one order."""

    order: int
    aligned: NDArray[np.float64]
    """``(inputs, k, k)``, the real part of R(r)·exp(imφ): as it is, but for its phase."""
    phases: tuple[float, ...]
    """β per input channel, in radians; empty where a phase would do nothing."""


@dataclass(frozen=True, eq=False)
class LayerFilters:
    """The filters of a layer, counted."""

    name: str
    count: int
    blank: int
    copies: int
    """Filters that are near-copies of an earlier one."""
    phases: NDArray[np.float64]
    """All phase offsets, in radians from 0 to 2π; empty for a plain layer."""

    @property
    def evenness(self) -> float:
        """1 − |mean exp(iβ)|: 1 if phases are spread evenly round the circle, 0 if they agree."""
        return float(1 - np.abs(np.exp(1j * self.phases).mean())) if self.phases.size else np.nan


@dataclass(frozen=True, eq=False)
class FilterStudy:
    """The filters of a network, and those of a plain one beside them."""

    network: str
    plain: str
    first: tuple[FirstFilter, ...]
    plain_first: NDArray[np.float64]
    """``(filters, inputs, k, k)``."""
    layers: tuple[LayerFilters, ...]
    plain_layers: tuple[LayerFilters, ...]

    def numbers(self) -> Numbers:
        """Blank filters and near-copies of every layer of both networks."""
        rows = []
        for name, layers in ((self.network, self.layers), (self.plain, self.plain_layers)):
            for layer in layers:
                counts = (f"{layer.count:,}", str(layer.blank), str(layer.copies))
                size = layer.phases.size
                phases = (f"{size:,}", f"{layer.evenness:.2f}") if size else ("", "")
                rows.append((f"{name}, {layer.name}", *counts, *phases))
            count, blank, copies = filter_totals(layers)
            totals = (f"{count:,}", percent(blank), percent(copies))
            rows.append((f"{name}, all layers", *totals, "", ""))
        header = ("filters of", "number", "blank", "near-copies", "phases", "evenness")
        title = "filters that do nothing new, and how evenly phases are spread"
        return Numbers(title, header, rows)


def measure_filters(
    network: Network | nn.Module | str = "hdsn", plain: Network | nn.Module | str | None = None
) -> FilterStudy:
    """The filters of a network, and of a plain one beside it.

    A filter of a harmonic layer is all that makes one complex output channel: rotated by an angle,
    it is multiplied by a phase, so that copies rotated by any angle show in one inner product.
    Those of a plain layer are rotated in steps of 15 degrees, and compared inside the kernel's
    disc.

    Args:
        network: one with harmonic convolutions, or its name.
        plain: one without, or its name; by default z2cnn, or hed_low beside hdsn if it is trained.
    """
    one = find_network(network)
    convs = [part for part in one.module.modules() if isinstance(part, HConv2d)]
    if not convs:
        raise InputError(
            f"expected a network with harmonic convolutions, and {one.name} has none; use "
            "hnet_mnist or hdsn"
        )
    other = _beside(one.name) if plain is None else find_network(plain)
    plains = [part for part in other.module.modules() if isinstance(part, nn.Conv2d)]
    plains = [conv for conv in plains if max(conv.kernel_size) > 1]
    if not plains:
        raise InputError(f"expected a plain CNN to compare with, and {other.name} has no Conv2d")
    with torch.no_grad():
        return FilterStudy(
            one.title,
            other.title,
            tuple(_first(convs[0])),
            plains[0].weight.double().numpy(),
            tuple(_harmonic(f"layer {i}", conv) for i, conv in enumerate(convs, 1)),
            tuple(_plain(f"layer {i}", conv) for i, conv in enumerate(plains, 1)),
        )


def filter_totals(layers: Sequence[LayerFilters]) -> tuple[int, float, float]:
    """Filters of all layers, and the shares of blank ones and of near-copies."""
    count = sum(layer.count for layer in layers)
    blank, copies = sum(x.blank for x in layers), sum(x.copies for x in layers)
    return count, blank / count, copies / count


def _beside(name: str) -> Network:
    networks = [find_network(each) for each in _PLAIN.get(name, ("z2cnn",))]
    return next((network for network in networks if network.trained), networks[-1])


def _first(conv: HConv2d) -> list[FirstFilter]:
    """The filters on an image, as the plan lays them out: one per output order."""
    values: HarmonicFilters = conv.filters
    block = next(iter(values.plan.blocks))
    radial = values.radial["0"].double().numpy()  # (out, in, columns)
    # One phase per filter; with one per ring there is no single hand to draw.
    single = values.spec.phase == "filter" and "0" in values.phase
    phase = values.phase["0"].double().numpy() if single else np.zeros((len(radial), 0, 0))
    filters, at = [], 0
    for each in block.filters:
        profile = np.einsum("oir,rhw->oihw", radial[..., each.columns], each.harmonics).real
        phased = single and each.phased
        for number, kernel in enumerate(profile):
            beta = np.mod(phase[number, :, at], 2 * np.pi) if phased else []
            filters.append(FirstFilter(each.order, kernel, tuple(map(float, beta))))
        at += phased
    return filters


def _harmonic(name: str, conv: HConv2d) -> LayerFilters:
    kernel = conv.filters().double()
    complex_kernels = []
    for stream, where in zip(
        conv.filters.out_streams, conv.filters.out_streams.slices, strict=True
    ):
        part = kernel[where].flatten(1)
        re, im = (part, torch.zeros_like(part)) if stream.real else part.chunk(2)
        complex_kernels.append(torch.complex(re, im))
    norms = [each.abs().square().sum(1).sqrt() for each in complex_kernels]
    awake = _awake(torch.cat(norms)).split([len(each) for each in norms])
    # Filters of different orders are no copies of one another, however they are rotated.
    copies = 0
    for each, norm, mask in zip(complex_kernels, norms, awake, strict=True):
        unit = each[mask] / norm[mask, None]
        copies += _copies((unit @ unit.mH).abs())
    blank = int((~torch.cat(awake)).sum())
    angles = [beta.double().flatten() for beta in conv.filters.phase.values()]
    phases = torch.cat(angles).remainder(2 * np.pi).numpy() if angles else np.zeros(0)
    return LayerFilters(name, sum(map(len, complex_kernels)), blank, copies, phases)


def _plain(name: str, conv: nn.Conv2d) -> LayerFilters:
    weight = conv.weight.double()
    size = weight.shape[-1]
    offset = torch.arange(size, dtype=torch.float64) - (size - 1) / 2
    inside = offset[:, None].hypot(offset) <= size / 2
    # Finer pixels first, so that rotating a 3×3 filter does not blur it away.
    fine = torch.nn.functional.interpolate(weight * inside, scale_factor=4, mode="bicubic")
    awake = _awake(weight.flatten(1).norm(dim=1))
    fine = fine[awake]
    unit = fine.flatten(1) / fine.flatten(1).norm(dim=1, keepdim=True)
    alike = torch.full((len(fine), len(fine)), -1.0, dtype=torch.float64)
    for degrees in _ANGLES:
        rotated = rotate_pixels(fine, float(np.radians(degrees))).flatten(1)
        rotated = rotated / rotated.norm(dim=1, keepdim=True)
        alike = torch.maximum(alike, unit @ rotated.mT)
    return LayerFilters(
        name, len(weight), int((~awake).sum()), _copies(torch.maximum(alike, alike.mT)), np.zeros(0)
    )


def _awake(norms: Tensor) -> Tensor:
    return norms >= BLANK * norms.square().mean().sqrt()


def _copies(alike: Tensor) -> int:
    """How many have an earlier one that is like them."""
    return int((torch.tril(alike, -1) > COPY).any(1).sum())
