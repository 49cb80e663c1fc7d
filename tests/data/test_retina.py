"""DRIVE and CHASE_DB1 as they are on disk, whole and not."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from fundus import put_chase_db1, put_drive
from hnets.data import SegmentationSet, load, retina
from hnets.data.dataset import OUTSIDE
from hnets.errors import InputError


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("eyes")
    put_drive(folder)
    return folder


def numbers(data: SegmentationSet) -> list[int]:
    """Which images of DRIVE these are, as the first pixel says."""
    return data.images[:, 0, 0, 0].tolist()


def test_the_split_is_fixed_by_name(sets: Path) -> None:
    train, val, test = (load("drive", split, sets) for split in ("train", "val", "test"))
    assert numbers(val) == [25, 30, 35, 40]
    assert numbers(train) == sorted(set(range(21, 41)) - set(numbers(val)))
    assert numbers(test) == list(range(1, 21))
    assert sorted(numbers(load("drive", "train+val", sets))) == list(range(21, 41))
    assert repr(val) == "SegmentationSet('drive', 'val': 4 images of 3×584×565)"


def test_labels_are_vessels_inside_the_field_of_view(sets: Path) -> None:
    data = load("drive", "val", sets)
    assert data.labels.dtype == data.images.dtype == torch.uint8
    assert data.labels[0, :, 282].unique().tolist() == [0, 1, OUTSIDE]
    column = data.labels[0, 98:106, 282].tolist()
    assert column == [0, 0, 1, 1, 1, 1, 0, 0]
    assert (data.labels[:, 102, :20] == OUTSIDE).all()  # a vessel that is not in view
    assert data.images[0, :, 300, 282].tolist() == [180, 100, 60]


def test_one_channel_is_the_green(sets: Path) -> None:
    colour, green = load("drive", "val", sets), load("drive", "val", sets, channels=1)
    assert torch.equal(colour.images[:, 1:2], green.images)
    with pytest.raises(InputError, match=r"1 channel \(green\) or 3 \(colour\), got channels=2"):
        load("drive", "val", sets, channels=2)
    with pytest.raises(InputError, match="images of drive have one size, got size=64"):
        load("drive", "val", sets, size=64)


def test_the_other_camera_is_brought_to_the_scale_of_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(retina.COUNTS, "chase_db1", 2)
    put_chase_db1(tmp_path)
    data = load("chase_db1", "test", tmp_path)
    assert data.images.shape == (2, 3, 509, 529)
    assert (data.labels[0, :, 264] == 1).sum() == 4  # of 8 pixels, by 0.53
    assert (data.labels == OUTSIDE).double().mean() == pytest.approx(0.388, abs=0.005)
    with pytest.raises(InputError, match="chase_db1 has the split test only, got 'train'"):
        load("chase_db1", "train", tmp_path)


def test_what_is_missing_or_damaged_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="DRIVE is not here: put retina/DRIVE into"):
        load("drive", "val", tmp_path)
    put_drive(tmp_path)
    drive = tmp_path / "retina/DRIVE/training"
    for number in retina.VALIDATION:
        Image.new("L", (565, 584)).save(drive / f"1st_manual/{number}_manual1.gif")
    with pytest.raises(InputError, match=r"no vessels are drawn in .*; get DRIVE again"):
        load("drive", "val", tmp_path)
    drawn = drive / "1st_manual/25_manual1.gif"
    Image.new("L", (40, 30)).save(drawn)
    with pytest.raises(InputError, match=r"25_training.tif and 25_manual1.gif should be of one"):
        load("drive", "val", tmp_path)
    drawn.write_bytes(b"")
    with pytest.raises(InputError, match=r"25_manual1.gif is empty"):
        load("drive", "val", tmp_path)
    drawn.unlink()
    with pytest.raises(InputError, match=r"DRIVE training in .* lacks a file of 25 in place of 20"):
        load("drive", "val", tmp_path)
    for kind, name in (("images", "25_training.tif"), ("mask", "25_training_mask.gif")):
        (drive / kind / name).unlink()
    with pytest.raises(InputError, match=r"DRIVE training in .* has 19 images in place of 20"):
        load("drive", "val", tmp_path)


def test_the_real_sets(data_folder: Path) -> None:
    if not (data_folder / "retina").is_dir():
        pytest.skip("needs DRIVE and CHASE_DB1 in HNETS_DATA")
    for name, split, share in (("drive", "val", 0.12), ("chase_db1", "test", 0.10)):
        data = load(name, split, data_folder)
        assert tuple(data.images.shape[2:]) == retina.SIZES[name]
        inside = data.labels != OUTSIDE
        assert inside.double().mean() == pytest.approx(0.69, abs=0.02)
        vessels = data.labels == 1
        assert vessels.sum() / inside.sum() == pytest.approx(share, abs=0.02)
        green = data.images[:, 1].double()
        assert green[vessels].mean() < green[data.labels == 0].mean()
