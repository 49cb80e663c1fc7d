"""MiraBest: ten folds by file names."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as tf

from hnets import data
from hnets.errors import InputError


@pytest.fixture
def galaxies(data_folder: Path) -> Path:
    if not (data_folder / "mirabest").is_dir():
        pytest.skip("needs mirabest/ in HNETS_DATA")
    return data_folder


def test_a_fold_of_the_real_set(galaxies: Path) -> None:
    train, val, test = (data.load("mirabest", part, fold=3) for part in ("train", "val", "test"))
    assert [len(part) for part in (train, val, test)] == [634, 79, 79]
    assert test.images.shape[1:] == (1, 150, 150)
    assert (test.classes, int(test.labels.sum())) == (("I", "II"), 44)
    assert torch.equal(data.load("mirabest", "val", fold=2).images, test.images)
    assert not torch.equal(val.images, test.images)
    assert test.digest == "ee6010de443904302202a06afc0916b6b7071a691a1d121d44155667e39e13a5"


def test_another_size_is_the_middle_of_the_same_pixels(galaxies: Path) -> None:
    whole, part, more = (data.load("mirabest", "test", size=size) for size in (150, 96, 160))
    assert torch.equal(part.images, whole.images[..., 27:123, 27:123])
    assert torch.equal(more.images, tf.pad(whole.images, (5, 5, 5, 5)))


def test_every_galaxy_is_tested_once(galaxies: Path) -> None:
    tests = [data.load("mirabest", "test", fold=fold, size=16) for fold in range(10)]
    labels = torch.cat([test.labels for test in tests])
    assert torch.bincount(labels).tolist() == [351, 441]


@pytest.mark.parametrize(("name", "fold"), [("mirabest", 10), ("mirabest", -1), ("mnist", 1)])
def test_folds_are_for_mirabest(name: str, fold: int) -> None:
    with pytest.raises(InputError, match=f"mirabest has folds 0 to 9, .* got fold={fold}"):
        data.load(name, fold=fold)


def test_a_folder_with_other_images_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="MiraBest is not here: put mirabest into"):
        data.load("mirabest", root=tmp_path)
    (tmp_path / "mirabest").mkdir()
    with pytest.raises(InputError, match=r"has 0 files 100_\*\.png or 200_\*\.png in place of 792"):
        data.load("mirabest", root=tmp_path)
