"""Tar files in the layout of webdataset: the images of a folder, in the order of the files."""

import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hnets import data
from hnets.data import Dataset
from hnets.errors import InputError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))


def noise(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(256, size=(28, 28), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def pack(path: Path, files: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def samples(seeds: range) -> dict[str, bytes]:
    """Images whose class is the last digit of their seed, modulo 2."""
    files = dict[str, bytes]()
    for seed in seeds:
        files |= {f"part/{seed:04}.png": noise(seed), f"part/{seed:04}.cls": b"%d\n" % (seed % 2)}
    return files


def expected(seeds: range) -> torch.Tensor:
    images = [np.asarray(Image.open(io.BytesIO(noise(seed)))) for seed in seeds]
    return torch.from_numpy(np.stack(images))[:, None]


@pytest.mark.parametrize("form", ["{}-{}.tar", "{}/{}.tar"])
def test_splits_are_files_or_folders(tmp_path: Path, form: str) -> None:
    pack(tmp_path / form.format("train", "0"), samples(range(4)))
    pack(tmp_path / form.format("train", "1"), samples(range(4, 6)) | {"part/notes.txt": b"hello"})
    pack(tmp_path / form.format("val", "0"), samples(range(6, 8)))
    images = data.stream(tmp_path, "train")
    images = images.checked(images.check(slice(0, len(images))))
    assert images.classes == ("0", "1")
    assert images.labels.tolist() == [0, 1] * 3
    (pixels,) = images.batches([torch.tensor([5, 0, 1, 2, 3, 4])], 6)
    assert torch.equal(pixels, expected(range(6))[[5, 0, 1, 2, 3, 4]])
    memory = data.load(tmp_path, "train+val")
    assert isinstance(memory, Dataset)
    assert torch.equal(memory.images, expected(range(8)).float() / 255)
    with pytest.raises(InputError, match=r"has no images for test; add test-0000\.tar"):
        data.load(tmp_path, "test")


def test_without_names_of_splits_each_class_is_cut(tmp_path: Path) -> None:
    pack(tmp_path / "all.tar", samples(range(40)))
    sets = [data.load(tmp_path, split) for split in ("train", "val", "test")]
    assert [one.labels.bincount().tolist() for one in sets] == [[16, 16], [2, 2], [2, 2]]
    every = torch.cat([one.images for one in sets]) * 255
    assert len(every.flatten(1).unique(dim=0)) == 40


def test_what_is_wrong_with_a_file_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "train-0.tar"
    for content, message in (
        ({"1.png": noise(1)}, r"train-0.tar has no \.cls beside 1.png; put the number"),
        ({"1.png": noise(1), "1.cls": b"cat"}, r"has b'cat' in 1.cls; expected a class from 0 up"),
        ({"1.png": noise(1), "1.cls": b"0"}, "has one class, and at least two are needed"),
        ({"1.txt": b""}, "has no images for train"),
    ):
        pack(path, content)
        with pytest.raises(InputError, match=message) as caught:
            data.load(tmp_path)
        assert "\n" not in str(caught.value)
    path.write_bytes(b"\x1f\x8b" + bytes(100))
    with pytest.raises(InputError, match="cannot be read as a tar file without compression"):
        data.load(tmp_path)


def test_an_image_that_is_cut_short_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pack(tmp_path / "train-0.tar", samples(range(6)) | {"x.png": noise(9)[:300], "x.cls": b"1"})
    assert len(data.load(tmp_path)) == 6
    assert "train-0.tar/x.png is damaged or cut short" in caplog.records[0].getMessage()
