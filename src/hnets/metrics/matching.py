"""Match the pixels of two boundary maps one to one, at the least total cost.

The cost is that of the Berkeley benchmark: a pair costs its distance, in hundredths of a pixel and
rounded, two pixels further apart than the radius do not pair, and a pair that could not be made
costs 100 times the radius. So as many pixels as possible are matched, and as close together as
possible.

Many matchings cost the same, for pixels are at few distances from one another, and it matters which
of them is taken: where a detector draws a line on either side of a boundary, a rule takes the same
line for every annotator and calls the other one wrong, and chance takes of both. The official
programme leaves it to chance, seeded by the clock. Here chance is a hash of the pair and a seed,
added to the cost as less than its last digit: the best matching is then a single one, the same each
time.

Pixels of the smaller map are added one by one, along shortest paths of rematching (Jonker and
Volgenant, 1987). The prices that this leaves behind keep later searches short.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.metrics._jit import compiled

__all__ = ["Matcher", "Pixels", "match"]

_CHANCE = 1 << 12  # how many values the hash has
_FAR = 1 << 60


class Pixels(NamedTuple):
    """The pixels of a binary map, numbered row by row, for a `Matcher`."""

    places: NDArray[np.int64]
    """Where each pixel is in the grid."""
    grid: NDArray[np.int64]
    """The number of the pixel at each place, or −1; flat, with a frame as wide as the radius."""


class Matcher:
    """Matches maps of one shape within one radius."""

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
        self._lost = math.ceil(100 * 100 * radius)

    def pixels(self, mask: ArrayLike) -> Pixels:
        """Number the pixels of a map."""
        ink = np.asarray(mask, dtype=bool)
        if ink.shape != self.shape:
            raise ValueError(f"expected a map of shape {self.shape}, got {ink.shape}")
        framed = np.pad(ink, self.frame).ravel()
        places = np.flatnonzero(framed)
        grid = np.full(framed.size, -1)
        grid[places] = np.arange(len(places))
        return Pixels(places, grid)

    def match(
        self, one: Pixels, two: Pixels, seed: int = 0
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The pairs: the numbers of their pixels in the first map, and those in the second."""
        swapped = len(one.places) > len(two.places)
        few, many = (two, one) if swapped else (one, two)
        partner = _match(
            few.places, many.grid, len(many.places), self._steps, self._costs, self._lost,
            seed, swapped,
        )  # fmt: skip
        pairs = np.flatnonzero(partner >= 0), partner[partner >= 0]
        return (pairs[1], pairs[0]) if swapped else pairs


