"""Which filter joins which streams: the plan of a harmonic convolution.

Every pair of an input stream n and an output stream p is a *path*, and its filter has order p−n
(`StreamPath`). A filter is one radial weight per ring that can carry its order (`Filter`). The
plain convolution kernel is a constant linear function of the weights and phases (`Block`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count, groupby, pairwise, product
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hnets.basis import Rings, harmonic_basis, smallest_kernel
from hnets.streams import Streams

Phase = Literal["filter", "ring", "free", "none"]
Combine = Literal["sum", "stack", "max"]


@dataclass(frozen=True)
class KernelSpec:
    """The arguments of a layer that decide its filters."""

    kernel_size: int
    rings: Rings = "exact"
    sigma: float = 0.6
    phase: Phase = "filter"
    share: bool = True
    conjugate: bool = False
    groups: int = 1

    def __post_init__(self) -> None:
        if self.phase not in ("filter", "ring", "free", "none"):
            raise ValueError(f'phase is "filter", "ring", "free" or "none", got {self.phase!r}')

    @property
    def mirror(self) -> bool:
        """Whether the kernels commute with reflections: if and only if all weights are real.

        In a mirror φ becomes −φ and z becomes conj(z), so that a filter ``a(r)·exp(imφ)``, on z or
        on conj(z), becomes one with conj(a). The real ones of all paths, direct and conjugate,
        unshared, are the whole space of O(2)-equivariant kernels.
        """
        return self.phase == "none"

    def basis(self, order: int) -> NDArray[np.complex128]:
        """The unit-norm filters of an order in this kernel: ``(rings, k, k)``."""
        return harmonic_basis(self.kernel_size, order, self.rings, self.sigma)


@dataclass(frozen=True, eq=False)
class Filter:
    """A learned filter: which columns of a block's radial weights are its rings."""

    order: int
    """Never negative: W_{−m} is the conjugate of W_m."""
    phased: bool
    """False between real streams, where a phase has no effect, and in layers without phases."""
    columns: slice
    harmonics: NDArray[np.complex128]
    """The filter of each column: ``(columns, k, k)``."""


@dataclass(frozen=True)
class StreamPath:
    """The use of a filter from one input stream of a block to one output stream."""

    source: int
    target: int
    order: int
    conjugate: bool
    """Whether the filter acts on the conjugate of the input."""
    filter: int
    """Index of the filter in the block; paths may share one."""


