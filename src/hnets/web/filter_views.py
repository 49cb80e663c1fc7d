"""The learned filters of a network, and their phases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hnets.nn.kernel import HarmonicFilters
from hnets.plan import Block, StreamPath
from hnets.web.encoding import Complex, quantised

__all__ = ["filters", "layers"]

SHOWN = 24
"""Filters of one kind that are shown, the strongest first."""
BINS = 24
"""Of a histogram of phases."""


class _Learned(NamedTuple):
    """The filters of one path: ``(out, in, k, k)``, with their phases ``(out, in)`` if any."""

    path: StreamPath
    kernels: Complex
    phases: NDArray[np.floating] | None


def layers(hnet: Any) -> list[dict[str, Any]]:
    """What each layer makes: its streams and the number of its filters."""
    found = []
    for number, layer in enumerate(hnet.layers, start=1):
        bank = layer[0].filters
        found.append(
            {
                "layer": number,
                "streams": str(layer[0].out_streams),
                "orders": list(layer[0].out_streams.orders),
                "filters": sum(b.shape[1] * b.shape[3] * len(b.filters) for b in bank.plan.blocks),
            }
        )
    return found


def filters(hnet: Any, layer: int, order: int) -> dict[str, Any]:
    """The filters that make the maps of one order, and how the phases of all of them are spread."""
    bank: HarmonicFilters = hnet.layers[layer - 1][0].filters
    kinds = []
    for block, number in zip(bank.plan.blocks, map(str, range(len(bank.radial))), strict=True):
        kinds += [
            _kind(learned, block)
            for learned in _learned(bank, block, number)
            if block.outputs[learned.path.target].order == order
        ]
    phases = [beta.detach().numpy().ravel() for beta in bank.phase.values()]
    counts = [0] * BINS
    if phases:
        turns = np.concatenate(phases) % (2 * np.pi)
        counts = np.histogram(turns, BINS, (0, 2 * np.pi))[0].tolist()
    return {"layer": layer, "order": order, "kinds": kinds, "histogram": counts}


def _learned(bank: HarmonicFilters, block: Block, number: str) -> Iterator[_Learned]:
    radial = bank.radial[number].detach().double().numpy()
    beta = bank.phase[number].detach().double().numpy() if number in bank.phase else None
    for path in block.paths:
        used = block.filters[path.filter]
        kernels = np.tensordot(radial[..., used.columns], bank.spec.basis(used.order), 1)
        phases = None
        if beta is not None and used.phased and bank.spec.phase == "filter":
            phases = beta[..., [f for f in block.filters if f.phased].index(used)]
            kernels = kernels * np.exp(1j * phases)[..., None, None]
        if path.order < 0:  # W of −m is the conjugate of that of m
            kernels, phases = kernels.conj(), None if phases is None else -phases
        yield _Learned(path, kernels, phases)


def _kind(learned: _Learned, block: Block) -> dict[str, Any]:
    """The strongest filters of one path, each scaled to its own largest value."""
    out, into, size, _ = learned.kernels.shape
    flat = learned.kernels.reshape(out * into, size, size)
    strength = np.linalg.norm(flat, axis=(1, 2))
    best = np.argsort(-strength, kind="stable")[:SHOWN]
    peak = np.abs(flat[best]).max((1, 2), keepdims=True)
    phases = None
    if learned.phases is not None:
        chosen = np.degrees(learned.phases.reshape(-1)[best]) % 360
        phases = [round(angle, 1) for angle in chosen.tolist()]
    return {
        "order": learned.path.order,
        "from": block.inputs[learned.path.source].order,
        "of": out * into,
        "phases": phases,
        **quantised(flat[best] / np.maximum(peak, 1e-12), 1.0),
    }
