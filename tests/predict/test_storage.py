"""Folders behind URLs and paths: files that appear whole, and one line for what is wrong."""

import re
from pathlib import Path

import pytest

from hnets.errors import InputError
from hnets.predict.storage import Place

pytest.importorskip("pyarrow", reason="needs pyarrow, which comes with Ray: hnets[cluster]")


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    folder = tmp_path / "maps"
    return Place.of(str(folder) if request.param == "local" else f"memory:/{folder}")


def test_files_are_written_read_and_listed(place: Place) -> None:
    assert place.files() == []
    for name, content in {"b.png": b"2", "x/y/a b.png": b"1", "x/é.png": b"\0\0"}.items():
        place.write(name, b"old")
        place.write(name, content)
        assert place.read(name) == content
    assert place.files() == ["b.png", "x/y/a b.png", "x/é.png"]
    place.write("empty", b"")
    assert place.files() == ["b.png", "empty", "x/y/a b.png", "x/é.png"]
    assert place.files(empty=False) == ["b.png", "x/y/a b.png", "x/é.png"]
    image = Place(place.filesystem, f"{place.path}/x/y/a b.png", f"{place.url}/x/y/a b.png")
    assert image.files() == [""]
    folder, name = image.parent()
    assert (folder.path, folder.url, name) == (f"{place.path}/x/y", f"{place.url}/x/y", "a b.png")


def test_half_a_file_is_never_there(place: Place) -> None:
    place.write("a.png", b"old")
    with pytest.raises(TypeError):
        place.write("a.png", "no bytes")
    assert place.read("a.png") == b"old"
    assert [name for name in place.files() if not name.startswith(".hnets-")] == ["a.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [("nowhere://x/y", r"cannot use nowhere://x/y \("), ("s3://x/y?z=1", r"cannot use .*'z'")],
)
def test_urls_that_make_no_sense_are_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}") as caught:
        Place.of(text)
    assert "\n" not in str(caught.value)


def test_errors_name_the_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = Place.of(str(tmp_path / "file/x"))
    message = re.escape(f"{place.url} cannot be written (Not a directory)")
    with pytest.raises(InputError, match=f"^{message}$"), place.errors("written"):
        place.write("a.png", b"")
