"""Initial radial weights, such that a layer neither amplifies nor damps any frequency.

With equal variances rings of order 0 pass low frequencies many times stronger than high ones: in
ten 5×5 layers noise grows 60-fold and a natural image 1000-fold. So the variance of each ring is
chosen to bring the expected power gain into every stream near 1 at every frequency, by non-negative
least squares, regularised towards equal variances.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hnets.plan import Combine, Plan

_FREQUENCIES = 32
_REGULARISATION = 0.002
_SWEEPS = 500


@lru_cache(maxsize=256)
def radial_std(plan: Plan, combine: Combine = "sum") -> tuple[NDArray[np.float64], ...]:
    """Standard deviations of the radial weights of each block, one per column.

    ``combine`` says what becomes of responses that converge on an output stream.
    """
    ends = np.cumsum([block.columns for block in plan.blocks])
    std = np.sqrt(_flatten(_equations(plan, combine), _spectra(plan)))
    return tuple(np.split(std, ends[:-1]))


def _spectra(plan: Plan) -> NDArray[np.float64]:
    """|Fourier transform|² of the filter behind every column of every block."""
    spectra = []
    for block in plan.blocks:
        for each in block.filters:
            transform = np.fft.fft2(each.harmonics, s=(_FREQUENCIES, _FREQUENCIES))
            spectra.append((np.abs(transform) ** 2).reshape(len(transform), -1))
    return np.concatenate(spectra)


def _equations(plan: Plan, combine: Combine) -> NDArray[np.float64]:
    """How much each column adds to each sum whose power gain is to be 1: ``(sums, columns)``."""
    total = sum(block.columns for block in plan.blocks)
    sums: dict[tuple[int, ...], NDArray[np.float64]] = {}
    start = 0
    for i, row in enumerate(plan.rows):
        for j, block in enumerate(row):
            for path in block.paths:
                target, source = block.outputs[path.target], block.inputs[path.source]
                # A real stream keeps the real part of a complex response: half of its power. Real
                # weights have real responses, until a nonlinearity makes others.
                halved = target.real and not source.real and not plan.spec.mirror
                share = 0.5 if halved else 1.0
                key: tuple[int, ...] = (i, path.target)
                if combine != "sum":
                    key += (j, path.source)
                columns = block.filters[path.filter].columns
                gain = sums.setdefault(key, np.zeros(total))
                gain[start + columns.start : start + columns.stop] += share * source.multiplicity
            start += block.columns
    if combine == "max":
        rivals = Counter(key[:2] for key in sums)
        for key, gain in sums.items():
            real = plan.rows[key[0]][0].outputs[key[1]].real
            gain *= _largest_power(rivals[key[:2]], real)
    return np.stack(list(sums.values()))


def _largest_power(responses: int, real: bool) -> float:
    """The expected power of the largest of so many independent Gaussian responses of power 1."""
    if not real:  # a power is exponentially distributed
        return sum(1 / k for k in range(1, responses + 1))
    power, step = np.linspace(0, 40, 4001, retstep=True)
    below = np.array([math.erf(math.sqrt(p / 2)) for p in power.tolist()])
    return float((1 - below**responses).sum() * step - step / 2)


def _flatten(gain: NDArray[np.float64], spectra: NDArray[np.float64]) -> NDArray[np.float64]:
    """Variances v ≥ 0 with which Σ_u gain[e, u] · v[u] · spectra[u, f] is near 1 for all e, f."""
    # Weigh frequencies as they occur: half as in white noise, half as in natural images (1/f²).
    f = np.fft.fftfreq(_FREQUENCIES)
    natural = 1 / (f[:, None] ** 2 + f[None, :] ** 2 + 1 / _FREQUENCIES**2)
    weight = (0.5 / natural.size + 0.5 * natural / natural.sum()).reshape(-1)
    uniform = 1 / gain.sum(axis=1).mean()
    overlap = (spectra * weight) @ spectra.T
    penalty = _REGULARISATION / len(spectra)
    # In units of `uniform`, minimise the mean squared deviation by coordinate descent.
    scaled = gain * uniform
    a = np.einsum("eu,ev,uv->uv", scaled, scaled, overlap) / len(gain)
    a += penalty * np.eye(len(spectra))
    b = scaled.mean(axis=0) * (spectra @ weight) + penalty
    v = np.ones(len(spectra))
    # One by one, Python's floats take less than half the time of NumPy's.
    products = [row.dot for row in a]
    values, system = v.tolist(), list(zip(products, b.tolist(), a.diagonal().tolist(), strict=True))
    for _ in range(_SWEEPS):
        before = v.copy()
        for u, (product, target, scale) in enumerate(system):
            values[u] = v[u] = max(0.0, values[u] + (target - float(product(v))) / scale)
        if np.abs(v - before).max() < 1e-4:
            break
    return v * uniform
