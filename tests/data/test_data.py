"""Data sets: what they hold, that they are the same everywhere, and what is said of bad files."""

import gzip
import hashlib
import logging
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hnets import data
from hnets.data import cache as storage
from hnets.data import (
    dataset,
    mnist,
    rotmnist,
    spline,
)
from hnets.data import rotmnist_original as amat
from hnets.data import sklearn_digits as digits
from hnets.data.download import File
from hnets.errors import InputError, MissingExtra


@pytest.fixture(autouse=True)
def cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:  # fmt: skip
    """One cache for the whole run, so that what takes seconds to make is made once."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("HNETS_CACHE", str(folder))
    return folder


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one test alone, which it may spoil."""
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "own"))
    return tmp_path / "own"


# The interface


SIZES = {
    "mnist": (50_000, 10_000, 10_000),
    "rotmnist-r": (10_000, 2_000, 50_000),
    "digits": (1_000, 297, 500),
    "digits-r": (1_000, 297, 500),
}


@pytest.mark.parametrize("name", SIZES)
def test_splits_have_their_sizes_and_the_promised_form(
    name: str, request: pytest.FixtureRequest
) -> None:
    if "mnist" in name:
        request.getfixturevalue("data_folder")
    train, val, both, test = (data.load(name, split) for split in dataset.SPLITS)
    assert (len(train), len(val), len(test)) == SIZES[name]
    assert torch.equal(both.images, torch.cat([train.images, val.images]))
    assert torch.equal(both.labels, torch.cat([train.labels, val.labels]))
    for part in (train, val, test):
        images, labels = part
        assert images.shape == (len(part), 1, 28, 28)
        assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
        assert images.is_contiguous()
        assert (images.min(), images.max()) == (0, 1)
        assert set(labels.tolist()) == set(range(10))
        assert part.classes == tuple("0123456789")
        assert (part.name, part.split) == (name, part.split)


def test_a_data_set_knows_its_bits() -> None:
    train = data.load("digits", "train")
    expected = hashlib.sha256(train.images.numpy().tobytes() + train.labels.numpy().tobytes())
    assert train.digest == expected.hexdigest()
    assert train.digest == data.load("digits", "train").digest
    assert train.digest != data.load("digits-r", "train").digest


def test_subsets() -> None:
    val = data.load("digits", "val")
    first = val.subset(10)
    assert torch.equal(first.images, val.images[:10])
    assert torch.equal(val.subset(torch.tensor([5, 2])).labels, val.labels[[5, 2]])
    assert val.subset(val.labels == 3).labels.unique().tolist() == [3]
    assert len(val.subset(np.int64(7))) == 7
    assert (first.classes, first.split, len(val.subset([]))) == (val.classes, "val", 0)
    with pytest.raises(InputError, match="has 0 to 297 images, got 298"):
        val.subset(298)
    with pytest.raises(InputError, match="has images 0 to 296, got indices from 1 to 297"):
        val.subset([1, 297])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mnst",), r"no data set or folder 'mnst'; did you mean 'mnist'\?"),
        (("rotmnist_r",), r"did you mean 'rotmnist-r'\?"),
        (("zebra",), r"no data set or folder 'zebra'; there is mnist, rotmnist,"),
        (("mnist", "training"), r"no split 'training'; did you mean 'train'\?"),
        (("mnist", "valid"), r"did you mean 'val'\?"),
        (("some/where",), "there is no folder some/where"),
        (("mnist", "train", "no/such/root"), "root is 'no/such/root', which is no folder"),
    ],
)
def test_what_load_does_not_know_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        data.load(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("form", [{"size": 32}, {"channels": 3}])
def test_sets_of_one_shape_have_no_other(form: dict[str, int]) -> None:
    with pytest.raises(InputError, match=r"28×28 with 1 channel, got size=.* and channels="):
        data.load("digits", **form)


def test_every_name_can_be_asked_for() -> None:
    assert set(data.available()) == {*SIZES, "rotmnist"}


def test_importing_hnets_imports_no_data_sets() -> None:
    code = "import sys, hnets; print([m for m in sys.modules if m.startswith('hnets.data')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# MNIST


def packed(path: Path, header: bytes, values: bytes) -> File:
    """Write a gzipped file; it is as published, so what is in it is looked at."""
    path.write_bytes(gzip.compress(header + values))
    return published(path)


def published(path: Path) -> File:
    content = path.read_bytes()
    return File(path.name, len(content), hashlib.md5(content).hexdigest())


LABELS = bytes([0, 0, 8, 1, 0, 0, 0, 4])


def test_an_idx_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    file = packed(path, LABELS, bytes([3, 1, 4, 1]))
    assert mnist.read_idx(path, file, dimensions=1).tolist() == [3, 1, 4, 1]


@pytest.mark.parametrize(
    ("header", "values", "message"),
    [
        (b"\0\0\x08\x03\0\0\0\4", b"\1" * 16, "starts with 00000803 in place of 00000801"),
        (b"", b"", "starts with nothing in place of 00000801"),
        (LABELS, b"\1\1\1", "has 3 values in place of 4"),
        (LABELS, b"\1\1\x0b\1", "has the label 11 at 2, and labels are 0 to 9"),
    ],
)
def test_what_is_wrong_in_an_idx_file_is_one_line(
    tmp_path: Path, header: bytes, values: bytes, message: str
) -> None:
    path = tmp_path / "labels.gz"
    file = packed(path, header, values)
    with pytest.raises(InputError, match=message) as caught:
        mnist.read_idx(path, file, dimensions=1)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).endswith("delete it, and it is downloaded again")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_the_published_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels.gz"
    file = packed(path, LABELS, bytes(4))
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(InputError, match=f"has {len(whole) - 3} bytes in place of {len(whole)}"):
        mnist.read_idx(path, file, dimensions=1)
    with pytest.raises(InputError, match="is no whole gzip file"):
        mnist.read_idx(path, published(path), dimensions=1)
    path.write_bytes(whole[:-1] + b"!")
    with pytest.raises(InputError, match=f"has the md5 .* in place of {file.md5}"):
        mnist.read_idx(path, file, dimensions=1)