def match(
    first: ArrayLike, second: ArrayLike, radius: float, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of pixels of two binary maps (h, w): their places in either map, flat.

    >>> match([[1, 0, 0, 1, 1]], [[0, 1, 1, 0, 0]], radius=1)
    (array([0, 3]), array([1, 2]))
    """
    masks = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    matcher = Matcher(masks[0].shape, radius)
    pairs = matcher.match(matcher.pixels(masks[0]), matcher.pixels(masks[1]), seed)
    one, two = (np.flatnonzero(mask)[ends] for mask, ends in zip(masks, pairs, strict=True))
    return one, two


@compiled
def _match(
    places: NDArray[np.int64],
    grid: NDArray[np.int64],
    width: int,
    steps: NDArray[np.int64],
    costs: NDArray[np.int64],
    lost: int,
    seed: int,
    swapped: bool,
) -> NDArray[np.int64]:
    """The partner of each of the few pixels at ``places``, or −1."""
    scale = _CHANCE * (len(places) + 1)  # all chances together are less than the last digit
    start, columns, weights = _graph(places, grid, steps, costs * scale, seed, swapped)
    return _assign(start, columns, weights, lost * scale, width)


@compiled
def _graph(
    places: NDArray[np.int64],
    grid: NDArray[np.int64],
    steps: NDArray[np.int64],
    costs: NDArray[np.int64],
    seed: int,
    swapped: bool,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
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
        here = places[row]
        for k in range(len(steps)):
            there = here + steps[k]
            if grid[there] >= 0:
                chance = _chance(there, here, seed) if swapped else _chance(here, there, seed)
                columns[edge] = grid[there]
                weights[edge] = costs[k] + chance
                edge += 1
    return start, columns, weights


@compiled
def _chance(one: int, two: int, seed: int) -> np.int64:
    """A number below `_CHANCE`, hashed as SplitMix64 does."""
    x = np.uint64((one << 32) + two) + np.uint64(seed) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((x ^ (x >> np.uint64(31))) % np.uint64(_CHANCE))


@compiled
def _assign(
    start: NDArray[np.int64],
    columns: NDArray[np.int64],
    weights: NDArray[np.int64],
    lost: int,
    width: int,
) -> NDArray[np.int64]:
    """The column of each row, or −1, at the least total cost.

    Prices ``u`` of rows and ``v`` of columns prove that it is the least: no edge costs less than
    its two prices, the edges taken cost just that, a free column costs nothing, a row that is left
    over costs a lost pair.
    """
    rows = len(start) - 1
    u, v = np.zeros(rows, np.int64), np.zeros(width, np.int64)
    column_of, row_of = np.full(rows, -1, np.int64), np.full(width, -1, np.int64)
    distance = np.full(width, _FAR, np.int64)
    before = np.empty(width, np.int64)  # the row from which a column was reached
    reached, settled = np.empty(width, np.int64), np.empty(width, np.int64)
    keys, values = np.empty(len(columns), np.int64), np.empty(len(columns), np.int64)

    for row in range(rows):  # most rows can have the column that is cheapest for them
        for edge in range(start[row], start[row + 1]):
            if edge == start[row] or weights[edge] < u[row]:
                u[row], column = weights[edge], columns[edge]
        if start[row] < start[row + 1] and row_of[column] < 0:
            column_of[row], row_of[column] = column, row

    for new in range(rows):
        if start[new] == start[new + 1] or column_of[new] >= 0:
            continue
        row, so_far = new, 0
        # The shortest path so far to an end: a free column, or a row that would be left over.
        shortest, end, left_over = lost, -1, new
        n_reached, n_settled, heap = 0, 0, 0
        while True:
            base = so_far - u[row]
            if base + lost < shortest:
                shortest, end, left_over = base + lost, -1, row
            for edge in range(start[row], start[row + 1]):
                column = columns[edge]
                there = base + weights[edge] - v[column]
                if there >= shortest or there >= distance[column]:
                    continue
                before[column] = row
                if row_of[column] < 0:
                    shortest, end = there, column
                    continue
                if distance[column] == _FAR:
                    reached[n_reached] = column
                    n_reached += 1
                distance[column] = there
                heap = _push(keys, values, heap, there, column)
            column = -1
            while heap and column < 0:  # skip what a shorter path has overtaken
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
        while end >= 0:  # back along the path, each row takes the column it has reached
            row = before[end]
            row_of[end] = row
            column_of[row], end = end, column_of[row]
        for k in range(n_reached):
            distance[reached[k]] = _FAR
    return column_of


@compiled
def _push(
    keys: NDArray[np.int64], values: NDArray[np.int64], size: int, key: int, value: int
) -> int:
    """Put a key and its value into a heap; its new size."""
    here = size
    while here:
        above = (here - 1) >> 1
        if keys[above] <= key:
            break
        keys[here], values[here] = keys[above], values[above]
        here = above
    keys[here], values[here] = key, value
    return size + 1


@compiled
def _pop(keys: NDArray[np.int64], values: NDArray[np.int64], size: int) -> int:
    """Drop the least key of a heap; its new size."""
    size -= 1
    key, value = keys[size], values[size]
    here, below = 0, 1
    while below < size:
        if below + 1 < size and keys[below + 1] < keys[below]:
            below += 1
        if keys[below] >= key:
            break
        keys[here], values[here] = keys[below], values[below]
        here, below = below, 2 * below + 1
    keys[here], values[here] = key, value
    return size
