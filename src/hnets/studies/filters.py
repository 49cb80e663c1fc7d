"""Learned filters and their phases, and how many of them are blank or near-copies of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets.errors import InputError
from hnets.functional import rotate_pixels
from hnets.nn import HConv2d
from hnets.nn.kernel import HarmonicFilters
from hnets.plot.style import INK, MUTED, bare, new_figure, percent, style
from hnets.studies.networks import Network, find_network

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.projections.polar import PolarAxes

__all__ = ["BLANK", "COPY", "FilterStudy", "FirstFilter", "LayerFilters", "filters"]

BLANK = 0.1
"""A filter is blank if its norm is below this part of the layer's root mean square norm."""
COPY = 0.95
"""Two filters are near-copies if, turned to fit best, their cosine is above this."""
_ANGLES = tuple(range(0, 360, 15))
"""Degrees by which a plain filter is turned to look for copies."""
_PLAIN = {"hdsn": ("hed_low", "z2cnn")}
"""What stands beside a network, the first that has trained weights; others have z2cnn."""
_HANDS = {1: (INK,), 3: ("#c0392b", "#1f8a5b", "#1b5fa8")}


@dataclass(frozen=True, eq=False)
class FirstFilter:
    """A filter of the first layer, of one order."""

    order: int
    aligned: NDArray[np.float64]
    """``(inputs, k, k)``, the real part of R(r)·exp(imφ): as it is, but for its phase."""
    phases: tuple[float, ...]
    """β of every input channel, in radians; empty where a phase would do nothing."""


@dataclass(frozen=True, eq=False)
class LayerFilters:
    """The filters of a layer, counted."""

    name: str
    count: int
    blank: int
    copies: int
    """Filters that are near-copies of an earlier one."""
    phases: NDArray[np.float64]
    """All phase offsets, in radians from 0 to 2π; empty of a plain layer."""

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

    def figure(self) -> Figure:
        """Draw the first layers side by side, and the phases of every layer below."""
        return _draw(self)


def filters(network: Network | str = "hdsn", plain: Network | str | None = None) -> FilterStudy:
    """Look at the filters of a network, and of a plain one beside it.

    A filter of a harmonic layer is all that makes one complex output channel: turned by an angle,
    it is multiplied by a phase, so that copies turned by any angle show in one inner product. Those
    of a plain layer are turned in steps of 15 degrees, and compared inside the kernel's disc.

    Args:
        network: one with harmonic convolutions, or its name.
        plain: one without, or its name; by default z2cnn, or hed_low beside hdsn if it is trained.
    """
    one = find_network(network) if isinstance(network, str) else network
    convs = [part for part in one.module.modules() if isinstance(part, HConv2d)]
    if not convs:
        raise InputError(
            f"expected a network with harmonic convolutions, and {one.name} has none; use "
            "hnet_mnist or hdsn"
        )
    other = find_network(plain) if isinstance(plain, str) else plain or _beside(one.name)
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


def totals(layers: Sequence[LayerFilters]) -> tuple[int, float, float]:
    """Filters of all layers, and the shares of blank ones and of near-copies."""
    count = sum(layer.count for layer in layers)
    blank, copies = sum(x.blank for x in layers), sum(x.copies for x in layers)
    return count, blank / count, copies / count


def _beside(name: str) -> Network:
    found = [find_network(each) for each in _PLAIN.get(name, ("z2cnn",))]
    return next((network for network in found if network.trained), found[-1])


