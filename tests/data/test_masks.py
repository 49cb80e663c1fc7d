"""Folders of images with masks."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from hnets import data
from hnets.data import SegmentationSet
from hnets.data.dataset import OUTSIDE
from hnets.errors import InputError


def put(folder: Path, stem: str, mask: str = "{}.png", high: int = 255) -> None:
    """An image of 40×20 pixels whose right half is bright and marked."""
    for kind in ("images", "masks"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    marked = np.zeros((20, 40), np.uint8)
    marked[:, 20:] = 1
    Image.fromarray(200 * marked).save(folder / "images" / f"{stem}.png")
    Image.fromarray(high * marked).save(folder / "masks" / mask.format(stem))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(10):
        put(tmp_path, f"{number}")
    return tmp_path


@pytest.mark.parametrize("high", [255, 1])
def test_margins_are_not_learned_from_and_masks_lie_on_their_images(
    tmp_path: Path, high: int
) -> None:
    for stem in "abc":
        put(tmp_path, stem, "{}_mask.png", high)
    (only,) = data.load(tmp_path, "test", size=8, channels=1).labels
    assert (only[:2] == OUTSIDE).all()
    assert (only[6:] == OUTSIDE).all()
    assert only[2:6].tolist() == [[0, 0, 0, 0, 1, 1, 1, 1]] * 4
    images = data.load(tmp_path, "test", size=8, channels=3).images
    assert images.shape == (1, 3, 8, 8)
    assert (images[0, 0, 2:6, 5:] > 150).all()
    assert (images[0, 0, 2:6, :3] < 50).all()


def test_splits_are_cut_or_those_of_the_folders(folder: Path) -> None:
    parts = [data.load(folder, split) for split in ("train", "val", "test", "train+val")]
    assert all(isinstance(part, SegmentationSet) for part in parts)
    assert [len(part) for part in parts] == [8, 1, 1, 9]
    for split, count in {"train": 3, "val": 2, "test": 1}.items():
        for number in range(count):
            put(folder / "own" / split, f"{number}")
    assert [len(data.load(folder / "own", s)) for s in ("train", "test", "train+val")] == [3, 1, 5]
    (folder / "own" / "test" / "masks").rename(folder / "elsewhere")
    with pytest.raises(InputError, match=r"own has no test/images and test/masks; add them"):
        data.load(folder / "own", "test")


def test_files_that_cannot_be_read_are_left_out_with_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("images", "masks"):
        (folder / name / "broken.png").write_bytes(b"broken")
    with caplog.at_level(logging.WARNING):
        total = sum(len(data.load(folder, split)) for split in ("train", "val", "test"))
    assert total == 10
    (message,) = caplog.messages
    assert message.startswith("1 of ")
    assert "broken.png is not an image" in message


def test_what_is_wrong_is_one_line(folder: Path) -> None:
    with pytest.raises(InputError, match="have masks and are held in memory"):
        data.stream(folder)
    with pytest.raises(InputError, match=r"images have 1 channel .* got channels=2"):
        data.load(folder, channels=2)
    mask = folder / "masks" / "3.png"
    Image.fromarray(np.arange(3, dtype=np.uint8)[None].repeat(20, 0)).resize((40, 20)).save(mask)
    with pytest.raises(InputError, match=r"3\.png should be white .* several classes"):
        data.load(folder)
    Image.new("L", (20, 20)).save(mask)
    with pytest.raises(InputError, match=r"3\.png is 40×20 pixels and its mask 3\.png is 20×20"):
        data.load(folder)
    mask.unlink()
    with pytest.raises(InputError, match=r"3\.png has no mask; expected .*masks/3\.png"):
        data.load(folder)


@pytest.mark.parametrize(("value", "kind"), [(0, "no"), (255, "every")])
def test_masks_without_a_difference_are_refused(tmp_path: Path, value: int, kind: str) -> None:
    for stem in "abc":
        put(tmp_path, stem)
        Image.new("L", (40, 20), value).save(tmp_path / "masks" / f"{stem}.png")
    with pytest.raises(InputError, match=f"mark {kind} pixel; white marks a pixel"):
        data.load(tmp_path, size=8)


def of_mode(mode: str, marked: NDArray[np.bool_]) -> Image.Image:
    """A mask as programs save it."""
    white = Image.fromarray(255 * marked.astype(np.uint8))
    if mode == "16 bits":
        return Image.fromarray(65535 * marked.astype(np.uint16))
    if mode == "blurred":
        return white.filter(ImageFilter.GaussianBlur(1))
    if mode == "transparent":
        image = Image.new("RGBA", white.size, "white")
        image.putalpha(white)
        return image
    if mode == "palette":
        image = Image.frombytes("P", white.size, marked.astype(np.uint8).tobytes())
        image.putpalette([0, 0, 0, 128, 0, 0])
        return image
    return white.convert(mode)


@pytest.mark.parametrize(
    "mode", ["1", "L", "RGB", "RGBA", "transparent", "palette", "16 bits", "blurred"]
)
def test_a_mask_may_have_any_mode(tmp_path: Path, mode: str) -> None:
    marked = np.zeros((20, 40), np.bool_)
    marked[:, 20:] = True
    for stem in "abc":
        put(tmp_path, stem)
        of_mode(mode, marked).save(tmp_path / "masks" / f"{stem}.png")
    labels = data.load(tmp_path, "test", size=40).labels[0, 10:30]
    assert (labels == torch.from_numpy(marked)).all()


@pytest.mark.parametrize(
    "values", [np.uint16([0, 1, 2, 3]), np.uint16([0, 300, 310, 320]), np.uint8([0, 80, 160, 240])]
)
def test_classes_are_told_from_greys_along_a_border(folder: Path, values: NDArray[Any]) -> None:
    Image.fromarray(values[None].repeat(20, 0).repeat(10, 1)).save(folder / "masks" / "3.png")
    with pytest.raises(InputError, match=r"3\.png should be white .* several classes"):
        data.load(folder, "train+val")


def second_mask(folder: Path) -> None:
    Image.new("L", (40, 20)).save(folder / "masks" / "3.tif")


def second_image(folder: Path) -> None:
    Image.new("L", (40, 20)).save(folder / "images" / "3.jpg")


def splits_in_part(folder: Path) -> None:
    shutil.copytree(folder / "images", folder / "train" / "images")
    (folder / "masks").rename(folder / "train" / "masks")


def only_images(folder: Path) -> None:
    shutil.rmtree(folder / "masks")


def broken_images(folder: Path) -> None:
    for path in (folder / "images").iterdir():
        path.write_bytes(b"broken")


def two_images(folder: Path) -> None:
    for number in range(2, 10):
        (folder / "images" / f"{number}.png").unlink()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (second_mask, r"masks has 3\.png and 3\.tif, and masks go by the name; keep one"),
        (second_image, r"images has 3\.jpg and 3\.png, and masks go by the name; keep one"),
        (splits_in_part, r"has no test/images and test/masks; add them"),
        (only_images, r"has 1 sub-folder, and .* or one of images and one of masks"),
        (broken_images, r"no image of .* test can be read: .*png is not an image"),
        (two_images, r"images has 2 images, and at least 3 are needed: .*; add some$"),
    ],
)
def test_folders_that_are_not_whole(
    folder: Path, damage: Callable[[Path], None], message: str
) -> None:
    damage(folder)
    with pytest.raises(InputError, match=message):
        data.load(folder, "test")


def test_a_name_that_is_too_long_is_no_folder() -> None:
    with pytest.raises(InputError, match="there is no data set or folder"):
        data.load(5000 * "a")
