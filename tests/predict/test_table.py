"""Tables that grow: rows are on disk when they are added, and a killed job goes on."""

import os
import signal
import sys
from pathlib import Path

import pytest

from hnets.errors import InputError
from hnets.predict.table import GrowingTable

HEADER = ["file", "class", "0", "1"]
ROWS = [["a.png", "oak", "0.9", "0.1"], ['new\r\n"b".png', "elm", "0.2", "0.8"]]


class Killed(BaseException):
    """The end of a job."""


def write(path: Path, rows: list[list[str]], go_on: bool = False, killed: bool = False) -> None:
    with GrowingTable(path, HEADER, go_on) as table:
        for row in rows:
            if row[0] not in table.names:
                table.add([row])
        if killed:
            raise Killed


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "x.csv"


def test_the_table_has_its_name_when_it_is_complete(path: Path) -> None:
    with pytest.raises(Killed):
        write(path, ROWS, killed=True)
    assert [file.name for file in path.parent.iterdir()] == ["x.csv.part"]
    with pytest.raises(InputError, match=r"x.csv.part has the rows of a job that was stopped; add"):
        write(path, ROWS)
    write(path, ROWS, go_on=True)
    assert [file.name for file in path.parent.iterdir()] == ["x.csv"]
    write(path, ROWS)  # anew
    assert path.read_bytes().count(b"oak") == 1


def test_wherever_a_job_is_killed_the_next_one_ends_with_the_same_rows(path: Path) -> None:
    write(path, ROWS)
    whole = path.read_bytes()
    part = path.with_name("x.csv.part")
    for length in range(len(whole)):
        path.unlink()
        part.write_bytes(whole[:length])
        write(path, ROWS, go_on=True)
        assert path.read_bytes() == whole, whole[:length]
        assert not part.exists()


def test_a_complete_table_is_added_to_and_stays_until_that_is_complete(path: Path) -> None:
    write(path, ROWS[:1])
    old = path.read_bytes()
    with pytest.raises(Killed):
        write(path, ROWS, go_on=True, killed=True)
    assert path.read_bytes() == old
    write(path, ROWS, go_on=True)
    assert path.read_bytes().startswith(old)
    assert path.read_bytes().count(b"elm") == 1


def test_a_table_of_other_columns_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("file,class\n")
    with pytest.raises(
        InputError, match=r"x.csv to have the columns file, class, 0, 1, got file, "
    ):
        write(path, ROWS, go_on=True)
    assert [file.name for file in path.parent.iterdir()] == ["x.csv"]


def test_a_file_that_is_no_table_is_not_written_over(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("notes")
    with pytest.raises(InputError, match="got other text; name another file"):
        write(path, ROWS, go_on=True)
    assert path.read_text() == "notes"


def test_a_link_stays_and_what_it_leads_to_is_written(path: Path) -> None:
    path.parent.mkdir()
    path.symlink_to("real.csv")
    write(path, ROWS)
    assert path.is_symlink()
    assert path.with_name("real.csv").read_bytes() == path.read_bytes()


def test_a_file_that_cannot_be_made_is_one_line(path: Path) -> None:
    path.with_name("x.csv.part").mkdir(parents=True)
    with pytest.raises(InputError, match=r"x.csv.part cannot be written \("):
        write(path, ROWS)


def test_without_rows_there_is_no_table(path: Path) -> None:
    write(path, [])
    assert not list(path.parent.iterdir())


@pytest.mark.skipif(sys.platform == "win32", reason="has no such locks")
def test_two_jobs_do_not_write_to_one_table(path: Path) -> None:
    with GrowingTable(path, HEADER) as table:
        table.add(ROWS[:1])
        with pytest.raises(InputError, match="is being written by another process"):
            write(path, ROWS, go_on=True)
        table.add(ROWS[1:])
    assert path.read_bytes().count(b"oak") == 1


def test_a_disk_without_room_is_named_and_half_a_row_is_not_kept(path: Path) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60, limits[1]))
    try:
        with pytest.raises(OSError, match=r"x.csv.part'$"):
            write(path, ROWS)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert os.path.getsize(f"{path}.part") == 60
    write(path, ROWS, go_on=True)
    assert path.read_bytes().count(b".png") == 2