def _first(conv: HConv2d) -> list[FirstFilter]:
    """The filters from a picture, as the plan lays them out: one for every output order."""
    values: HarmonicFilters = conv.filters
    block = next(iter(values.plan.blocks))
    radial = values.radial["0"].double().numpy()  # (out, in, columns)
    # One phase a filter; with one a ring there is no single hand to draw.
    single = values.spec.phase == "filter" and "0" in values.phase
    phase = values.phase["0"].double().numpy() if single else np.zeros((len(radial), 0, 0))
    found, at = [], 0
    for each in block.filters:
        profile = np.einsum("oir,rhw->oihw", radial[..., each.columns], each.harmonics).real
        turned = single and each.phased
        for number, kernel in enumerate(profile):
            beta = np.mod(phase[number, :, at], 2 * np.pi) if turned else []
            found.append(FirstFilter(each.order, kernel, tuple(map(float, beta))))
        at += turned
    return found


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
    # Filters of different orders are no copies of one another, however they are turned.
    copies = 0
    for each, norm, kept in zip(complex_kernels, norms, awake, strict=True):
        unit = each[kept] / norm[kept, None]
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
    # Finer pixels first, so that turning a 3×3 filter does not blur it away.
    fine = torch.nn.functional.interpolate(weight * inside, scale_factor=4, mode="bicubic")
    awake = _awake(weight.flatten(1).norm(dim=1))
    fine = fine[awake]
    unit = fine.flatten(1) / fine.flatten(1).norm(dim=1, keepdim=True)
    alike = torch.full((len(fine), len(fine)), -1.0, dtype=torch.float64)
    for degrees in _ANGLES:
        turned = rotate_pixels(fine, float(np.radians(degrees))).flatten(1)
        turned = turned / turned.norm(dim=1, keepdim=True)
        alike = torch.maximum(alike, unit @ turned.mT)
    return LayerFilters(
        name, len(weight), int((~awake).sum()), _copies(torch.maximum(alike, alike.mT)), np.zeros(0)
    )


def _awake(norms: Tensor) -> Tensor:
    return norms >= BLANK * norms.square().mean().sqrt()


def _copies(alike: Tensor) -> int:
    """How many have an earlier one that is like them."""
    return int((torch.tril(alike, -1) > COPY).any(1).sum())


# The figure ----------------------------------------------------------------------------------

_CELL, _GAP = 0.62, 0.1
_MOST, _MOST_PLAIN = 12, 24
"""First-layer filters that are drawn, of each order and of the plain network."""