def test_mnist_is_mnist(data_folder: Path) -> None:
    images, labels = mnist.arrays()
    assert labels[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert images.mean() / 255 == pytest.approx(0.1309, abs=1e-4)
    first = data.load("mnist", "test").images[0, 0] * 255
    assert np.array_equal(first.round(), images[60_000])


def test_root_comes_before_the_environment(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HNETS_DATA", str(tmp_path))
    assert len(data.load("mnist", "test", root=data_folder)) == 10_000
    (tmp_path / "mnist").mkdir()
    for file in mnist.FILES:
        (tmp_path / "mnist" / file.name).write_bytes(b"something else")
    with pytest.raises(InputError, match="has 14 bytes in place of 9,912,422"):
        data.load("mnist", "test")


# Turning


@pytest.mark.parametrize("angle", [0.0, 12.5, 45.0, 90.0, 133.7, 270.0, 359.99, -77.0])
def test_rotation_is_that_of_scipy(data_folder: Path, angle: float) -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    images = data.load("mnist", "val").subset(12).images[:, 0].double().numpy()
    expected = [ndimage.rotate(image, angle, order=3, reshape=False) for image in images]
    assert np.abs(spline.rotate(images, angle) - expected).max() < 1e-9


def test_each_picture_turns_by_its_own_angle_however_many_there_are() -> None:
    random = np.random.default_rng(0)
    pictures, angles = random.random((70, 9, 12)), random.random(70) * 360
    one_by_one = [spline.rotate(p[None], a)[0] for p, a in zip(pictures, angles, strict=True)]
    assert np.array_equal(spline.rotate(pictures, angles), one_by_one)


def test_quarter_turns_are_exact(data_folder: Path) -> None:
    images = (data.load("mnist", "val").subset(20).images[:, 0] * 255).double().numpy().round()
    for quarters in range(-4, 5):
        turned = spline.to_bytes(spline.rotate(images / 255, 90.0 * quarters))
        assert np.array_equal(turned, np.rot90(images, quarters, axes=(1, 2)))


def test_cosine_and_sine_are_right_to_the_last_bits() -> None:
    degrees = np.linspace(-720, 720, 5000)
    cos, sin = spline.cos_sin(degrees)
    assert np.abs(cos - np.cos(np.radians(degrees))).max() < 3e-15
    assert np.abs(sin - np.sin(np.radians(degrees))).max() < 3e-15


def test_enlarging_passes_through_the_pixels() -> None:
    picture = np.random.default_rng(0).random((1, 7, 7))
    enlarged = spline.resize(picture, side=13, scale=2)
    assert np.abs(enlarged[:, ::2, ::2] - picture).max() < 1e-12


# Rotated MNIST


def test_the_regenerated_set_is_the_same_bits_everywhere(data_folder: Path) -> None:
    assert storage.sha256(rotmnist.regenerated()) == rotmnist.SHA256
    digests = {split: data.load("rotmnist-r", split).digest for split in ("train", "val", "test")}
    assert digests == {
        "train": "c9a9d9826218423e880f046589d33a91f9182bacbbaf7b31f921ce5a85e98f84",
        "val": "b5e9d0c838ed619c4a7e105859e4fba41033a57556549324e79c7f3751f26d8c",
        "test": "b13dfaa0ce04b24826da8e078c61f4bbee107a137bc1ce503afa4fc39acacfe6",
    }


def test_the_regenerated_set_has_the_statistics_of_turned_digits(data_folder: Path) -> None:
    images, labels = rotmnist.regenerated()
    assert images.mean() / 255 == pytest.approx(0.1319, abs=5e-4)
    assert images.std() / 255 == pytest.approx(0.3007, abs=5e-4)
    shares = np.bincount(labels) / len(labels)
    assert (np.abs(shares - 0.1) < 0.015).all()


def test_each_digit_is_drawn_once_and_turned_by_its_angle(data_folder: Path) -> None:
    chosen, degrees = rotmnist.draw()
    assert len(set(chosen.tolist())) == len(chosen) == 62_000
    assert 0 <= degrees.min() < 0.1
    assert 359.9 < degrees.max() < 360
    upright, labels = mnist.arrays()
    images, copied = rotmnist.regenerated()
    some = [0, 9_999, 10_000, 61_999]
    turned = spline.rotate(upright[chosen[some]] / 255, degrees[some])
    assert np.array_equal(images[some], spline.to_bytes(turned))
    assert np.array_equal(copied, labels[chosen])


def as_text(images: np.ndarray, labels: np.ndarray) -> bytes:
    """As in the files of 2007: a row an image, down its columns, then the label."""
    rows = np.column_stack([images.transpose(0, 2, 1).reshape(len(images), -1), labels])
    return "".join("   ".join(f"{v:.7e}" for v in row) + "\n" for row in rows).encode()


@pytest.fixture
def original(tmp_path: Path, own_cache: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """A folder with the two files of the original set, with 8 and 4 digits only."""
    upright = data.load("digits", "val").subset(12)
    images, labels = upright.images[:, 0].numpy(), upright.labels.numpy()
    folder = tmp_path / "data" / "rotmnist"
    folder.mkdir(parents=True)
    for name, part in zip(amat.MEMBERS, (slice(0, 8), slice(8, 12)), strict=True):
        (folder / name).write_bytes(as_text(images[part], labels[part]))
    return folder, images, labels


def read_original(folder: Path, checksum: str = amat.MD5) -> storage.Arrays:
    return amat._arrays(folder.parent, None, rows=(8, 4), checksum=checksum)


def test_the_original_is_read_from_its_two_files(
    original: tuple[Path, np.ndarray, np.ndarray], own_cache: Path
) -> None:
    folder, images, labels = original
    for _ in range(2):  # from the text, then from the cache
        read = read_original(folder)
        assert np.abs(read[0] - images).max() < 1e-6
        assert (read[0].dtype, read[1].tolist()) == (np.float32, labels.tolist())
        assert (own_cache / "rotmnist.npz").exists()
    (folder / amat.MEMBERS[1]).write_bytes(as_text(images[:4], labels[:4]))
    assert np.abs(read_original(folder)[0][8:] - images[:4]).max() < 1e-6, "made again"


def test_the_original_is_read_from_its_archive(
    original: tuple[Path, np.ndarray, np.ndarray]
) -> None:  # fmt: skip
    folder, images, _ = original
    archive = folder.parent / amat.ARCHIVE  # beside the folder is good, too
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in amat.MEMBERS:
            file.write(folder / name, name)
            (folder / name).unlink()
    read = read_original(folder, hashlib.md5(archive.read_bytes()).hexdigest())
    assert np.abs(read[0] - images).max() < 1e-6
    with pytest.raises(InputError, match=f"has the md5 .* in place of {amat.MD5}"):
        read_original(folder)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"0 " * 784 + b"10", "got numbers from 0 to 0 and the label 10"),
        (b"0 " * 784 + b"2.5", "and the label 2.5"),
        (b"0 " * 783 + b"1.5 3", "got numbers from 0 to 1.5 and the label 3"),
        (b"0 " * 783 + b"nan 3", "got numbers from nan to nan"),
        (b"0 " * 783 + b"3", "got 784 numbers"),
        (b"0 " * 400, "got 400 numbers"),
        (b"<html>", "got '<html>'"),
    ],
)
def test_a_bad_row_of_the_original_is_named(
    original: tuple[Path, np.ndarray, np.ndarray], row: bytes, message: str
) -> None:
    folder = original[0]
    path = folder / amat.MEMBERS[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], row + b"\n", *lines[6:]]))
    with pytest.raises(InputError, match=message) as caught:
        read_original(folder)
    assert f"{path}, row 6: expected 784 numbers in [0, 1]" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_original_has_its_number_of_rows(
    original: tuple[Path, np.ndarray, np.ndarray]
) -> None:  # fmt: skip
    path = original[0] / amat.MEMBERS[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:7]))
    with pytest.raises(InputError, match="has 7 rows in place of 8"):
        read_original(original[0])
    path.write_bytes(b"".join([*lines, lines[0]]))
    with pytest.raises(InputError, match="has more than 8 rows"):
        read_original(original[0])


