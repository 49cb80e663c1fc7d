"""Plankton: a split by file names, images on black, and errors in one line."""

import hashlib
import io
import itertools
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from hnets import data
from hnets.data import plankton
from hnets.data.dataset import in_split
from hnets.errors import InputError


@pytest.fixture
def small(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive of two classes with 20 and 9 images: grey bars on white, longer than wide."""
    monkeypatch.setattr(plankton, "IMAGES", 29)
    monkeypatch.setattr(plankton, "CLASSES", 2)
    folder = tmp_path / "data"
    folder.mkdir()
    with zipfile.ZipFile(folder / plankton.ARCHIVE, "w") as archive:
        for number in range(29):
            pixels = np.full((40, 20 + number), 255, np.uint8)
            pixels[10:30, 8:12] = 55
            buffer = io.BytesIO()
            Image.fromarray(pixels).save(buffer, "JPEG", quality=95)
            name = f"{'copepod' if number < 20 else 'diatom'}/{number}.jpg"
            archive.writestr(name, buffer.getvalue())
    return folder


def test_the_archive_is_read_by_one_thread(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.12 on, two threads that read one archive see overlapping members."""
    readers, read = set[int](), zipfile.ZipFile.read

    def watched(*arguments: Any) -> bytes:
        readers.add(threading.get_ident())
        return read(*arguments)

    monkeypatch.setattr(zipfile.ZipFile, "read", watched)
    data.load("plankton", "train", small)
    assert readers == {threading.get_ident()}


def test_organisms_are_light_on_black_and_decoded_once(
    small: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, val, test = (data.load("plankton", part, small) for part in ("train", "val", "test"))
    assert [len(part) for part in (train, val, test)] == [23, 3, 3]
    assert repr(val) == "Dataset('plankton', 'val': 3 images of 1×96×96, 2 classes)"
    assert val.classes == ("copepod", "diatom")
    assert set(val.labels.tolist()) == set(test.labels.tolist()) == {0, 1}
    assert val.images[..., :5].max() < 0.05, "no frame where the image was filled up"
    assert val.images.amax((2, 3)).min() > 0.7
    assert (own_cache / "plankton-val-96.npz").exists()
    monkeypatch.setattr(plankton, "read_image", None)
    assert data.load("plankton", "val", small).digest == val.digest


def test_another_size_is_another_file_of_the_cache(small: Path, own_cache: Path) -> None:
    assert data.load("plankton", "test", small, size=32).images.shape == (3, 1, 32, 32)
    assert [path.name for path in own_cache.iterdir()] == ["plankton-test-32.npz"]
    with pytest.raises(InputError, match="1 to 4,096 pixels wide, got size=0"):
        data.load("plankton", "test", small, size=0)
    with pytest.raises(InputError, match="channels=3"):
        data.load("plankton", "test", small, channels=3)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("missing", r"plankton is not here: put plankton.zip into .*, or set HNETS_DATA"),
        ("no archive", r"plankton.zip cannot be read \(File is not a zip file\); get it again"),
        ("empty", r"has 0 JPEG images in 0 folders in place of 29 in 2; get it again"),
        ("flat", r"has 1 JPEG images in 1 folders in place of 29 in 2"),
        ("bad image", r"plankton.zip: copepod/\d+.jpg is not an image that can be read"),
        ("bad bytes", r"plankton.zip cannot be read \(Bad CRC-32 for file .*\); get it again"),
    ],
)
def test_what_is_wrong_is_one_line(small: Path, damage: str, message: str) -> None:
    path = small / plankton.ARCHIVE
    if damage == "bad bytes":
        content = bytearray(path.read_bytes())
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                content[member.header_offset + 60] ^= 255
        path.write_bytes(content)
    elif damage == "bad image":
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "no image at all")
    else:
        path.unlink()
    if damage == "no archive":
        path.write_text("PK")
    elif damage in ("empty", "flat"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("readme.txt" if damage == "empty" else "1.jpg", "")
    with pytest.raises(InputError, match=message) as caught:
        data.load("plankton", "test", small)
    assert "\n" not in str(caught.value)


def test_the_split_depends_on_names_alone() -> None:
    names, labels = (
        [f"{number}.jpg" for number in range(300)],
        [number % 3 for number in range(300)],
    )
    parts = {part: in_split(names, labels, part) for part in ("train", "val", "test")}
    assert sorted(itertools.chain(*parts.values())) == list(range(300))
    for part, count in {"train": 80, "val": 10, "test": 10}.items():
        assert np.bincount([labels[row] for row in parts[part]]).tolist() == [count] * 3
    assert in_split(names, labels, "train+val") == sorted(parts["train"] + parts["val"])
    backwards = in_split(names[::-1], labels[::-1], "test")
    assert {names[::-1][row] for row in backwards} == {names[row] for row in parts["test"]}


def test_the_real_set(data_folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not (data_folder / plankton.ARCHIVE).exists():
        pytest.skip(f"needs {plankton.ARCHIVE} in HNETS_DATA")
    few: dict[str, list[str]] = {}

    def decode(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], size: int) -> np.ndarray:
        few["names"] = [member.filename for member in members]
        images = decoded(archive, members[::500], size)
        return np.resize(images, (len(members), size, size))

    decoded = plankton._decode
    monkeypatch.setattr(plankton, "_decode", decode)
    test = data.load("plankton", "test", size=48)
    assert (len(test), len(test.classes)) == (3_089, 121)
    assert np.bincount(test.labels).min() == 1
    names = hashlib.sha256("\n".join(few["names"]).encode()).hexdigest()
    assert names == "6300fb8edb3bcb758ad55d9e1918b8cdc7fa4348802fd3ee6db00191c3c27ba1"
    assert torch.quantile(test.images[:7, :, 0].flatten(), 0.5) < 0.02, "water is black"
