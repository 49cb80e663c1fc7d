"""Rotated MNIST: regenerated to the same bits everywhere, or read from the published files."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hnets import data
from hnets.data import dataset, mnist, rotmnist, spline
from hnets.errors import InputError


def test_the_regenerated_set_is_the_same_bits_everywhere(data_folder: Path) -> None:
    assert dataset.sha256(rotmnist.regenerated()) == rotmnist.SHA256
    digests = {split: data.load("rotmnist-r", split).digest for split in ("train", "val", "test")}
    assert digests == {
        "train": "c9a9d9826218423e880f046589d33a91f9182bacbbaf7b31f921ce5a85e98f84",
        "val": "b5e9d0c838ed619c4a7e105859e4fba41033a57556549324e79c7f3751f26d8c",
        "test": "b13dfaa0ce04b24826da8e078c61f4bbee107a137bc1ce503afa4fc39acacfe6",
    }


def test_the_regenerated_set_has_the_statistics_of_rotated_digits(data_folder: Path) -> None:
    images, labels = rotmnist.regenerated()
    assert images.mean() / 255 == pytest.approx(0.1319, abs=5e-4)
    assert images.std() / 255 == pytest.approx(0.3007, abs=5e-4)
    shares = np.bincount(labels) / len(labels)
    assert (np.abs(shares - 0.1) < 0.015).all()


def test_each_digit_is_drawn_once_and_rotated_by_its_angle(data_folder: Path) -> None:
    chosen, degrees = rotmnist.draw()
    assert len(set(chosen.tolist())) == len(chosen) == 62_000
    assert 0 <= degrees.min() < 0.1
    assert 359.9 < degrees.max() < 360
    upright, labels = mnist.arrays()
    images, copied = rotmnist.regenerated()
    some = [0, 9_999, 10_000, 61_999]
    rotated = spline.rotate(upright[chosen[some]] / 255, degrees[some])
    assert np.array_equal(images[some], spline.to_bytes(rotated))
    assert np.array_equal(copied, labels[chosen])


def test_no_shift_says_which_way_was_up_where_digits_are_centred(data_folder: Path) -> None:
    _, degrees = rotmnist.draw()
    cos, sin = spline.cos_sin(degrees)

    def upright(images: np.ndarray) -> np.ndarray:
        """Where the centres of mass lie before the rotation, in pixels from the middle."""
        down, right = (rotmnist.mass_centres(images) - 13.5).T
        return np.array([cos * down + sin * right, cos * right - sin * down])

    images, labels = rotmnist.centred()
    assert dataset.sha256((images, labels)) == rotmnist.SHA256_CENTRED
    assert np.array_equal(labels, rotmnist.regenerated()[1])
    marked, centred = upright(rotmnist.regenerated()[0]), upright(images)
    assert (marked.mean(1) > 0.45).all()
    assert (np.abs(centred.mean(1)) < 0.005).all()
    assert (np.abs(centred[:, labels == 6].mean(1) - centred[:, labels == 9].mean(1)) < 0.005).all()


def as_text(images: np.ndarray, labels: np.ndarray) -> bytes:
    """As in the files of 2007: one row per image, down its columns, then the label."""
    rows = np.column_stack([images.transpose(0, 2, 1).reshape(len(images), -1), labels])
    return "".join("   ".join(f"{v:.7e}" for v in row) + "\n" for row in rows).encode()


@pytest.fixture
def original(
    tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, np.ndarray, np.ndarray]:
    """A folder with the two files of the published set, with 8 and 4 digits only."""
    monkeypatch.setattr(rotmnist, "SIZES", (6, 2, 4))
    upright = data.load("digits", "val").subset(12)
    images, labels = upright.images[:, 0].numpy(), upright.labels.numpy()
    folder = tmp_path / "data" / "rotmnist"
    folder.mkdir(parents=True)
    for name, part in zip(rotmnist.MEMBERS, (slice(0, 8), slice(8, 12)), strict=True):
        (folder / name).write_bytes(as_text(images[part], labels[part]))
    return folder, images, labels


def test_the_original_is_read_from_its_two_files(
    original: tuple[Path, np.ndarray, np.ndarray], own_cache: Path
) -> None:
    folder, images, labels = original
    for _ in range(2):  # from the text, then from the cache
        read = rotmnist.published(folder.parent)
        assert np.abs(read[0] - images).max() < 1e-6
        assert (read[0].dtype, read[1].tolist()) == (np.float32, labels.tolist())
        assert (own_cache / "rotmnist.npz").exists()
    (folder / rotmnist.MEMBERS[1]).write_bytes(as_text(images[:4], labels[:4]))
    assert np.abs(rotmnist.published(folder.parent)[0][8:] - images[:4]).max() < 1e-6, "made again"


def test_the_original_is_read_from_its_archive(
    original: tuple[Path, np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, images, _ = original
    archive = folder.parent / rotmnist.ARCHIVE  # beside the folder is good, too
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name in rotmnist.MEMBERS:
            file.write(folder / name, name)
            (folder / name).unlink()
    with pytest.raises(InputError, match=f"has the MD5 .* in place of {rotmnist.MD5}"):
        rotmnist.published(folder.parent)
    monkeypatch.setattr(rotmnist, "MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    assert np.abs(rotmnist.published(folder.parent)[0] - images).max() < 1e-6


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"0 " * 784 + b"10", "row 6: .* got numbers from 0 to 0 and the label 10"),
        (b"0 " * 784 + b"2.5", "row 6: .* and the label 2.5"),
        (b"0 " * 783 + b"1.5 3", "row 6: .* got numbers from 0 to 1.5 and the label 3"),
        (b"0 " * 783 + b"nan 3", "row 6: .* got numbers from nan to nan"),
        (b"0 " * 783 + b"3", "columns changed from 785 to 784 at row 6"),
        (b"0 " * 400, "columns changed from 785 to 400 at row 6"),
        (b"<html> " * 785, "'<html>'"),
    ],
)
def test_a_bad_row_of_the_original_is_named(
    original: tuple[Path, np.ndarray, np.ndarray], row: bytes, message: str
) -> None:
    path = original[0] / rotmnist.MEMBERS[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], row + b"\n", *lines[6:]]))
    with pytest.raises(InputError, match=message) as caught:
        rotmnist.published(original[0].parent)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("rows", [0, 7, 9])
def test_the_original_has_its_number_of_rows(
    original: tuple[Path, np.ndarray, np.ndarray], rows: int
) -> None:
    path = original[0] / rotmnist.MEMBERS[0]
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join((lines * 2)[:rows]))
    with pytest.raises(InputError, match=f"has {rows} rows of .* in place of 8 rows of 785"):
        rotmnist.published(original[0].parent)


def test_without_the_original_the_error_says_what_to_do(tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(InputError, match=r"put mnist_rotation_new\.zip .* rotmnist-r is"):
        data.load("rotmnist", root=tmp_path)