def test_without_the_original_the_user_is_told_what_to_do(
    tmp_path: Path, own_cache: Path
) -> None:  # fmt: skip
    with pytest.raises(InputError, match=r"put mnist_rotation_new\.zip .* rotmnist-r is"):
        data.load("rotmnist", root=tmp_path)


# The store of what was made


def make() -> storage.Arrays:
    return np.arange(24, dtype=np.uint8).reshape(2, 3, 4), np.array([1, 0], np.uint8)


def unexpected() -> storage.Arrays:
    raise AssertionError("it is in the cache already")


def test_what_is_stored_is_made_once_for_each_source(own_cache: Path) -> None:
    storage.stored("set", "a", make)
    images, labels = storage.stored("set", "a", unexpected)
    assert images.tolist() == make()[0].tolist()
    assert labels.tolist() == [1, 0]
    assert [path.name for path in own_cache.iterdir()] == ["set.npz"]
    with pytest.raises(AssertionError, match="already"):
        storage.stored("set", "b", unexpected)


def test_damage_anywhere_is_noticed_and_mended(own_cache: Path) -> None:
    storage.stored("set", "a", make)
    path = own_cache / "set.npz"
    whole = path.read_bytes()
    spoilt = [b"", b"text", whole[:-1], whole[: len(whole) // 2]]
    for at in range(0, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 255
        spoilt.append(bytes(changed))
    for content in spoilt:
        path.write_bytes(content)
        images, labels = storage.stored("set", "a", make)
        assert images.tolist() == make()[0].tolist()
        assert labels.tolist() == [1, 0]


def test_a_cache_that_cannot_be_written_leaves_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "file"))
    made = storage.stored("set", "a", make)
    assert storage.stored("set", "a", unexpected)[0] is made[0]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "set HNETS_CACHE to a folder that can be written" in record.getMessage()


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HNETS_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert storage.cache_folder() == tmp_path / "hnets"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert storage.cache_folder() == Path("~/.cache/hnets").expanduser()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "Local"))
    assert storage.cache_folder() == tmp_path / "Local" / "hnets"