def _draw(study: FilterStudy) -> Figure:
    orders = list(dict.fromkeys(each.order for each in study.first))
    rows = [[each for each in study.first if each.order == order][:_MOST] for order in orders]
    plain = study.plain_first[:_MOST_PLAIN]
    across = max(map(len, rows))
    plain_across = -(-len(plain) // 3)
    roses = [layer for layer in study.layers if layer.phases.size]
    with style():
        left, top = 0.62, 0.78
        step = _CELL + _GAP
        plain_left = left + across * step + 0.45
        width = max(plain_left + plain_across * step + 0.15, 9.6)
        phase_row = top + 0.08 + len(rows) * (2 * step + 0.1)
        rose = min(1.5, (width - left) / max(len(roses), 1))
        height = max(phase_row, top + 3 * step) + 0.5 + rose + 1.0
        sheet = _Sheet(new_figure(width, height), width, height)
        sheet.text(0.15, 0.3, f"first layer of {study.network}", size=11, weight="bold")
        sheet.text(
            0.15,
            0.52,
            "real parts, aligned at phase 0; below, the phase β of each colour"
            if len(study.first[0].aligned) == 3
            else "real parts, aligned at phase 0; below each, its phase β",
            color=MUTED,
            size=8.5,
        )
        limit = max(float(np.abs(each.aligned).max()) for each in study.first)
        for row, line in enumerate(rows):
            down = top + row * (2 * step + 0.1)
            sheet.text(0.15, down + _CELL / 2, f"m = {orders[row]}", va="center", size=9.5)
            for column, each in enumerate(line):
                x = left + column * step
                _picture(sheet.axes(x, down, _CELL, _CELL), each.aligned, limit)
                if each.phases:
                    strong = np.linalg.norm(each.aligned, axis=(1, 2)) > BLANK * limit
                    _dial(sheet.axes(x, down + step, _CELL, _CELL), each.phases, strong)
        sheet.text(plain_left, 0.3, f"first layer of {study.plain}", size=11, weight="bold")
        sheet.text(plain_left, 0.52, "as they are", color=MUTED, size=8.5)
        limit = float(np.abs(plain).max())
        for number, kernel in enumerate(plain):
            row, column = divmod(number, plain_across)
            place = (plain_left + column * step, top + row * step)
            _picture(sheet.axes(*place, _CELL, _CELL), kernel, limit)
        down = height - rose - 1.0
        sheet.text(0.15, down - 0.34, "phases β of every layer", size=11, weight="bold")
        sheet.text(
            2.35,
            down - 0.34,
            "area is number; evenness is 1 if they are spread evenly, 0 if all agree",
            color=MUTED,
            size=8.5,
        )
        for number, layer in enumerate(roses):
            x = left + number * (width - left) / len(roses)
            axes = sheet.axes(x, down + 0.02, rose - 0.3, rose - 0.3, projection="polar")
            _rose(cast("PolarAxes", axes), layer.phases)
            middle = x + (rose - 0.3) / 2
            sheet.text(middle, down + rose - 0.06, layer.name, ha="center", size=8.5)
            sheet.text(
                middle,
                down + rose + 0.11,
                f"{layer.phases.size:,} · {layer.evenness:.2f}",
                ha="center",
                size=7.5,
                color=MUTED,
            )
        for below, (name, layers) in enumerate(
            ((study.network, study.layers), (study.plain, study.plain_layers))
        ):
            sheet.text(0.15, height - 0.42 + 0.22 * below, _counts(name, layers), size=9)
    return sheet.figure


def _counts(name: str, layers: Sequence[LayerFilters]) -> str:
    parts = []
    for where, some in (("first layer", layers[:1]), ("all layers", layers)):
        count, blank, copies = totals(some)
        parts.append(f"{where}: {percent(blank)} blank, {percent(copies)} near-copies of {count:,}")
    return f"{name}, filters of the " + "; of ".join(parts)


@dataclass(frozen=True)
class _Sheet:
    """Places in inches, from the upper left corner."""

    figure: Figure
    width: float
    height: float

    def axes(self, x: float, down: float, wide: float, high: float, **more: Any) -> Axes:
        low = self.height - down - high
        box = (x / self.width, low / self.height, wide / self.width, high / self.height)
        return self.figure.add_axes(box, **more)

    def text(self, x: float, down: float, text: str, **look: Any) -> None:
        self.figure.text(x / self.width, 1 - down / self.height, text, **look)


def _picture(axes: Axes, kernel: NDArray[np.float64], limit: float) -> None:
    """In grey, or in the colours of its three channels; 0 is mid-grey."""
    bare(axes)
    shown = 0.5 + 0.5 * kernel / limit
    if len(kernel) == 3:
        axes.imshow(np.moveaxis(shown, 0, -1), interpolation="nearest")
    else:
        axes.imshow(shown.mean(0), cmap="gray", vmin=0, vmax=1, interpolation="nearest")


def _dial(axes: Axes, phases: Sequence[float], strong: NDArray[np.bool_]) -> None:
    """A circle with a hand for every channel, a pale one if there is next to nothing to turn."""
    from matplotlib.patches import Circle

    bare(axes)
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.25, 1.25), aspect="equal")
    axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor="#afb8c1", linewidth=1))
    colours = _HANDS.get(len(phases), (INK,) * len(phases))
    for beta, colour, dark in zip(phases, colours, strong, strict=True):
        axes.plot([0, np.cos(beta)], [0, np.sin(beta)], color=colour, linewidth=2,
                  solid_capstyle="round", alpha=1 if dark else 0.25)  # fmt: skip


def _rose(axes: PolarAxes, phases: NDArray[np.float64]) -> None:
    bins = 24 if phases.size >= 100 else 12
    counts, edges = np.histogram(phases, bins, (0, 2 * np.pi))
    radius = np.sqrt(counts / max(counts.max(), 1))  # so that areas are numbers
    middle = (edges[:-1] + edges[1:]) / 2
    axes.bar(middle, radius, 2 * np.pi / bins * 0.92, color="#1b5fa8", linewidth=0)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.set_xticks(np.radians([0, 90, 180, 270]), ["", "", "", ""])
    axes.grid(color="#d8dee4", linewidth=0.6)
    axes.spines["polar"].set_color("#d0d7de")
