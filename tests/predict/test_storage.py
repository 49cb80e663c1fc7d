"""Folders behind URLs and paths: files that appear whole, and one line for what is wrong."""

import errno
import os
import re
import sys
from pathlib import Path
from typing import Any

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


@pytest.mark.parametrize("remote", [False, True])
def test_what_killed_writers_left_is_removed_a_day_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remote: bool
) -> None:
    place = Place.of(str(tmp_path))
    if remote:  # by another way to the same folder, where parts are files
        fs, fsspec = pytest.importorskip("pyarrow.fs"), pytest.importorskip("fsspec")
        other = fs.PyFileSystem(fs.FSSpecHandler(fsspec.filesystem("file")))
        place = place._replace(filesystem=other)
    place.write("x/a.png", b"whole")
    part = tmp_path / "x" / ".hnets-1.part"
    part.touch() if remote else part.mkdir()
    place.remove_stale(["", "x", "missing"])
    assert part.exists()
    monkeypatch.setattr("hnets.files._STALE", -1)
    place.remove_stale(["", "x", "missing"])
    assert not part.exists()
    assert place.files() == ["x/a.png"]


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


@pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes and names of any bytes")
def test_odd_files_of_this_machine_harm_no_others(tmp_path: Path) -> None:
    place = Place.of(str(tmp_path / "in"))
    place.write("x/a.png", b"1")
    folder = Path(place.path)
    (folder / "x/up").symlink_to("..")  # listed without end if it were followed
    (folder / "b.png").symlink_to("x/a.png")
    (folder / "gone.png").symlink_to("nowhere")
    os.mkfifo(folder / "pipe.png")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.png")).write_bytes(b"2")
    assert place.files() == ["b.png", "gone.png", "pipe.png", "x/a.png", "\udcff.png"]
    assert place.files(empty=False) == ["b.png", "x/a.png", "\udcff.png"]
    assert place.read("b.png") == b"1"
    for name, message in (("pipe.png", "not a regular file"), ("gone.png", "No such file")):
        with pytest.raises(OSError, match=message):
            place.read(name)


def test_a_folder_that_cannot_be_listed_harms_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(str(tmp_path))
    for name in ("locked/a.png", "b.png"):
        place.write(name, b"1")
    scandir = os.scandir

    def refuse(path: str) -> Any:  # as root there is no folder that cannot be read
        if path == str(tmp_path / locked):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr("os.scandir", refuse)
    locked, errors = "locked", dict[str, str]()
    assert place.files(errors=errors) == ["b.png"]
    assert errors == {"locked": "Permission denied"}
    with pytest.raises(InputError, match=r"/locked cannot be read \(Permission denied\)$"):
        place.files()
    locked = ""
    with pytest.raises(InputError, match=rf"^{place.url} cannot be read \(Permission denied\)$"):
        place.files(errors=errors)