# The embedded digits


def test_turned_digits_are_the_upright_ones_turned() -> None:
    upright, turned = data.load("digits", "val"), data.load("digits-r", "val")
    assert torch.equal(upright.labels, turned.labels)
    mass = turned.images.sum((1, 2, 3)) / upright.images.sum((1, 2, 3))
    assert (mass - 1).abs().max() < 0.05, "turning loses nothing at the corners"
    assert (upright.images - turned.images).abs().mean() > 0.1


def test_without_scikit_learn_the_user_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    digits.upright.cache_clear()
    with pytest.raises(MissingExtra, match=r'scikit-learn: pip install "hnets\[bench\]"'):
        data.load("digits")


# A folder of pictures


COLOURS = {"blue": (0, 0, 255), "green": (0, 255, 0), "red": (255, 0, 0)}


def pictures(folder: Path, classes: dict[str, int]) -> Path:
    """A folder with so many pictures of each class, every one of a brightness of its own."""
    for name, count in classes.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            colour = tuple(c * (100 + i) // 255 for c in COLOURS[name])
            Image.new("RGB", (40, 20), colour).save(folder / name / f"{i:03}.png")
    return folder


def brightness(read: data.Dataset) -> list[int]:
    return (read.images.amax((1, 2, 3)) * 255).round().int().tolist()


def test_a_folder_is_cut_in_three(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "mine", {"red": 20, "green": 11, "blue": 5})
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
    assert sorted(reds) == list(range(100, 120)), "each picture is in one split"
    assert both.images.equal(torch.cat([train.images, val.images]))
    assert both.images.is_contiguous()


def test_the_cut_does_not_depend_on_the_order_of_writing(tmp_path: Path) -> None:
    first = pictures(tmp_path / "a", {"red": 12, "blue": 12})
    second = tmp_path / "b"
    for path in sorted(first.rglob("*.png"), reverse=True):
        copy = second / path.relative_to(first)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    assert data.load(first, "val").digest == data.load(second, "val").digest


def test_a_folder_may_have_its_own_splits(tmp_path: Path) -> None:
    for split, count in (("train", 4), ("test", 2)):
        pictures(tmp_path / split, {"red": count, "blue": count})
    assert (len(data.load(tmp_path, "train")), len(data.load(tmp_path, "test"))) == (8, 4)
    with pytest.raises(InputError, match="has folders for train, test but none for val"):
        data.load(tmp_path, "train+val")
    pictures(tmp_path / "val", {"red": 1, "green": 1})
    with pytest.raises(InputError, match="val has the classes green, red and train has blue, red"):
        data.load(tmp_path, "val")


def test_pictures_keep_their_proportions(tmp_path: Path) -> None:
    wide = Image.new("L", (64, 32), 100)
    wide.paste(200, (16, 8, 48, 24))  # a box of 32×16 in the middle
    (tmp_path / "x" / "a").mkdir(parents=True)
    pictures(tmp_path / "x", {"red": 3})
    for i in range(3):
        wide.save(tmp_path / "x" / "a" / f"{i}.png")
    image = data.load(tmp_path / "x", size=32).images[0, 0] * 255
    assert (image[12:20, 8:24] - 200).abs()[1:-1, 1:-1].max() < 5
    assert image[0].eq(100).all(), "above it, the colour of the border"
    assert image[16, 16] - image[16, 2] > 90


def test_what_is_no_picture_is_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = pictures(tmp_path, {"red": 10, "blue": 10})
    before = data.load(folder).digest
    assert not caplog.records
    (folder / "red" / "notes.txt").write_text("not a picture")
    (folder / "red" / ".hidden.png").write_text("nor this")
    (folder / ".cache").mkdir()
    assert data.load(folder).digest == before
    (record,) = caplog.records
    assert "left out 1 files" in record.getMessage()
    assert "notes.txt" in record.getMessage()
    (folder / "blue" / "000.png").write_bytes(b"damaged")
    (folder / "blue" / "001.png").write_bytes(b"damaged")
    sizes = [len(data.load(folder, split)) for split in ("train+val", "test")]
    assert sum(sizes) == 18


@pytest.mark.parametrize(
    ("classes", "message"),
    [
        ({}, "has 0 sub-folders, and one for each of at least two classes is needed"),
        ({"red": 5}, "has 1 sub-folders"),
        ({"red": 5, "blue": 0}, "blue has 0 pictures, and at least 3 are needed"),
    ],
)
def test_too_few_classes_or_pictures_are_one_line(
    tmp_path: Path, classes: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        data.load(pictures(tmp_path, classes))


def test_classes_without_a_good_picture_are_refused(tmp_path: Path) -> None:
    for part in ("train", "val"):
        pictures(tmp_path / part, {"red": 2, "blue": 2})
    for path in (tmp_path / "train" / "blue").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="has no picture of 'blue' that can be read for train"):
        data.load(tmp_path)
    for path in (tmp_path / "train" / "red").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"has no pictures \(.*is not a picture .*\); give a fold"):
        data.load(tmp_path)


@pytest.mark.parametrize("form", [{"channels": 2}, {"size": 0}])
def test_pictures_have_a_size_and_one_or_three_channels(
    tmp_path: Path, form: dict[str, int]
) -> None:  # fmt: skip
    with pytest.raises(InputError, match=r"pictures (have|are) .*, got (channels=2|size=0)"):
        data.load(pictures(tmp_path, {"red": 3, "blue": 3}), **form)
