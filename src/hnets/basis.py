"""Circular harmonics on a pixel grid: exp(imφ) on rings, in float64, each of unit norm.

The convention is the paper's: y points up, φ runs counter-clockwise from +x, and the centre of the
kernel is the origin.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rings = Literal["exact", "gaussian"]
_LARGEST_SUGGESTION = 33


def grid(kernel_size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Radius and angle of every pixel of a kernel, seen from its centre with y up.

    >>> r, phi = grid(3)
    >>> float(phi[0, 1] / np.pi)     # the pixel above the centre lies at 90 degrees
    0.5
    """
    offset = np.arange(kernel_size) - (kernel_size - 1) / 2
    x, y = np.meshgrid(offset, -offset)
    return np.hypot(x, y), np.arctan2(y, x)


@lru_cache(maxsize=512)
def harmonic_basis(
    kernel_size: int, order: int, rings: Rings = "exact", sigma: float = 0.6
) -> NDArray[np.complex128]:
    """The filters exp(i·order·φ), one per ring from the centre outwards: ``(rings, k, k)``.

    Every filter has unit norm. The array is empty where no ring of this kernel can carry the order,
    and read-only, because all callers share it. There are two kinds of rings:

    ``exact``
        One ring per distinct distance of a pixel from the centre, holding just those pixels. A 5×5
        kernel has 6 of them, 5 for an order other than 0: the paper's count.
    ``gaussian``
        Rings at whole-pixel spacing, sampled finely in polar coordinates and resampled on the grid
        with a Gaussian of width ``sigma`` in pixels (the paper's section 4.2).

    Sampled on a square grid, exp(imφ) mixes with the orders m ± 4, m ± 8, ...: a filter of order 3
    on eight pixels responds mostly to order −1, which is far stronger in a smooth image. So every
    filter is made orthogonal to the orders below it and to order −m: on its own pixels for an exact
    ring, and up to degree |m| + 2 in the radius for a Gaussian one. A ring is too coarse for an
    order, and left out of its basis, where that removes half of the filter's power or more, or
    where |m| > 2r on a Gaussian ring of radius r (a wavelength under π pixels). On an exact ring of
    N pixels 2|m| < N is necessary. Orders 0 and ±1 are not changed by any of this.

    >>> harmonic_basis(5, 0).shape, harmonic_basis(5, 1).shape
    ((6, 5, 5), (5, 5, 5))
    >>> bool(np.allclose(harmonic_basis(5, -1), harmonic_basis(5, 1).conj()))
    True
    """
    if order < 0:
        mirrored = harmonic_basis(kernel_size, -order, rings, sigma).conj()
        mirrored.setflags(write=False)
        return mirrored
    if kernel_size < 1:
        raise ValueError(f"kernel_size is a whole number from 1, got {kernel_size}")
    if not sigma > 0:
        raise ValueError(f"sigma is a width in pixels above 0, got {sigma}")
    if 2 * order >= kernel_size**2:  # no ring has that many pixels
        return np.zeros((0, kernel_size, kernel_size), dtype=np.complex128)
    filters = _rings(kernel_size, order, rings, sigma)
    filters = filters[np.count_nonzero(filters, axis=1) > 2 * order]  # the others would be dropped
    below = [m for m in range(-order, order) if (order - m) % 4 == 0]
    if below and len(filters):
        unwanted = np.concatenate([_content(kernel_size, m, rings, order + 2) for m in below])
        if kernel_size % 2:
            unwanted[:, kernel_size**2 // 2] = 0  # filters are 0 at the centre and stay so
        filters -= filters @ np.linalg.pinv(unwanted, rcond=1e-9) @ unwanted
    power = (np.abs(filters) ** 2).sum(axis=1)
    fine = filters[power > 0.5] / np.sqrt(power[power > 0.5, None])
    basis = fine.reshape(-1, kernel_size, kernel_size)
    basis.setflags(write=False)
    return basis


def smallest_kernel(
    order: int, kernel_size: int, rings: Rings = "exact", sigma: float = 0.6
) -> int | None:
    """The next larger kernel of the same parity whose basis for ``order`` is not empty.

    >>> smallest_kernel(order=2, kernel_size=3)
    5
    """
    for size in range(kernel_size + 2, _LARGEST_SUGGESTION, 2):
        if len(harmonic_basis(size, order, rings, sigma)):
            return size
    return None


def _rings(kernel_size: int, order: int, rings: Rings, sigma: float) -> NDArray[np.complex128]:
    """exp(i·order·φ) on each ring as sampling gives it, in unit norm: ``(rings, k·k)``."""
    if rings == "exact":
        filters = _exact(kernel_size, order)
    elif rings == "gaussian":
        filters = _gaussian(kernel_size, order, sigma)
    else:
        raise ValueError(f'rings are "exact" or "gaussian", got {rings!r}')
    if order != 0 and kernel_size % 2:
        filters[:, kernel_size**2 // 2] = 0  # the centre, exactly and not to rounding
    norm = np.linalg.norm(filters, axis=1)
    unit: NDArray[np.complex128] = filters[norm > 0] / norm[norm > 0, None]
    return unit


def _exact(kernel_size: int, order: int) -> NDArray[np.complex128]:
    radius, phi = grid(kernel_size)
    # Four times a squared distance is a whole number, so this comparison is exact.
    distance = np.rint(4 * radius**2).ravel()
    return (distance == np.unique(distance)[:, None]) * np.exp(1j * order * phi.ravel())


def _gaussian(kernel_size: int, order: int, sigma: float) -> NDArray[np.complex128]:
    offset = np.arange(kernel_size) - (kernel_size - 1) / 2
    radius = offset[(offset >= 0) & (abs(order) <= 2 * offset)]
    # A multiple of 8 keeps the symmetries of the square; neighbours lie under half a pixel apart.
    angle = 2 * math.pi * np.arange(8 * kernel_size) / (8 * kernel_size)
    x, y = radius[:, None] * np.cos(angle), radius[:, None] * np.sin(angle)  # (rings, samples)
    near_x = np.exp(-((offset - x[..., None]) ** 2) / (2 * sigma**2))  # (rings, samples, k)
    near_y = np.exp(-((-offset - y[..., None]) ** 2) / (2 * sigma**2))
    filters = np.einsum("rsi,rsj,s->rij", near_y, near_x, np.exp(1j * order * angle))
    return filters.reshape(len(radius), kernel_size**2)


def _content(kernel_size: int, order: int, rings: Rings, degree: int) -> NDArray[np.complex128]:
    """What one order in an image can look like on a ring: ``(functions, k·k)``."""
    if rings == "exact":
        return _exact(kernel_size, order)
    radius, phi = grid(kernel_size)
    scaled = (radius / max(radius.max(), 1)).ravel()
    powers = np.arange(abs(order), degree + 1, 2)
    return scaled ** powers[:, None] * np.exp(1j * order * phi.ravel())
