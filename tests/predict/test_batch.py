"""Image files in batches: which ones are meant, what their outputs are called, and the work."""

import functools
import io
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from drawings import blobs
from hnets.data.image_file import SUFFIXES
from hnets.errors import InputError
from hnets.predict import EdgeDetector, EdgeWorker, batch
from hnets.predict.batch import EncodedImage, find_images, output_names, write_edges
from networks import edge_network


def worker(**options: Any) -> EdgeWorker:
    return EdgeWorker(weights=edge_network(), device="cpu", **options)


@functools.cache
def detector() -> EdgeDetector:
    return EdgeDetector(edge_network())


def png(pixels: NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "png")
    return file.getvalue()


def threads() -> list[str]:
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("hnets-edges")]


# Files --------------------------------------------------------------------------------------------


def test_names_are_the_same_whatever_the_letters_case(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("A.png", "a.jpg", "b.png", "a.jpg.gif")]
    expected = [tmp_path / name for name in ("A.png", "a.jpg", "b", "a.jpg.gif")]
    for step in (1, -1):  # whatever the order, too
        images = dict.fromkeys(paths[::step], Path())
        assert output_names(images, tmp_path, [".edges.png"]) == expected[::step]


def test_inputs_that_name_no_image_are_listed_and_the_others_are_found(tmp_path: Path) -> None:
    empty, image = tmp_path / "empty", tmp_path / "a.png"
    empty.mkdir()
    image.touch()
    inputs = [empty, image, tmp_path / "*.gif", tmp_path / "b.png", tmp_path / "?.png"]
    paths, errors = find_images(map(str, inputs))
    assert paths == {image: Path()}
    assert [str(error) for error in errors] == [
        f"there is no image in the folder {empty}; expected files that end in "
        f"{', '.join(SUFFIXES)}",
        f"there is no file like {tmp_path}/*.gif; give the path of an image",
        f"there is no file {tmp_path}/b.png; give the path of an image",
    ]


def test_a_file_named_twice_is_one_image_and_a_link_to_it_another(tmp_path: Path) -> None:
    image, link = tmp_path / "b.png", tmp_path / "a.png"
    image.touch()
    link.symlink_to(image)
    (tmp_path / "x").mkdir()
    inputs = [tmp_path, image, tmp_path / "x/../b.png"]
    assert find_images(map(str, inputs)) == ({link: Path(), image: Path()}, [])


# The worker ---------------------------------------------------------------------------------------


def test_rows_are_those_of_one_image_at_a_time_whatever_the_batch() -> None:
    images = [blobs(20 + number % 2, 30)[::-1] for number in range(5)]
    contents = [png(image) for image in images]
    contents[2] = contents[2][:-40]
    columns = {"path": [f"{number}.png" for number in range(5)], "bytes": contents, "key": "abcde"}
    table = worker(kinds=["edges", "npz"])(columns)
    assert table["path"] == columns["path"]
    assert table["key"] == list("abcde")
    assert [error is None for error in table["error"]] == [True, True, False, True, True]
    assert table["error"][2].startswith("2.png is damaged or cut short (")
    for row, image in enumerate(images):
        if row == 2:
            assert table["edges"][2] is table["npz"][2] is None
            continue
        strength, angle = detector().oriented(image)
        with np.load(io.BytesIO(table["npz"][row])) as arrays:
            np.testing.assert_array_equal(arrays["magnitude"], strength)
            np.testing.assert_array_equal(arrays["angle"], angle)
        edges = np.asarray(Image.open(io.BytesIO(table["edges"][row])))
        np.testing.assert_array_equal(edges, (255 * strength).round())
    empty = worker()({"path": [], "bytes": []})
    assert empty == {"path": [], "edges": [], "error": []}


def test_equal_sizes_go_through_the_network_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, call = list[tuple[int, ...]](), EdgeDetector.__call__

    def watch(self: EdgeDetector, images: Any, scales: Any = (1.0,)) -> Any:
        sizes.append((len(images), *{image.shape for image in images}))
        return call(self, images, scales)

    monkeypatch.setattr("hnets.predict.edge_detector.at_once", lambda *_: 3)
    monkeypatch.setattr(EdgeDetector, "__call__", watch)
    images = [blobs(20 + number % 2, 30 + number // 8) for number in range(9)]
    names = [f"{number}" for number in range(9)]
    table = worker()({"path": names, "bytes": [png(image) for image in images]})
    full = Counter(sizes)
    assert sum(number * times for (number, _), times in full.items()) == 9
    assert full[3, (20, 30, 3)] == full[3, (21, 30, 3)] == full[1, (20, 31, 3)] == 1
    monkeypatch.undo()
    for row, image in enumerate(images):
        edges = np.asarray(Image.open(io.BytesIO(table["edges"][row]))).astype(int)
        assert np.abs(edges - 255 * detector()(image)).max() < 0.51


def test_images_that_wait_are_bounded_by_their_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting, most, lock = Counter[str](), list[int](), threading.Lock()
    decode = batch._decoded

    def decoded(image: EncodedImage) -> Any:
        with lock:
            waiting["pixels"] += 400
            most.append(waiting["pixels"])
        return decode(image)

    def finish(position: int, renderings: batch.Renderings) -> int:
        assert [kind for kind, _ in renderings] == ["edges"]
        with lock:
            waiting["pixels"] -= 400
        return position

    monkeypatch.setattr(batch, "_HELD", 1000)
    monkeypatch.setattr(batch, "_decoded", decoded)
    content = png(blobs(20, 20))
    images = [EncodedImage(str(number), content) for number in range(12)]
    results = sorted(worker(threads=8).stream(images, finish))
    assert results == [(number, number) for number in range(12)]
    assert max(most) == 800


def test_a_large_image_is_held_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_HELD", 1)
    images = [EncodedImage(str(number), png(blobs(20, 20))) for number in range(3)]
    assert len(list(worker().stream(images, lambda *_: None))) == 3


def test_what_others_would_suffer_from_ends_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    images = [EncodedImage(str(number), png(blobs(20, 20))) for number in range(3)]
    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(OSError, match="No space left"):
        list(write_edges(worker(), images, [tmp_path / image.name for image in images]))
    assert not threads()
    assert not list(tmp_path.iterdir())


def test_work_that_is_abandoned_leaves_no_thread() -> None:
    images = [EncodedImage(str(number), png(blobs(20, 20))) for number in range(30)]
    work = worker().stream(images, lambda position, _: position)
    next(work)
    work.close()
    assert not threads()


def test_unknown_kinds_are_named() -> None:
    with pytest.raises(InputError, match=r"there is no kind 'edge' of edges; did you mean 'edges'"):
        EdgeWorker(["edge"])


@pytest.mark.gpu
def test_a_gpu_gives_the_edges_of_the_cpu() -> None:
    images = [blobs(40 + number % 2, 52) for number in range(20)]
    table = {"path": list(map(str, range(20))), "bytes": [png(image) for image in images]}
    ours = EdgeWorker(["npz"], weights=edge_network(), device="cuda")(table)["npz"]
    for content, image in zip(ours, images, strict=True):
        with np.load(io.BytesIO(content)) as arrays:
            np.testing.assert_allclose(arrays["magnitude"], detector()(image), atol=1e-3)
