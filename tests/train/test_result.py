"""Where a result comes from."""

import json
import os
import subprocess
from pathlib import Path

import pytest

import hnets
from hnets.train.result import commit, write_json


def test_the_commit_says_if_any_file_of_the_package_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        done = subprocess.run(
            ["git", "-C", str(tmp_path), *who, *arguments],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    part = tmp_path / "package/nn/conv.py"
    part.parent.mkdir(parents=True)
    for path in (part, tmp_path / "package/__init__.py", tmp_path / "page.md"):
        path.touch()
    monkeypatch.setattr(hnets, "__file__", str(tmp_path / "package/__init__.py"))
    monkeypatch.setenv("HNETS_COMMIT", "abc")
    assert commit() == "abc"  # no checkout
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "all")
    (tmp_path / "page.md").write_text("no code")
    assert commit() == git("rev-parse", "HEAD")
    part.write_text("changed = True")
    assert commit() == git("rev-parse", "HEAD") + "+"


def test_names_of_classes_may_be_no_utf8(tmp_path: Path) -> None:
    names, path = ["é", os.fsdecode(b"\xff")], tmp_path / "result.json"
    write_json(names, path)
    assert json.loads(path.read_text(encoding="utf-8")) == names
    assert "é" in path.read_text(encoding="utf-8")
