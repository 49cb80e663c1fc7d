"""Which filter joins which streams: the plan of a harmonic convolution.

Every pair of an input stream n and an output stream p is a *path*, and its filter has order p−n
(`Path`). Filters of the same |order| use the same basis, so the learned values of a layer lie in
one tensor an order (`Group`), and the plain convolution kernel is two constant linear maps away
from them: the group's basis turns radial weights into the real and imaginary planes of its filters,
and ``mixing`` puts the planes, with their signs, where the paths need them (`Block`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hnets.basis import Rings, harmonic_basis, smallest_kernel
from hnets.streams import Stream, Streams

__all__ = ["Block", "Group", "KernelSpec", "Path", "Phase", "Plan", "plan"]

Phase = Literal["filter", "ring", "none"]


@dataclass(frozen=True)
class KernelSpec:
    """What decides the filters of a layer, as its user wrote it."""

    kernel_size: int
    rings: Rings = "exact"
    sigma: float = 0.6
    phase: Phase = "filter"
    share: bool = True
    conjugate: bool = False

    def __post_init__(self) -> None:
        if self.phase not in ("filter", "ring", "none"):
            raise ValueError(f'phase is "filter", "ring" or "none", got {self.phase!r}')

    def basis(self, order: int) -> NDArray[np.complex128]:
        """The unit-norm filters of an order in this kernel: ``(rings, k, k)``."""
        return harmonic_basis(self.kernel_size, order, self.rings, self.sigma)


@dataclass(frozen=True)
class Path:
    """One filter's work, from one input stream of a block to one output stream."""

    source: int
    target: int
    order: int
    conjugate: bool
    """Whether the filter acts on the conjugate of the input."""
    group: int
    filter: int
    """The filter it uses: this one of that group. Paths that share a filter name the same one."""


@dataclass(frozen=True, eq=False)
class Group:
    """The filters of a block with the same |order|, and their radial weights in one tensor."""

    name: str
    """What it is called in a state dict: its |order|, and "r" where it joins real streams."""
    order: int
    phased: bool
    """False where a phase would do nothing: between real streams, or where none was asked for."""
    filters: int
    rings: int
    basis: NDArray[np.float64]
    """``(coefficients, 2·k·k)``: from weights (times cos β, sin β if phased) to filter planes."""


