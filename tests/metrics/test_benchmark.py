"""Edge maps in files."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hnets.errors import InputError
from hnets.metrics.benchmark import read_map

LINE = np.arange(64) == np.full((48, 1), 3)


@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
@pytest.mark.parametrize("kind", ["png", "npy"])
def test_integers_are_divided_by_the_largest(tmp_path: Path, dtype: str, kind: str) -> None:
    values = np.array([[0, 51], [np.iinfo(dtype).max, 1]], dtype=dtype)
    path = tmp_path / f"map.{kind}"
    if kind == "png":
        Image.fromarray(values).save(path)
    else:
        np.save(path, values)
    assert (read_map(path) == values / np.iinfo(dtype).max).all()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bool"])
def test_other_values_stay_as_they_are(tmp_path: Path, dtype: str) -> None:
    values = np.array([[0, 1], [1, 0]]).astype(dtype)
    np.save(tmp_path / "map.npy", values)
    assert (read_map(tmp_path / "map.npy") == values).all()


def test_a_black_and_white_png(tmp_path: Path) -> None:
    Image.fromarray(LINE).save(tmp_path / "map.png")
    assert (read_map(tmp_path / "map.png") == LINE).all()


def test_a_coloured_map_is_refused(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6)).save(tmp_path / "map.png")
    with pytest.raises(InputError, match=r"is in colour or transparent \(RGB\) in place of grey"):
        read_map(tmp_path / "map.png")
