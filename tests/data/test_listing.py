"""A folder of images, with one sub-folder per class."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hnets import data
from hnets.data import dataset
from hnets.data.listing import frame
from hnets.errors import InputError

COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


def make_images(folder: Path, classes: dict[str, int]) -> Path:
    """A folder with some images of each class, each of its own brightness."""
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            colour = tuple(c * (100 + i) // 255 for c in COLOURS[name])
            Image.new("RGB", (40, 20), colour).save(folder / name / f"{i:03}.png")
    return folder


def brightness(read: data.Dataset) -> list[int]:
    return (read.images.amax((1, 2, 3)) * 255).round().int().tolist()


def test_a_folder_is_cut_in_three(tmp_path: Path) -> None:
    folder = make_images(tmp_path / "mine", {"red": 20, "green": 11, "blue": 5})
    train, val, both, test = (
        data.load(str(folder), split, size=24, channels=3) for split in dataset.SPLITS
    )
    assert train.classes == ("blue", "green", "red")
    assert train.name == "mine"
    assert [part.labels.bincount().tolist() for part in (train, val, test)] == [
        [3, 9, 16],
        [1, 1, 2],
        [1, 1, 2],
    ]
    for part in (train, val, test):
        assert part.images.shape[1:] == (3, 24, 24)
        channel = part.images.amax((2, 3)).argmax(1)  # red is channel 0 and class 2
        assert torch.equal(channel, 2 - part.labels)
    reds = [
        value
        for part in (train, val, test)
        for value, label in zip(brightness(part), part.labels, strict=True)
        if label == 2
    ]
    assert sorted(reds) == list(range(100, 120)), "each image is in one split"
    assert both.images.equal(torch.cat([train.images, val.images]))
    assert both.images.is_contiguous()


def test_the_cut_does_not_depend_on_the_order_of_writing(tmp_path: Path) -> None:
    first = make_images(tmp_path / "a", {"red": 12, "blue": 12})
    second = tmp_path / "b"
    for path in sorted(first.rglob("*.png"), reverse=True):
        copy = second / path.relative_to(first)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    assert data.load(first, "val").digest == data.load(second, "val").digest


def test_a_folder_may_have_its_own_splits(tmp_path: Path) -> None:
    for split, count in (("train", 4), ("test", 2)):
        make_images(tmp_path / split, {"red": count, "blue": count})
    assert (len(data.load(tmp_path, "train")), len(data.load(tmp_path, "test"))) == (8, 4)
    with pytest.raises(
        InputError, match="val has 0 sub-folders, and one for each of at least two classes"
    ):
        data.load(tmp_path, "train+val")
    make_images(tmp_path / "val", {"red": 1, "green": 1})
    with pytest.raises(InputError, match="val has the classes green, red and train has blue, red"):
        data.load(tmp_path, "val")


def test_images_keep_their_proportions(tmp_path: Path) -> None:
    wide = Image.new("L", (64, 32), 100)
    wide.paste(200, (16, 8, 48, 24))  # a box of 32×16 in the middle
    (tmp_path / "x" / "a").mkdir(parents=True)
    make_images(tmp_path / "x", {"red": 3})
    for i in range(3):
        wide.save(tmp_path / "x" / "a" / f"{i}.png")
    image = data.load(tmp_path / "x", size=32).images[0, 0] * 255
    assert (image[12:20, 8:24] - 200).abs()[1:-1, 1:-1].max() < 5
    assert image[0].eq(100).all(), "above it, the colour of the border"
    assert image[16, 16] - image[16, 2] > 90


def test_one_image_comes_as_it_does_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "photos/train"
    make_images(folder, {"blue": 1, "red": 1})
    images = data.load(tmp_path / "photos", "train", size=16, channels=3).images
    one = data.fit(data.read_image(folder / "blue/000.png"), 16, 3)
    assert torch.equal(torch.from_numpy(one) / 255, images[0])


def test_files_that_are_not_images_are_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_images(tmp_path, {"red": 10, "blue": 10})
    before = data.load(folder).digest
    assert not caplog.records
    (folder / "red" / "notes.txt").write_text("not an image")
    (folder / "red" / ".hidden.png").write_text("nor this")
    (folder / ".cache").mkdir()
    assert data.load(folder).digest == before
    (record,) = caplog.records
    assert "left out 1 file of" in record.getMessage()
    assert "notes.txt" in record.getMessage()
    (folder / "blue" / "000.png").write_bytes(b"damaged")
    (folder / "blue" / "001.png").write_bytes(b"damaged")
    sizes = [len(data.load(folder, split)) for split in ("train+val", "test")]
    assert sum(sizes) == 18


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({}, "has 0 sub-folders, and one for each of at least two classes is needed"),
        ({"red": 5}, "has 1 sub-folder, and"),
        ({"red": 5, "blue": 0}, "blue has 0 images, and at least 3 are needed"),
        ({"red": 5, "blue": 1}, "blue has 1 image, .* train, val and test; add some, or remove"),
    ],
)
def test_too_few_classes_or_images_are_one_line(
    tmp_path: Path, classes: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        data.load(make_images(tmp_path, classes))


def test_damaged_images_are_named_beside_files_that_are_no_images(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for part in ("train", "val"):
        make_images(tmp_path / part, {"red": 3, "blue": 3})
    (tmp_path / "train" / "blue" / "notes.txt").write_text("not an image")
    (tmp_path / "train" / "red" / "001.png").write_bytes(b"damaged")
    assert len(data.load(tmp_path)) == 5
    damaged, other = (record.getMessage() for record in caplog.records)
    assert "left out 1 image of" in damaged
    assert "001.png is not an image that can be read" in damaged
    assert "left out 1 file of" in other
    assert "notes.txt" in other


def test_the_damaged_image_that_leaves_a_split_without_a_class_is_named(tmp_path: Path) -> None:
    """One damaged file of ten may be all that a split has of its class."""
    folder = make_images(tmp_path, {"red": 10, "blue": 10})
    only = f"{brightness(data.load(folder, 'val', channels=3))[0] - 100:03}.png"
    (folder / "blue" / only).write_bytes(b"damaged")
    message = f"'blue' that can be read for val .*{only} is not an image .*; replace or remove"
    with pytest.raises(InputError, match=message):
        data.load(folder, "val")


def test_classes_without_a_readable_image_are_refused(tmp_path: Path) -> None:
    for part in ("train", "val"):
        make_images(tmp_path / part, {"red": 2, "blue": 2})
    for path in (tmp_path / "train" / "blue").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="has no image of 'blue' that can be read for train"):
        data.load(tmp_path)
    for path in (tmp_path / "train" / "red").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"has no images \(.*is not an image .*\); give PNG, JPEG"):
        data.load(tmp_path)


@pytest.mark.parametrize("form", [{"channels": 2}, {"size": 0}, {"size": 9999}])
def test_images_have_a_size_and_one_or_three_channels(
    tmp_path: Path, form: dict[str, int]
) -> None:  # fmt: skip
    with pytest.raises(InputError, match=r"images (have|become) .*, got (channels=2|size=)"):
        data.load(make_images(tmp_path, {"red": 3, "blue": 3}), **form)


@pytest.mark.parametrize("size", [19, 20])
@pytest.mark.parametrize("side", range(1, 21))
def test_an_image_lies_in_the_middle_of_its_square(side: int, size: int) -> None:
    left, top, width, height = frame((20, side), size)
    assert (left, width) == (0, size)
    assert 2 * top + height == size
    assert height >= 1
    assert abs(height - side * size / 20) <= 1
    if size == 20:  # nothing is resized but by the parity of its height
        pixels = np.random.RandomState(0).randint(0, 256, (height, 20), np.uint8)
        images = [data.fit(Image.fromarray(each), size, 1) for each in (pixels, np.rot90(pixels))]
        assert (np.rot90(images[0], axes=(1, 2)) == images[1]).all()
