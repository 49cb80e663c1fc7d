"""The cost rule, drawn: how wide a harmonic layer may be to cost what a plain one costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import nn

from hnets import nn as hnn
from hnets._cost import Cost, cost, matching_width
from hnets.plot.style import INK, MUTED, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CostRule", "MatchedWidth", "cost_rule"]

WIDTHS, ORDERS = (24, 48, 72, 96, 120), (1, 2, 3)
_SIDE, _KERNEL = 8, 5
_COLOURS = {1: "#1f8a5b", 2: "#1b5fa8", 3: "#8e5bb5"}
_EXAMPLE = (64, 2)
"""The paper's: 64 channels, and orders 0 and 1."""


@dataclass(frozen=True)
class MatchedWidth:
    """A plain layer, and the harmonic one that costs as much by the rule i_Z = 2·f·i_H."""

    orders: int
    plain: int
    harmonic: int
    """Complex channels of each order."""
    plain_multiplications: int
    """Of a pixel, counted by `hnets._cost`."""
    harmonic_multiplications: int


@dataclass(frozen=True, eq=False)
class CostRule:
    """The rule at some widths, and what networks cost."""

    widths: tuple[MatchedWidth, ...]
    networks: dict[str, Cost]

    def figure(self) -> Figure:
        """Draw the rule, and the multiplications of the networks layer by layer."""
        return _draw(self)


def cost_rule(networks: dict[str, Cost]) -> CostRule:
    """Count what matched layers cost, and put networks beside them.

    >>> rule = cost_rule({})
    >>> {w.harmonic_multiplications / w.plain_multiplications for w in rule.widths}
    {1.0}
    """
    return CostRule(tuple(_match(f, width) for f in ORDERS for width in WIDTHS), networks)


def _match(orders: int, width: int) -> MatchedWidth:
    own = matching_width(width, orders)
    streams = " + ".join(f"{own}x{order}" for order in range(orders))
    with torch.random.fork_rng(devices=[]):
        # Counting needs shapes, not values; meta tensors have no more.
        harmonic = hnn.HConv2d(streams, streams, _KERNEL, padding="same", device="meta")
        plain = nn.Conv2d(width, width, _KERNEL, padding="same", device="meta")
    shape = harmonic.in_streams.channels, _SIDE, _SIDE
    counted = [
        cost(layer, size).multiplications // _SIDE**2
        for layer, size in ((plain, (width, _SIDE, _SIDE)), (harmonic, shape))
    ]
    return MatchedWidth(orders, width, own, *counted)


def _draw(rule: CostRule) -> Figure:
    with style():
        right = bool(rule.networks)
        figure = new_figure(10.4 if right else 5.2, 4.1)
        left, *rest = figure.subplots(1, 1 + right, squeeze=False)[0]
        _rule(left, rule)
        for axes in rest:
            _networks(axes, rule.networks)
        figure.tight_layout(w_pad=3)
    return figure


def _rule(axes: Axes, rule: CostRule) -> None:
    for orders in ORDERS:
        mine = [each for each in rule.widths if each.orders == orders]
        ends = (0, max(WIDTHS))
        axes.plot(ends, [end / (2 * orders) for end in ends], color=_COLOURS[orders], linewidth=1.2)
        label = f"f = {orders}: i$_Z$ = {2 * orders} i$_H$"
        axes.plot(
            [each.plain for each in mine], [each.harmonic for each in mine], "o",
            color=_COLOURS[orders], markersize=5, label=label,
        )  # fmt: skip
    width, orders = _EXAMPLE
    own = matching_width(width, orders)
    axes.plot(width, own, "o", color=_COLOURS[orders], markersize=9, markerfacecolor="white")
    axes.annotate(
        f"the paper's example:\n{width} channels cost as much as\n"
        f"{own} of order 0 and {own} of order 1",
        (width, own), (75, 0.6), size=8, color=INK, linespacing=1.35, va="bottom",
        arrowprops={"arrowstyle": "-", "color": MUTED, "linewidth": 0.8, "shrinkB": 5},
    )  # fmt: skip
    axes.set_xlabel("channels of a plain layer, i$_Z$")
    axes.set_ylabel("complex channels an order of\na harmonic layer, i$_H$")
    axes.set_title("equal multiplications, counted", loc="left", weight="bold")
    axes.set(xlim=(0, 1.03 * max(WIDTHS)), ylim=(0, 1.08 * max(WIDTHS) / 2))
    _plain_axes(axes)
    axes.legend(frameon=False, loc="upper left", title="f orders", alignment="left")


def _networks(axes: Axes, networks: dict[str, Cost]) -> None:
    colours = ("#1b5fa8", "#c27c0e")
    share = 0.8 / len(networks)
    longest = 0
    for number, (name, report) in enumerate(networks.items()):
        counts = [layer.multiplications / 1e6 for layer in report.layers if layer.multiplications]
        at = [1 + i + (number - (len(networks) - 1) / 2) * share for i in range(len(counts))]
        label = f"{name}: {report.multiplications / 1e6:.1f} M, {report.parameters:,} parameters"
        axes.bar(at, counts, 0.92 * share, color=colours[number % 2], label=label)
        longest = max(longest, len(counts))
    axes.set_xticks(range(1, longest + 1))
    axes.set_xlabel("layer")
    axes.set_ylabel("million multiplications a picture")
    axes.set_title("networks, layer by layer", loc="left", weight="bold")
    axes.set_ylim(0, 1.3 * axes.get_ylim()[1])
    _plain_axes(axes)
    axes.legend(frameon=False, loc="upper right")


def _plain_axes(axes: Axes) -> None:
    axes.grid(axis="y", color="#d8dee4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
    for edge in axes.spines.values():
        edge.set_visible(False)
