"""BSDS500 as it is on disk, whole and not."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from hnets.data import bsds
from hnets.errors import InputError
from photographs import put


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(bsds.SIZES, "test", 2)
    for name in ("12", "7"):
        put(tmp_path, name)
    return tmp_path


def test_a_photograph_and_its_boundaries(small: Path) -> None:
    photos = bsds.photos("test", small)
    assert [photo.name for photo in photos] == ["12", "7"]
    photo = photos[0]
    assert photo.size == (32, 48)
    assert (photo.image().shape, photo.image().dtype) == ((32, 48, 3), np.uint8)
    drawn = photo.boundaries()
    assert (drawn.shape, drawn.dtype) == ((2, 32, 48), np.bool_)
    assert drawn[0].sum() == 32
    assert drawn[1, :, 21].all()


def test_the_folder_as_the_archive_unpacks_it(small: Path) -> None:
    (small / "BSR").mkdir()
    (small / "BSDS500").rename(small / "BSR/BSDS500")
    assert len(bsds.photos("test", small)) == 2


def test_what_is_missing_is_one_line(small: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    data = small / "BSDS500/data"
    for split, root, message in (
        ("test", tmp_path_factory.mktemp("empty"), "BSDS500 is not here: put BSDS500/data into"),
        ("val", small, "BSDS500 val in .* has 0 photographs in place of 100; get BSDS500 again"),
        ("tset", small, r"there is no split 'tset'; did you mean 'test'\?"),
    ):
        with pytest.raises(InputError, match=message):
            bsds.photos(split, root)
    (data / "groundTruth/test/12.mat").unlink()
    with pytest.raises(InputError, match="lacks the boundaries of 12; get BSDS500 again"):
        bsds.photos("test", small)
    (data / "images/test/12.jpg").unlink()
    with pytest.raises(InputError, match="has 1 photographs in place of 2"):
        bsds.photos("test", small)


@pytest.mark.parametrize("damage", ["cut short", "empty", "another size", "another variable"])
def test_damaged_boundaries_are_one_line(small: Path, damage: str) -> None:
    photo = bsds.photos("test", small)[0]
    path = photo.truth_path
    if damage == "cut short":
        path.write_bytes(path.read_bytes()[:300])
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "another size":
        Image.new("RGB", (32, 48)).save(photo.image_path)
    else:
        savemat(path, {"truth": np.zeros((3, 3))})
    with pytest.raises(
        InputError, match=re.escape(f"{path} does not hold the boundaries")
    ) as error:
        photo.boundaries()
    assert "\n" not in str(error.value)


def test_a_damaged_photograph_is_one_line(small: Path) -> None:
    photo = bsds.photos("test", small)[0]
    photo.image_path.write_bytes(b"no image")
    with pytest.raises(InputError, match="is not a JPEG image"):
        photo.size  # noqa: B018


def test_scipy_is_named_where_it_is_missing(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.io", None)
    with pytest.raises(InputError, match=r'need scipy: pip install "hnets\[bench\]"'):
        bsds.photos("test", small)[0].boundaries()


def test_the_real_set(data_folder: Path) -> None:
    if not (data_folder / "BSDS500").is_dir():
        pytest.skip("needs BSDS500 in HNETS_DATA")
    assert [len(bsds.photos(s, data_folder)) for s in ("train", "val", "test")] == [200, 100, 200]
    assert len(bsds.photos("train+val", data_folder)) == 300
    for photo in bsds.photos("test", data_folder)[::50]:
        drawn = photo.boundaries()
        assert 4 <= len(drawn) <= 9
        assert photo.image().shape == (*drawn.shape[1:], 3)
