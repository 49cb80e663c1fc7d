"""Files that appear whole, with the modes of any new file, or not at all."""

import os
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from hnets.files import remove_stale, replacing


def test_a_file_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file.txt"
    with replacing(path) as part:
        part.write_text("whole")
        assert part.name == path.name  # some writers keep the name in the file
        assert not path.exists()
    assert path.read_text() == "whole"
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]


def fail(part: Path) -> None:
    part.write_text("half")
    raise OSError(28, "Full")


def test_a_failed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(OSError, match=f"Full: '{path}'"), replacing(path) as part:
        fail(part)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("umask", [0o022, 0o027])
def test_modes_are_those_of_any_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "x.safetensors") as part:
            save_file({"x": torch.ones(1)}, part)  # which allows its owner alone
    finally:
        os.umask(before)
    assert (tmp_path / "x.safetensors").stat().st_mode & 0o777 == 0o666 & ~umask


def test_errors_name_the_file_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    folder = replacing(tmp_path / "folder")
    with pytest.raises(IsADirectoryError, match=f"is a folder.*{tmp_path}/folder'"), folder:
        pass
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "file.txt"):
        pass  # nothing written
    assert caught.value.filename == str(tmp_path / "file.txt")
    with pytest.raises(FileNotFoundError, match="elsewhere"), replacing(tmp_path / "file.txt"):
        (tmp_path / "elsewhere").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["folder"]


def test_what_killed_writers_left_is_removed_a_day_later(tmp_path: Path) -> None:
    for name, hours in ((".hnets-old.part", 25), (".hnets-new.part", 1), (".hnets-old", 99)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.png").write_text("half")
        then = time.time() - 3600 * hours
        os.utime(tmp_path / name, (then, then))
    remove_stale([tmp_path, tmp_path / "missing"])
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hnets-new.part", ".hnets-old"]
