"""Pixels matched one to one at the least cost."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching

from hnets.metrics.matching import Matcher

Mask = NDArray[np.bool_]


@st.composite
def masks(draw: st.DrawFn, count: int) -> list[Mask]:
    shape = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return [random.random(shape) < draw(st.floats(0, 1)) for _ in range(count)]


def match(
    first: ArrayLike, second: ArrayLike, radius: float, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of pixels of two binary maps: their positions in either map, flat."""
    masks = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    matcher = Matcher(masks[0].shape, radius)
    pairs = matcher.match(matcher.pixels(masks[0]), matcher.pixels(masks[1]), seed)
    one, two = (np.flatnonzero(mask)[ends] for mask, ends in zip(masks, pairs, strict=True))
    return one, two


def distances(one: NDArray[np.int64], two: NDArray[np.int64], width: int) -> NDArray[np.float64]:
    (y1, x1), (y2, x2) = (np.divmod(places, width) for places in (one, two))
    return np.hypot(y1 - y2, x1 - x2)


def least_cost(first: Mask, second: Mask, radius: float) -> int:
    """The official cost, by SciPy: each pixel of the first map has a lost pair of its own."""
    one, two = np.flatnonzero(first), np.flatnonzero(second)
    far = distances(one[:, None], two[None, :], first.shape[1])
    lost = int(np.ceil(100 * 100 * radius))
    row, column = np.nonzero(far <= radius)
    own = np.arange(len(one))
    costs = np.concatenate([np.rint(100 * far[row, column]), np.full(len(own), lost)]) + 1
    ends = np.concatenate([row, own]), np.concatenate([column, len(two) + own])
    if not len(own):
        return 0
    graph = csr_array((costs, ends), shape=(len(one), len(two) + len(one)))
    return int(graph[min_weight_full_bipartite_matching(graph)].sum()) - len(one)


@given(pair=masks(2), radius=st.floats(0.5, 5), seed=st.integers(0, 10**6))
def test_the_cost_is_the_least(pair: list[Mask], radius: float, seed: int) -> None:
    first, second = pair
    one, two = match(first, second, radius, seed)
    far = distances(one, two, first.shape[1])
    assert len(set(one)) == len(set(two)) == len(one)
    assert first.ravel()[one].all()
    assert second.ravel()[two].all()
    assert (far <= radius).all()
    lost = int(np.ceil(100 * 100 * radius)) * (first.sum() - len(one))
    assert np.rint(100 * far).sum() + lost == least_cost(first, second, radius)


@given(pair=masks(2))
def test_it_does_not_matter_which_map_comes_first(pair: list[Mask]) -> None:
    costs = []
    for first, second in (pair, pair[::-1]):
        one, two = match(first, second, 3)
        far = distances(one, two, first.shape[1])
        costs.append((len(one), np.rint(100 * far).sum()))
    assert costs[0] == costs[1]


@pytest.mark.parametrize(("length", "pairs"), [(99, 99), (101, 100)])
def test_a_pixel_without_a_partner_costs_a_hundred_radii(length: int, pairs: int) -> None:
    """One more pair is worth moving 99 others by a pixel, but not 101."""
    first, second = np.zeros((1, 120)), np.zeros((1, 120))
    first[:, :length] = 1
    second[:, 1 : length + 1] = 1
    one, _ = match(first, second, radius=1)
    assert len(one) == pairs


def test_ties_are_broken_at_random_and_repeatably() -> None:
    """A line between two takes its pixels from both, and others with another seed."""
    truth, drawn = np.zeros((200, 9)), np.zeros((200, 9))
    truth[:, 4] = 1
    drawn[:, [3, 5]] = 1
    one, _ = match(drawn, truth, radius=1, seed=1)
    again, _ = match(drawn, truth, radius=1, seed=1)
    other, _ = match(drawn, truth, radius=1, seed=2)
    assert (one == again).all()
    assert 70 < (one % 9 == 3).sum() < 130
    assert 270 < len(set(one) | set(other)) < 330


def test_maps_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a map of shape \(3, 4\), got \(4, 3\)"):
        Matcher((3, 4), 1.0).pixels(np.zeros((4, 3)))
