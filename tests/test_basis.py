"""Circular harmonics on the grid: norms, orthogonality, rotation, and which rings are left out."""

import math
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from hnets.basis import (
    Rings,
    grid,
    harmonic_basis,
    smallest_kernel,
)

SIZES = range(1, 10)
ORDERS = range(-6, 7)
RINGS: tuple[Rings, ...] = ("exact", "gaussian")
kernels = pytest.mark.parametrize(("size", "rings"), list(product(SIZES, RINGS)))

Complex = NDArray[np.complex128]


def flat(filters: Complex) -> Complex:
    return filters.reshape(len(filters), filters.shape[-1] ** 2)


def raw_ring(kernel_size: int, order: int, distance: float) -> Complex:
    """exp(i·order·φ) on the pixels at one distance from the centre, as sampling gives it."""
    radius, phi = grid(kernel_size)
    return np.where(np.isclose(radius, distance), np.exp(1j * order * phi), 0)


def raw_gaussian(kernel_size: int, order: int, distance: float, sigma: float = 0.6) -> Complex:
    """A circle of exp(i·order·φ), resampled with a Gaussian and not corrected for aliasing."""
    radius, phi = grid(kernel_size)
    x, y = radius * np.cos(phi), radius * np.sin(phi)
    circle = np.arange(720) * 2 * math.pi / 720
    dx = x[..., None] - distance * np.cos(circle)
    dy = y[..., None] - distance * np.sin(circle)
    weight = np.exp(-(dx**2 + dy**2) / (2 * sigma**2))
    return (weight * np.exp(1j * order * circle)).sum(-1)


# The grid ----------------------------------------------------------------------------------------


def test_y_points_up_and_angles_run_counter_clockwise() -> None:
    radius, phi = grid(3)
    assert phi[1, 2] == 0
    assert phi[0, 1] == math.pi / 2
    assert phi[2, 1] == -math.pi / 2
    assert radius[1, 1] == 0
    assert grid(4)[0].min() == math.hypot(0.5, 0.5)


# Every filter ------------------------------------------------------------------------------------


@kernels
def test_filters_have_unit_norm(size: int, rings: Rings) -> None:
    for order in ORDERS:
        filters = harmonic_basis(size, order, rings)
        assert filters.shape[1:] == (size, size)
        assert filters.dtype == np.complex128
        np.testing.assert_allclose(np.linalg.norm(flat(filters), axis=1), 1, rtol=0, atol=1e-14)


@kernels
def test_a_quarter_turn_of_a_filter_is_a_phase(size: int, rings: Rings) -> None:
    for order in ORDERS:
        filters = harmonic_basis(size, order, rings)
        rotated = np.rot90(filters, axes=(1, 2))  # W(φ − 90°): counter-clockwise on the screen
        np.testing.assert_allclose(rotated, (-1j) ** order * filters, rtol=0, atol=1e-14)


@kernels
def test_a_reflection_of_a_filter_is_its_conjugate(size: int, rings: Rings) -> None:
    for order in ORDERS:
        filters = harmonic_basis(size, order, rings)
        np.testing.assert_allclose(filters[:, ::-1], filters.conj(), rtol=0, atol=1e-14)


@kernels
def test_negative_orders_are_conjugates(size: int, rings: Rings) -> None:
    for order in ORDERS:
        filters = harmonic_basis(size, order, rings)
        assert np.array_equal(harmonic_basis(size, -order, rings), filters.conj())


@pytest.mark.parametrize("rings", RINGS)
@pytest.mark.parametrize("size", [1, 3, 5, 7, 9])
def test_the_centre_is_exactly_zero_unless_the_order_is(size: int, rings: Rings) -> None:
    centre = size // 2
    assert harmonic_basis(size, 0, rings)[0, centre, centre] != 0
    for order in ORDERS:
        assert order == 0 or not harmonic_basis(size, order, rings)[:, centre, centre].any()


