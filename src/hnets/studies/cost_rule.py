"""The cost rule: how wide a harmonic layer may be to cost what a plain one costs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from hnets import nn as hnn
from hnets._cost import Cost, cost, matching_width
from hnets.studies.numbers import Numbers

WIDTHS, ORDERS = (24, 48, 72, 96, 120), (1, 2, 3)
_SIDE, _KERNEL = 8, 5


@dataclass(frozen=True)
class MatchedWidth:
    """A plain layer, and the harmonic one that costs as much by the rule i_Z = 2·f·i_H."""

    orders: int
    plain: int
    harmonic: int
    """Complex channels per order."""
    plain_multiplications: int
    """Per pixel, as `hnets.cost` counts them."""
    harmonic_multiplications: int


@dataclass(frozen=True, eq=False)
class CostRule:
    """The rule at some widths, and what networks cost."""

    widths: tuple[MatchedWidth, ...]
    networks: dict[str, Cost]

    def numbers(self) -> Numbers:
        """What the networks beside the rule cost."""
        rows = [
            (name, f"{report.parameters:,}", f"{report.multiplications:,}")
            for name, report in self.networks.items()
        ]
        return Numbers("cost per image", ("network", "parameters", "multiplications"), rows)


def measure_cost_rule(networks: dict[str, Cost]) -> CostRule:
    """What matched layers cost, counted, beside what networks cost.

    >>> rule = measure_cost_rule({})
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
    counts = [
        cost(layer, (channels, _SIDE, _SIDE)).multiplications // _SIDE**2
        for layer, channels in ((plain, width), (harmonic, harmonic.in_streams.channels))
    ]
    return MatchedWidth(orders, width, own, *counts)
