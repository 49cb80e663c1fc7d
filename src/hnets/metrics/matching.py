"""Match the pixels of two edge maps one to one, at the least total cost.

The cost is the Berkeley benchmark's: the distance of each pair, at most the radius, rounded to
hundredths of a pixel, and 100 times the radius for each pixel of the smaller map without a partner.
Ties matter, since a fixed rule favours the same line for every annotator. The official program
breaks them at random, seeded by the clock; here a hash of the pair and a seed does, repeatably.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.errors import MissingExtra

try:
    import numba
except ImportError:
    raise MissingExtra("scores of edges", "numba", "bench") from None

P = ParamSpec("P")
R = TypeVar("R")
_HASHES = 1 << 12  # values of the hash that breaks ties
_FAR = 1 << 60

Ints: TypeAlias = NDArray[np.int64]


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """A function as machine code, which runs without Python's lock: threads use all cores."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder can be written to: compiled in every process
        return numba.njit(nogil=True)(function)


class Pixels(NamedTuple):
    """The pixels of a binary map, numbered row by row, for a `Matcher`."""

    places: Ints
    """The position of each pixel in the grid."""
    grid: Ints
    """The number of the pixel at each position, or −1; flat, with a frame as wide as the radius."""


class Matcher:
    """Matches maps of one shape within one radius.

    >>> matcher = Matcher((1, 5), radius=1)
    >>> matcher.match(matcher.pixels([[1, 0, 0, 1, 1]]), matcher.pixels([[0, 1, 1, 0, 0]]))
    (array([0, 1]), array([0, 1]))
    """

    def __init__(self, shape: tuple[int, ...], radius: float) -> None:
        self.shape = shape
        self.frame = math.ceil(radius)
        side = np.arange(-self.frame, self.frame + 1)
        squared = (side[:, None] ** 2 + side**2).ravel()
        steps = (side[:, None] * (shape[1] + 2 * self.frame) + side).ravel()
        order = np.argsort(squared, kind="stable")
        near = order[squared[order] <= radius * radius]
        self._steps = steps[near]
        self._costs = np.rint(100 * np.sqrt(squared[near])).astype(np.int64)
        self._unmatched = math.ceil(100 * 100 * radius)

    def pixels(self, mask: ArrayLike) -> Pixels:
        """Number the pixels of a map."""
        values = np.asarray(mask, dtype=bool)
        if values.shape != self.shape:
            raise ValueError(f"expected a map of shape {self.shape}, got {values.shape}")
        framed = np.pad(values, self.frame).ravel()
        places = np.flatnonzero(framed)
        grid = np.full(framed.size, -1)
        grid[places] = np.arange(len(places))
        return Pixels(places, grid)

    def match(self, one: Pixels, two: Pixels, seed: int = 0) -> tuple[Ints, Ints]:
        """The pairs: the numbers of their pixels in the first map, and those in the second."""
        swapped = len(one.places) > len(two.places)
        few, many = (two, one) if swapped else (one, two)
        scale = _HASHES * (len(few.places) + 1)  # all hashes together are less than 1 unit of cost
        costs, unmatched = self._costs * scale, self._unmatched * scale
        graph = _graph(few.places, many.grid, self._steps, costs, seed, swapped)
        partner = _assign(*graph, unmatched, len(many.places))
        pairs = np.flatnonzero(partner >= 0), partner[partner >= 0]
        return (pairs[1], pairs[0]) if swapped else pairs


@compiled
def _graph(
    places: Ints, grid: Ints, steps: Ints, costs: Ints, seed: int, swapped: bool
) -> tuple[Ints, Ints, Ints]:
    """Where the edges of each row start, and their columns and costs."""
    start = np.zeros(len(places) + 1, np.int64)
    for row in range(len(places)):
        near = 0
        for step in steps:
            near += grid[places[row] + step] >= 0
        start[row + 1] = start[row] + near
    columns = np.empty(start[-1], np.int64)
    weights = np.empty(start[-1], np.int64)
    edge = 0
    for row in range(len(places)):
        one = places[row]
        for k in range(len(steps)):
            two = one + steps[k]
            if grid[two] >= 0:
                tie = _hash(two, one, seed) if swapped else _hash(one, two, seed)
                columns[edge] = grid[two]
                weights[edge] = costs[k] + tie
                edge += 1
    return start, columns, weights


