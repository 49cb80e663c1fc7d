"""Images that stay in their files: the same pixels as in memory, from files or from the cache."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hnets import data
from hnets.data import Streamed, cache, streamed
from hnets.errors import InputError


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Noise of two classes in several formats and sizes."""
    random = np.random.default_rng(0)
    for name in ("a", "b"):
        (tmp_path / "mine" / name).mkdir(parents=True)
        for i, suffix in enumerate(["png", "jpg", "webp", "png", "bmp", "jpg"]):
            height, width = (300, 200) if suffix == "jpg" else (30, 20 + i)
            pixels = random.integers(256, size=(height, width, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "mine" / name / f"{i}.{suffix}")
    return tmp_path / "mine"


def checked(folder: Path, split: str = "train", **form: int) -> Streamed:
    images = data.stream(folder, split, **form)
    return images.checked(images.check(slice(0, len(images))))


def batch(images: Streamed, order: list[int]) -> torch.Tensor:
    (only,) = images.batches([torch.tensor(order)], len(order))
    return only


def test_the_pixels_are_those_of_a_set_in_memory(folder: Path) -> None:
    images, memory = checked(folder, size=24, channels=3), data.load(folder, size=24, channels=3)
    assert torch.equal(images.labels, memory.labels)
    assert images.shape == memory.images.shape
    assert images.classes == memory.classes
    order = [3, 0, 7, 0]
    pixels = batch(images, order)
    assert pixels.dtype == torch.uint8
    assert torch.equal(pixels.float() / 255, memory.images[order])
    some = images.subset([5, 2])
    assert torch.equal(batch(some, [1, 0]).float() / 255, memory.images[[2, 5]])
    for path in folder.rglob("*.*"):
        facts = path.stat()
        path.write_bytes(b"x" * facts.st_size)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    again = checked(folder, size=24, channels=3)
    assert torch.equal(batch(again, order), pixels), "they are read from the cache"


def test_a_process_whose_share_is_empty_gets_empty_batches(folder: Path) -> None:
    images = checked(folder, size=24)
    assert list(images.batches([], 1)) == []
    shares = (torch.tensor([], dtype=torch.long) for _ in range(2))  # of each step of an epoch
    assert [tuple(each.shape) for each in images.batches(shares, 0)] == 2 * [(0, 1, 24, 24)]


def test_the_digest_is_that_of_pixels_and_labels(folder: Path) -> None:
    first, other = checked(folder), checked(folder, size=29)
    assert first.digest == checked(folder).digest
    assert len({first.digest, other.digest, first.subset(3).digest}) == 3
    assert repr(first) == "Streamed('mine', 'train': 8 images of 1×28×28, 2 classes)"


def test_parts_that_are_checked_apart_make_up_the_whole(folder: Path) -> None:
    images = data.stream(folder)
    parts = [images.check(slice(0, 3)), images.check(slice(3, 8))]
    assert torch.equal(sum(parts), checked(folder).checksums)


def test_unreadable_files_are_left_out_with_one_warning_as_in_memory(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("0.png", "3.png"):
        (folder / "a" / name).write_bytes(b"damaged")
    (folder / "b" / "1.jpg").write_bytes((folder / "b" / "1.jpg").read_bytes()[:500])
    images = checked(folder)
    (record,) = caplog.records
    memory = data.load(folder)
    assert "damaged" in record.getMessage() or "is not an image" in record.getMessage()
    assert len(images) == len(memory) < 8
    everything = list(range(len(images)))
    assert torch.equal(batch(images, everything).float() / 255, memory.images)
    for path in (folder / "a").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(InputError, match="has no image of 'a' that can be read for train"):
        checked(folder)


def test_a_file_that_is_lost_on_the_way_is_replaced_by_one_of_its_class(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cache.PixelCache, "read", lambda *_: None)  # there was no room
    images = checked(folder)
    order = list(range(len(images)))
    before, labels = batch(images, order), images.labels.tolist()
    lost = folder / "a" / os.fsdecode(images.files.listing._files["name"][0])
    lost.unlink()
    after = batch(images, order)
    (record,) = caplog.records
    assert f"there is no file {lost}" in record.getMessage()
    assert torch.equal(after[1:], before[1:])
    others = [i for i in order[1:] if labels[i] == labels[0]]
    assert any(torch.equal(after[0], before[i]) for i in others)
    for path in (folder / "a").iterdir():
        path.unlink()
    with pytest.raises(InputError, match=r"there is no file .*, nor can other images of its class"):
        batch(images, order)


def test_a_cache_that_is_damaged_or_out_of_date_is_not_used(folder: Path) -> None:
    images = checked(folder)
    pixels = batch(images, [0, 1, 2])
    (file,) = (cache.cache_folder() / "pixels").glob("*.pixels")
    file.write_bytes(b"\1" * file.stat().st_size)
    assert torch.equal(batch(checked(folder), [0, 1, 2]), pixels)
    Image.new("L", (30, 30), 77).save(folder / "a" / "new.png")
    before = len(images)
    assert len(checked(folder)) == before + 1
    assert len(list(file.parent.iterdir())) == 2, "what was made of the old files is removed"


def test_without_room_for_pixels_images_are_decoded_each_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = batch(checked(folder), [0, 1])
    monkeypatch.setenv("HNETS_CACHE", str(folder.parent / "full"))
    monkeypatch.setattr(cache, "_MARGIN", 2**60)
    assert torch.equal(batch(checked(folder), [0, 1]), expected)
    assert "No space left on device" in caplog.records[0].getMessage()
    monkeypatch.setenv("HNETS_CACHE", str(folder / "a" / "0.png"))
    assert torch.equal(batch(checked(folder), [0, 1]), expected)


def test_random_numbers_are_left_alone(folder: Path) -> None:
    images = checked(folder)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    batch(images, [0])
    assert torch.equal(torch.rand(3), expected)


def test_there_is_a_core_for_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(12)), raising=False)
    assert streamed.default_workers() == 11
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert streamed.default_workers() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert streamed.default_workers() == 1


def test_sets_in_memory_are_not_streamed() -> None:
    with pytest.raises(InputError, match="mnist is held in memory"):
        data.stream("mnist")
    with pytest.raises(InputError, match="there is no data set or folder 'nowhere'"):
        data.stream("nowhere")
    with pytest.raises(InputError, match="there is no data set or folder ''"):
        data.stream("")