@kernels
def test_orders_that_do_not_differ_by_a_multiple_of_four_are_orthogonal(
    size: int, rings: Rings
) -> None:
    for m, n in product(ORDERS, ORDERS):
        if (m - n) % 4:
            overlap = (
                flat(harmonic_basis(size, m, rings)) @ flat(harmonic_basis(size, n, rings)).conj().T
            )
            np.testing.assert_allclose(overlap, 0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", SIZES)
def test_exact_rings_are_orthogonal_to_every_lower_order(size: int) -> None:
    distances = np.unique(grid(size)[0].round(9))
    for m in range(1, 7):
        filters = flat(harmonic_basis(size, m))
        lower = [raw_ring(size, n, d).ravel() for n in range(-m, m) for d in distances]
        np.testing.assert_allclose(filters @ np.conj(lower).T, 0, rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", range(4, 10))
def test_gaussian_rings_do_not_see_polynomials_of_lower_order(size: int) -> None:
    radius, phi = grid(size)
    for m in range(1, 7):
        filters = flat(harmonic_basis(size, m, "gaussian"))
        for n in range(-m, m):
            for degree in range(abs(n), m + 3, 2):
                content = (radius / size) ** degree * np.exp(1j * n * phi)
                np.testing.assert_allclose(filters @ content.ravel().conj(), 0, rtol=0, atol=1e-9)


# Which rings -------------------------------------------------------------------------------------


def test_a_5x5_kernel_has_the_rings_that_the_paper_counts() -> None:
    assert len(harmonic_basis(5, 0)) == 6
    assert len(harmonic_basis(5, 1)) == len(harmonic_basis(5, -1)) == 5


@pytest.mark.parametrize("size", SIZES)
def test_orders_0_and_1_use_every_ring_unchanged(size: int) -> None:
    distances = np.unique(grid(size)[0].round(9))
    for m in (0, 1):
        distinct = [d for d in distances if m == 0 or d > 0]
        rings = [raw_ring(size, m, d) for d in distinct]
        expected = np.array([r / np.linalg.norm(r) for r in rings]).reshape(-1, size, size)
        np.testing.assert_allclose(harmonic_basis(size, m), expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", SIZES)
def test_gaussian_rings_of_orders_0_and_1_are_the_papers_resampling(size: int) -> None:
    offset = (size - 1) / 2 % 1
    for m in (0, 1):
        distances = np.arange(offset, size / 2, 1.0)
        rings = [raw_gaussian(size, m, d) for d in distances if m == 0 or d > 0]
        expected = np.array([r / np.linalg.norm(r) for r in rings]).reshape(-1, size, size)
        np.testing.assert_allclose(harmonic_basis(size, m, "gaussian"), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", SIZES)
def test_an_order_needs_more_than_twice_as_many_pixels_on_its_ring(size: int) -> None:
    for m in range(1, 8):
        for f in harmonic_basis(size, m):
            assert np.count_nonzero(np.abs(f) > 1e-12) > 2 * m


@pytest.mark.parametrize("rings", ["exact", "gaussian"])
def test_an_order_of_any_size_is_known_to_be_too_high_at_once(rings: Rings) -> None:
    assert harmonic_basis(5, 10**400, rings).shape == (0, 5, 5)


def test_gaussian_rings_too_small_for_an_order_are_left_out() -> None:
    assert [len(harmonic_basis(7, m, "gaussian")) for m in range(7)] == [4, 3, 3, 2, 2, 1, 0]


@pytest.mark.parametrize("rings", RINGS)
@pytest.mark.parametrize("size", range(1, 6))
@pytest.mark.parametrize("order", range(2, 5))
def test_the_suggested_kernel_is_the_next_that_can_carry_the_order(
    size: int, order: int, rings: Rings
) -> None:
    suggested = smallest_kernel(order, size, rings)
    if suggested is None:
        assert all(len(harmonic_basis(s, order, rings)) == 0 for s in range(size + 2, 33, 2))
        return
    assert suggested % 2 == size % 2
    assert len(harmonic_basis(suggested, order, rings))
    assert not any(len(harmonic_basis(s, order, rings)) for s in range(size + 2, suggested, 2))


# Sharing and errors ------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [-2, -1, 0, 1, 2])
def test_bases_are_cached_and_read_only(order: int) -> None:
    filters = harmonic_basis(5, order)
    assert harmonic_basis(5, order) is filters
    with pytest.raises(ValueError, match="read-only"):
        filters[0] = 0


@pytest.mark.parametrize("order", [-1, 0, 1])
def test_bad_arguments_are_named(order: int) -> None:
    with pytest.raises(ValueError, match="kernel_size is a whole number from 1, got 0"):
        harmonic_basis(0, order)
    with pytest.raises(ValueError, match="sigma is a width in pixels above 0, got -1"):
        harmonic_basis(5, order, "gaussian", -1.0)
    with pytest.raises(ValueError, match='rings are "exact" or "gaussian", got \'square\''):
        harmonic_basis(5, order, "square")


# Any angle ---------------------------------------------------------------------------------------

# Of the response, on random images without wavelengths under 16 pixels, kernels 4 to 7.
BOUND = {"exact": 0.05, "gaussian": 0.01}


def responses(filters: Complex, theta: float, wavelength: float = 16.0) -> Complex:
    """Answers, ``(images, filters)``, to 300 random images rotated by θ about the kernel."""
    rng = np.random.default_rng(0)
    waves = (300, 8)
    frequency = 2 * math.pi / wavelength * np.sqrt(rng.random(waves))
    direction, shift = 2 * math.pi * rng.random(waves) + theta, 2 * math.pi * rng.random(waves)
    amplitude = rng.random(waves)
    radius, phi = (g.ravel() for g in grid(filters.shape[-1]))
    along = radius * np.cos(phi - direction[..., None])
    images = (amplitude[..., None] * np.cos(frequency[..., None] * along + shift[..., None])).sum(
        axis=1
    )
    return images @ flat(filters).T


def worst_error(filters: Complex, order: int) -> float:
    """Largest root mean square of W ⋆ F^θ − exp(imθ) W ⋆ F, of that of W ⋆ F, over rings, θ."""
    straight = responses(filters, 0.0)
    worst = 0.0
    for theta in np.radians([10, 20, 30, 45, 60, 75, 200]):
        off = responses(filters, theta) - np.exp(1j * order * theta) * straight
        ratio = np.linalg.norm(off, axis=0) / np.linalg.norm(straight, axis=0)
        worst = max(worst, ratio.max())
    return worst


@pytest.mark.parametrize("rings", RINGS)
@pytest.mark.parametrize("size", range(4, 8))
@pytest.mark.parametrize("order", [-3, -2, 2, 3])
def test_orders_2_and_3_rotate_as_they_should_at_any_angle(
    size: int, order: int, rings: Rings
) -> None:
    assert worst_error(harmonic_basis(size, order, rings), order) < BOUND[rings]


@pytest.mark.parametrize("rings", RINGS)
@pytest.mark.parametrize("size", range(4, 8))
@pytest.mark.parametrize("order", [-3, -2, 2, 3])
def test_filters_as_sampled_do_not(size: int, order: int, rings: Rings) -> None:
    if rings == "exact":
        raw = raw_ring(size, order, math.hypot(size / 2 - 0.5, size / 2 - 1.5))
    else:
        raw = raw_gaussian(size, order, size / 2 - 0.5)
    assert worst_error(raw[None], order) > 4 * BOUND[rings]


@pytest.mark.parametrize(("size", "bound"), [(3, 0.02), (5, 0.08), (7, 0.2)])
def test_exact_rings_of_order_1_rotate_within_a_bound_that_grows_with_their_radius(
    size: int, bound: float
) -> None:
    assert worst_error(harmonic_basis(size, 1), 1) < bound


@pytest.mark.parametrize("size", [3, 5, 7])
def test_gaussian_rings_of_orders_0_and_1_rotate_within_a_hundredth(size: int) -> None:
    assert worst_error(harmonic_basis(size, 0, "gaussian"), 0) < 0.012
    assert worst_error(harmonic_basis(size, 1, "gaussian"), 1) < 0.012