@compiled
def _hash(one: int, two: int, seed: int) -> np.int64:
    """A number below `_HASHES`, by SplitMix64."""
    x = np.uint64((one << 32) + two) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) % np.uint64(_HASHES))


@compiled
def _assign(start: Ints, columns: Ints, weights: Ints, unmatched: int, width: int) -> Ints:
    """The column of each row, or −1, at the least total cost (Jonker and Volgenant, 1987).

    Rows are added one by one along shortest augmenting paths. Dual prices ``u`` of rows and ``v``
    of columns prove optimality: no edge costs less than its two prices, the chosen edges cost
    exactly that, a free column has price 0, a row without a column the cost ``unmatched``.
    """
    rows = len(start) - 1
    u, v = np.zeros(rows, np.int64), np.zeros(width, np.int64)
    column_of, row_of = np.full(rows, -1, np.int64), np.full(width, -1, np.int64)
    distance = np.full(width, _FAR, np.int64)
    before = np.empty(width, np.int64)  # the row from which a column was reached
    reached, settled = np.empty(width, np.int64), np.empty(width, np.int64)
    keys, values = np.empty(len(columns), np.int64), np.empty(len(columns), np.int64)

    for row in range(rows):  # most rows can have their cheapest column
        for edge in range(start[row], start[row + 1]):
            if edge == start[row] or weights[edge] < u[row]:
                u[row], column = weights[edge], columns[edge]
        if start[row] < start[row + 1] and row_of[column] < 0:
            column_of[row], row_of[column] = column, row

    for new in range(rows):
        if start[new] == start[new + 1] or column_of[new] >= 0:
            continue
        row, so_far = new, 0
        # The shortest path so far to an end: a free column, or a row that stays without one.
        shortest, end, left_over = unmatched, -1, new
        n_reached, n_settled, heap = 0, 0, 0
        while True:
            base = so_far - u[row]
            if base + unmatched < shortest:
                shortest, end, left_over = base + unmatched, -1, row
            for edge in range(start[row], start[row + 1]):
                column = columns[edge]
                length = base + weights[edge] - v[column]
                if length >= shortest or length >= distance[column]:
                    continue
                before[column] = row
                if row_of[column] < 0:
                    shortest, end = length, column
                    continue
                if distance[column] == _FAR:
                    reached[n_reached] = column
                    n_reached += 1
                distance[column] = length
                heap = _push(keys, values, heap, length, column)
            column = -1
            while heap and column < 0:  # skip entries that a shorter path has replaced
                if distance[values[0]] == keys[0]:
                    column = values[0]
                heap = _pop(keys, values, heap)
            if column < 0 or distance[column] >= shortest:
                break
            so_far, row = distance[column], row_of[column]
            settled[n_settled] = column
            n_settled += 1

        u[new] += shortest
        for k in range(n_settled):
            done = settled[k]
            v[done] -= shortest - distance[done]
            u[row_of[done]] += shortest - distance[done]
        if end < 0:
            column_of[left_over], end = -1, column_of[left_over]
        while end >= 0:  # back along the path, each row takes the column reached from it
            row = before[end]
            row_of[end] = row
            column_of[row], end = end, column_of[row]
        for k in range(n_reached):
            distance[reached[k]] = _FAR
    return column_of


@compiled
def _push(keys: Ints, values: Ints, size: int, key: int, value: int) -> int:
    """Add a key and its value to a heap; return its new size."""
    node = size
    while node:
        above = (node - 1) >> 1
        if keys[above] <= key:
            break
        keys[node], values[node] = keys[above], values[above]
        node = above
    keys[node], values[node] = key, value
    return size + 1


@compiled
def _pop(keys: Ints, values: Ints, size: int) -> int:
    """Remove the least key of a heap; return its new size."""
    size -= 1
    key, value = keys[size], values[size]
    node, below = 0, 1
    while below < size:
        if below + 1 < size and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[node], values[node] = keys[below], values[below]
        node, below = below, 2 * below + 1
    keys[node], values[node] = key, value
    return size
