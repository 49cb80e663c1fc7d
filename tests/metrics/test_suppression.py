"""Non-maximum suppression against its definition."""

import numpy as np
import pytest

from hnets.errors import InputError
from hnets.metrics.suppression import VARIANTS, suppress, suppress_across


def test_only_the_ridge_of_a_line_is_left() -> None:
    y, x = np.mgrid[:60, :60]
    for angle in np.radians([0, 20, 45, 70, 100, 160]):
        across = (x - 29.5) * np.cos(angle) + (y - 29.5) * np.sin(angle)
        ridge = suppress(np.exp(-(across**2) / 8))[10:-10, 10:-10]
        assert np.abs(across[10:-10, 10:-10][ridge > 0]).max() < 1.1
        assert (ridge > 0.7).sum() > 35


def test_suppression_pixel_by_pixel() -> None:
    """The definition, read slowly."""
    random = np.random.default_rng(0)
    soft, normal = random.random((13, 17)), random.uniform(0, np.pi, (13, 17))
    for reach in (1, 2):
        expected = soft.copy()
        for y, x in np.ndindex(soft.shape):
            for d in (-2, -1, 1, 2):
                if abs(d) > reach:
                    continue
                v = min(max(y + d * np.sin(normal[y, x]), 0), 12 - 0.001)
                u = min(max(x + d * np.cos(normal[y, x]), 0), 16 - 0.001)
                i, j = int(v), int(u)
                corner = soft[i : i + 2, j : j + 2]
                neighbour = np.array([1 - v + i, v - i]) @ corner @ np.array([1 - u + j, u - j])
                if 1.01 * soft[y, x] < neighbour:
                    expected[y, x] = 0
            expected[y, x] *= min(min(y, 12 - y) / 5, 1) * min(min(x, 16 - x) / 5, 1)
        assert suppress_across(soft, normal, reach) == pytest.approx(expected)


def test_variants_differ_and_are_known_by_name() -> None:
    soft = np.random.default_rng(0).random((40, 40))
    results = {name: suppress(soft, name) for name in VARIANTS}
    assert (results["none"] == soft).all()
    counts = {name: int((result > 0).sum()) for name, result in results.items()}
    assert counts["two-pixels"] < counts["standard"] < counts["none"]
    assert counts["unsmoothed"] not in (counts["standard"], counts["none"])
    with pytest.raises(InputError, match="there is no suppression 'nms'; choose from none, stan"):
        suppress(soft, "nms")
    with pytest.raises(InputError, match="at least 2×2"):
        suppress(np.zeros((1, 9)))