@dataclass(frozen=True, eq=False)
class Block:
    """The part of the kernel between neighbouring streams of one multiplicity on either side."""

    name: str
    outputs: Streams
    inputs: Streams
    paths: tuple[Path, ...]
    groups: tuple[Group, ...]
    mixing: NDArray[np.float64]
    """``(output parts · input parts, planes)``, with entries 0 and ±1."""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Output parts, output multiplicity, input parts, input multiplicity."""
        out, into = self.outputs[0].multiplicity, self.inputs[0].multiplicity
        return self.outputs.channels // out, out, self.inputs.channels // into, into


@dataclass(frozen=True, eq=False)
class Plan:
    """The whole kernel as a grid of blocks: a row for outputs, a column for inputs."""

    inputs: Streams
    outputs: Streams
    spec: KernelSpec
    rows: tuple[tuple[Block, ...], ...]

    @property
    def blocks(self) -> Iterator[Block]:
        """All blocks, row by row."""
        return (block for row in self.rows for block in row)


@lru_cache(maxsize=256)
def plan(inputs: Streams, outputs: Streams, spec: KernelSpec) -> Plan:
    """Lay out the filters of a convolution from ``inputs`` to ``outputs``.

    A path whose order no ring of the kernel can carry is left out. A stream left with no path at
    all is an error.
    """
    columns, lines = _equal_width(inputs), _equal_width(outputs)
    # The usual layer is one block, and its state dict then reads radial.0, radial.1, ...
    single = len(columns) == len(lines) == 1
    rows = tuple(
        tuple(
            _block("" if single else f"_{i}{j}", out, into, spec) for j, into in enumerate(columns)
        )
        for i, out in enumerate(lines)
    )
    for i, line in enumerate(lines):
        reached = {path.target for block in rows[i] for path in block.paths}
        _require_all(line, reached, inputs, spec)
    for j, column in enumerate(columns):
        used = {path.source for row in rows for path in row[j].paths}
        _require_all(column, used, outputs, spec)
    return Plan(inputs, outputs, spec, rows)


def _equal_width(streams: Streams) -> list[Streams]:
    groups = groupby(streams, key=lambda s: s.multiplicity)
    return [Streams(tuple(group)) for _, group in groups]


def _require_all(streams: Streams, joined: set[int], others: Streams, spec: KernelSpec) -> None:
    for index, stream in enumerate(streams):
        if index not in joined:
            order = min((abs(stream.order - other.order) for other in others), default=0)
            size = smallest_kernel(order, spec.kernel_size, spec.rings)
            advice = f"kernel_size={size} would do" if size else "use streams of lower orders"
            raise ValueError(
                f"no filter joins stream {stream} to {others}: it needs order {order}, which no "
                f"{spec.rings} ring of a {spec.kernel_size}x{spec.kernel_size} kernel can carry; "
                f"{advice}"
            )


def _block(name: str, outputs: Streams, inputs: Streams, spec: KernelSpec) -> Block:
    groups: dict[tuple[int, bool], list[object]] = {}  # (|order|, phased) -> keys of its filters
    paths = []
    for (target, out), (source, into), conjugate in _candidates(outputs, inputs, spec):
        order = out.order + into.order if conjugate else out.order - into.order
        if len(spec.basis(order)) == 0:
            continue
        # Re(R·exp(iβ)) between real streams is R·cos β: the phase would only repeat the weight.
        phased = spec.phase != "none" and not (out.real and into.real)
        key: object = (target, source, conjugate)
        if spec.share:  # by |order|; a repeated order is a second set of streams, not the same one
            key = (_occurrence(outputs, target), _occurrence(inputs, source), conjugate)
        keys = groups.setdefault((abs(order), phased), [])
        if key not in keys:
            keys.append(key)
        index = list(groups).index((abs(order), phased))
        paths.append(Path(source, target, order, conjugate, index, keys.index(key)))
    made = tuple(
        _group(name, order, phased, len(keys), spec) for (order, phased), keys in groups.items()
    )
    mixing = _mixing(outputs, inputs, tuple(paths), made)
    return Block(name, outputs, inputs, tuple(paths), made, mixing)


def _candidates(
    outputs: Streams, inputs: Streams, spec: KernelSpec
) -> Iterator[tuple[tuple[int, Stream], tuple[int, Stream], bool]]:
    for target in enumerate(outputs):
        for source in enumerate(inputs):
            yield target, source, False
            # On a real input, or into a real output, the conjugate path is the direct one again.
            if spec.conjugate and not (target[1].real or source[1].real):
                yield target, source, True


def _occurrence(streams: Streams, index: int) -> int:
    return Counter(s.order for s in streams[:index])[streams[index].order] if index else 0


def _group(block: str, order: int, phased: bool, filters: int, spec: KernelSpec) -> Group:
    kind = "" if phased or spec.phase == "none" else "r"
    harmonics = spec.basis(order).reshape(-1, spec.kernel_size**2)  # (rings, k·k)
    coefficients = [harmonics, 1j * harmonics] if phased else [harmonics]
    planes = np.concatenate([np.concatenate([c.real, c.imag], axis=1) for c in coefficients])
    return Group(f"{order}{kind}{block}", order, phased, filters, len(harmonics), planes)


def _mixing(
    outputs: Streams, inputs: Streams, paths: tuple[Path, ...], groups: tuple[Group, ...]
) -> NDArray[np.float64]:
    """Put filter planes into the real matrices that multiply (re, im) of the input.

    A filter K acts on F as [[Re K, −Im K], [Im K, Re K]], on the conjugate of F as
    [[Re K, Im K], [Im K, −Re K]], and W_{−m} = conj(W_m) flips the sign of Im K.
    """
    row_of = np.cumsum([0, *(s.parts for s in outputs)])
    column_of = np.cumsum([0, *(s.parts for s in inputs)])
    first_plane = np.cumsum([0, *(2 * g.filters for g in groups)])
    mixing = np.zeros((row_of[-1], column_of[-1], first_plane[-1]))
    for path in paths:
        re = first_plane[path.group] + 2 * path.filter
        im_sign = -1 if path.order < 0 else 1
        for a in range(outputs[path.target].parts):
            for b in range(inputs[path.source].parts):
                sign = -1 if b and (a if path.conjugate else not a) else 1
                plane, sign = (re, sign) if a == b else (re + 1, sign * im_sign)
                mixing[row_of[path.target] + a, column_of[path.source] + b, plane] += sign
    return mixing.reshape(-1, mixing.shape[-1])