@dataclass(frozen=True, eq=False)
class Block:
    """The part of a kernel between neighbouring streams of one multiplicity each.

    Its radial weights R are ``(out, in, columns)``, those of phased filters first. With phases β
    they give the coefficients ``[R, or R·cos β where phased; R·sin β where phased]``, and
    ``coefficients @ assembly`` is the kernel.
    """

    outputs: Streams
    inputs: Streams
    filters: tuple[Filter, ...]
    paths: tuple[StreamPath, ...]
    spread: NDArray[np.float64]
    """``(phases, phased columns)``: 1 where a phase belongs to a column."""
    assembly: NDArray[np.float64]
    """``(columns + phased columns, output parts · input parts · k · k)``."""

    @property
    def columns(self) -> int:
        """Radial weights per pair of an output and an input channel."""
        return sum(f.columns.stop - f.columns.start for f in self.filters)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Output parts, output multiplicity, input parts, input multiplicity."""
        out, into = self.outputs[0].multiplicity, self.inputs[0].multiplicity
        return self.outputs.channels // out, out, self.inputs.channels // into, into


class Segment(NamedTuple):
    """Equal blocks on the diagonal of a kernel: ``groups`` of them, and their channels in total."""

    groups: int
    outputs: int
    inputs: int


class Piece(NamedTuple):
    """What a block adds to the kernel; its shape is that of the block, with fewer input parts."""

    number: str
    shape: tuple[int, int, int, int]
    assembly: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Plan:
    """The whole kernel as a grid of blocks: outputs by rows, inputs by columns."""

    inputs: Streams
    """Those of one group, as are the inputs of the blocks."""
    outputs: Streams
    spec: KernelSpec
    rows: tuple[tuple[Block, ...], ...]

    @property
    def blocks(self) -> Iterator[Block]:
        """All blocks, row by row."""
        return (block for row in self.rows for block in row)


@lru_cache(maxsize=256)
def make_plan(inputs: Streams, outputs: Streams, spec: KernelSpec) -> Plan:
    """Lay out the filters of a convolution from ``inputs`` to ``outputs``.

    A path whose order no ring of the kernel can carry is left out. A stream left with no path at
    all is an error. An output field has filters for the input fields of its own group alone.
    """
    inputs = _of_one_group(inputs, outputs, spec.groups)
    sources, targets = _equal_width(inputs), _equal_width(outputs)
    rows = tuple(tuple(_block(target, source, spec) for source in sources) for target in targets)
    for i, target in enumerate(targets):
        reached = {path.target for block in rows[i] for path in block.paths}
        _require_all(target, reached, inputs, spec)
    for j, source in enumerate(sources):
        used = {path.source for row in rows for path in row[j].paths}
        _require_all(source, used, outputs, spec)
    return Plan(inputs, outputs, spec, rows)


@lru_cache(maxsize=256)
def split(
    plan: Plan, separate: bool = False
) -> tuple[tuple[Segment, ...], tuple[tuple[Piece, ...], ...]]:
    """The segments of a layer, and row by row the pieces of its kernel.

    A kernel of several pixels joins all orders: one segment. A kernel of one pixel joins equal
    orders only, and without phases real parts with real and imaginary with imaginary parts. A row
    of the kernel has the weights on the inputs of its own segment, then zeros up to the widest one.
    With ``separate``, converging responses are not added: every input stream is a segment, which
    has its own copy of the outputs, and the pieces are those of all of them.
    """
    numbers = map(str, count())
    pieces = tuple(
        tuple(Piece(next(numbers), b.shape, b.assembly) for b in row) for row in plan.rows
    )
    outputs, inputs = plan.outputs.channels, plan.inputs.channels
    if separate:
        return _segments([(outputs, stream.channels) for stream in plan.inputs]), pieces
    if plan.spec.kernel_size == 1 and plan.spec.groups == 1:
        cuts = _cuts(pieces)
        narrow = _narrow(pieces, cuts)
        if narrow is not None:
            rows, columns = _widths(plan.outputs), _widths(plan.inputs)
            parts = pairwise(cuts)
            sizes = [(sum(rows[a:c]), sum(columns[b:d])) for (a, b), (c, d) in parts]
            return _segments(sizes), narrow
    return _segments([(outputs, inputs)]), pieces


def _segments(sizes: list[tuple[int, int]]) -> tuple[Segment, ...]:
    """Neighbours of equal size as one segment."""
    runs = [(len(list(run)), *size) for size, run in groupby(sizes)]
    return tuple(Segment(n, n * out, n * into) for n, out, into in runs)


def _widths(streams: Streams) -> list[int]:
    return [stream.multiplicity for stream in streams for _ in range(stream.parts)]


def _cuts(pieces: tuple[tuple[Piece, ...], ...]) -> list[tuple[int, int]]:
    """Pairs (a, b) where the first a output parts depend on the first b input parts alone.

    And no other output part depends on these: a corner between two blocks on the diagonal.
    """
    links = np.block(
        [
            [p.assembly.reshape(-1, p.shape[0], p.shape[2]).any(axis=0) for p in row]
            for row in pieces
        ]
    )
    cuts = [(0, 0)]
    for a, b in product(range(1, len(links)), range(1, links.shape[1])):
        crossing = links[:a, b:].any() or links[a:, :b].any()
        if a > cuts[-1][0] and b > cuts[-1][1] and not crossing:
            cuts.append((a, b))
    return [*cuts, (len(links), links.shape[1])]


def _narrow(
    pieces: tuple[tuple[Piece, ...], ...], cuts: list[tuple[int, int]]
) -> tuple[tuple[Piece, ...], ...] | None:
    """The pieces with the input parts of each segment only; None if one spans several blocks."""
    windows = [(b, d) for (a, b), (c, d) in pairwise(cuts) for _ in range(a, c)]
    rows = []
    for row in pieces:
        own = [windows.pop(0) for _ in range(row[0].shape[0])]
        used = [column for column, piece in enumerate(row) if len(piece.assembly)]
        number, (out_parts, out, in_parts, into), assembly = row[used[0]]
        start = sum(piece.shape[2] for piece in row[: used[0]])
        if len(used) > 1 or any(b < start or d > start + in_parts for b, d in own):
            return None
        dense = assembly.reshape(-1, out_parts, in_parts)
        narrow = np.zeros((len(dense), out_parts, max(d - b for b, d in own)))
        for part, (b, d) in enumerate(own):
            narrow[:, part, : d - b] = dense[:, part, b - start : d - start]
        shape = (out_parts, out, narrow.shape[2], into)
        rows.append((Piece(number, shape, narrow.reshape(len(dense), -1)),))
    return tuple(rows)


def _of_one_group(inputs: Streams, outputs: Streams, groups: int) -> Streams:
    """The input streams of one group of fields."""
    for stream in (*inputs, *outputs):
        if stream.multiplicity % groups:
            raise ValueError(
                f"groups={groups} has to divide the multiplicity of every stream, as each group "
                f"takes an equal share of it; it does not divide that of {stream} in "
                f'"{inputs}" → "{outputs}"'
            )
    return Streams(replace(s, multiplicity=s.multiplicity // groups) for s in inputs)


def _equal_width(streams: Streams) -> list[Streams]:
    """Neighbouring streams of equal multiplicity: the sides of the blocks."""
    groups = groupby(streams, key=lambda s: s.multiplicity)
    return [Streams(tuple(group)) for _, group in groups]


def _require_all(streams: Streams, joined: set[int], others: Streams, spec: KernelSpec) -> None:
    """Raise if a stream is joined to none of the others, and say which kernel size would do."""
    for index, stream in enumerate(streams):
        if index not in joined:
            orders = [abs(stream.order - other.order) for other in others]
            if spec.conjugate and not stream.real:
                orders += [abs(stream.order + other.order) for other in others if not other.real]
            order = min(orders)
            size = smallest_kernel(order, spec.kernel_size, spec.rings, spec.sigma)
            advice = f"kernel_size={size} would do" if size else "use streams of lower orders"
            raise ValueError(
                f"no filter joins stream {stream} to {others}: it needs order {order}, which no "
                f"{spec.rings} ring of a {spec.kernel_size}x{spec.kernel_size} kernel can carry; "
                f"{advice}"
            )


def _block(outputs: Streams, inputs: Streams, spec: KernelSpec) -> Block:
    links: list[tuple[int, int, int, bool]] = []  # the paths, as the fields of StreamPath go
    keys: list[tuple[bool, int, bool, int, int]] = []  # and the keys that tell their filters apart
    for (target, out), (source, into), conjugate in product(
        enumerate(outputs), enumerate(inputs), (False, True)
    ):
        # On a real input, or into a real output, the conjugate path is the direct one again.
        if conjugate and (not spec.conjugate or out.real or into.real):
            continue
        order = out.order + into.order if conjugate else out.order - into.order
        if len(spec.basis(order)) == 0:
            continue
        # Re(R·exp(iβ)) between real streams is R·cos β: the phase would only repeat the weight.
        phased = spec.phase != "none" and not (out.real and into.real)
        user = (target, source)
        if spec.share:  # by |order|; streams of a repeated order have filters of their own
            user = (_occurrence(outputs, target), _occurrence(inputs, source))
        links.append((source, target, order, conjugate))
        keys.append((not phased, abs(order), conjugate, *user))  # sorts phased first, by order
    distinct = sorted(set(keys))
    filters, start = list[Filter](), 0
    for unphased, order, *_ in distinct:
        harmonics, phased = spec.basis(order), not unphased
        if phased and spec.phase == "free":  # a second weight takes the place of the phase
            harmonics, phased = np.concatenate([harmonics, 1j * harmonics]), False
        filters.append(Filter(order, phased, slice(start, start + len(harmonics)), harmonics))
        start += len(harmonics)
    paths = tuple(
        StreamPath(*link, filter=distinct.index(key)) for link, key in zip(links, keys, strict=True)
    )
    return Block(
        outputs,
        inputs,
        tuple(filters),
        paths,
        _spread(filters, spec),
        _assembly(outputs, inputs, paths, filters, spec),
    )


def _occurrence(streams: Streams, index: int) -> int:
    """How many streams before this one have its order."""
    return sum(stream.order == streams[index].order for stream in list(streams)[:index])


def _spread(filters: list[Filter], spec: KernelSpec) -> NDArray[np.float64]:
    phased = [f for f in filters if f.phased]
    columns = phased[-1].columns.stop if phased else 0
    if spec.phase == "ring":
        return np.eye(columns)
    spread = np.zeros((len(phased), columns))
    for phase, each in enumerate(phased):
        spread[phase, each.columns] = 1
    return spread


def _assembly(
    outputs: Streams,
    inputs: Streams,
    paths: tuple[StreamPath, ...],
    filters: list[Filter],
    spec: KernelSpec,
) -> NDArray[np.float64]:
    """The sum over paths of what each coefficient adds to the kernel.

    A filter K acts on F as the real matrix [[Re K, −Im K], [Im K, Re K]] on (re, im), and on the
    conjugate of F as [[Re K, Im K], [Im K, −Re K]].
    """
    row_of = np.cumsum([0, *(s.parts for s in outputs)])
    column_of = np.cumsum([0, *(s.parts for s in inputs)])
    columns = max((f.columns.stop for f in filters), default=0)
    phased = max((f.columns.stop for f in filters if f.phased), default=0)
    size = spec.kernel_size
    assembly = np.zeros((columns + phased, row_of[-1], column_of[-1], size, size))
    for path in paths:
        used = filters[path.filter]
        parts = [(used.columns, used.harmonics)]
        if used.phased:
            sines = slice(columns + used.columns.start, columns + used.columns.stop)
            parts.append((sines, 1j * used.harmonics))
        for where, values in parts:
            kernel = values.conj() if path.order < 0 else values
            for a in range(outputs[path.target].parts):
                for b in range(inputs[path.source].parts):
                    minus = b == 1 and (a == 1 if path.conjugate else a == 0)
                    part = kernel.real if a == b else kernel.imag
                    block = assembly[where, row_of[path.target] + a, column_of[path.source] + b]
                    block += -part if minus else part
    return assembly.reshape(columns + phased, row_of[-1] * column_of[-1] * size**2)
