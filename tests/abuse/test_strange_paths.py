"""Paths that are no image files, among some that are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from abuse.harness import NewPart
from abuse.launcher import Launcher
from abuse.mutations import samples
from abuse.outputs import check_edges


class Hazards:
    """Things other than image files that a user's folder may hold, made one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.locked = list[Path]()

    def loop(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        path.symlink_to(path.name)
        return str(path)

    def dangling(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        path.symlink_to("nowhere.png")
        return str(path)

    def fifo(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        os.mkfifo(path)
        return str(path)

    def device(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        path.symlink_to("/dev/zero")
        return str(path)

    def folder_with_a_suffix(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        path.mkdir()
        return str(path)

    def unreadable(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        path.write_bytes(samples()[0][1])
        path.chmod(0)
        return str(path)

    def text(self, number: int) -> str:
        path = self.folder / f"{number}.png"
        path.write_text("no image")
        return str(path)

    def line_break(self, number: int) -> str:
        path = self.folder / f"{number}\n.png"
        path.write_bytes(b"no image")
        return str(path)

    # Those that follow are only ever named by the user.

    def long_name(self, number: int) -> str:
        return str(self.folder / f"{number}{'x' * 300}.png")

    def long_path(self, number: int) -> str:
        return f"{number}/" * 3000

    def missing(self, number: int) -> str:
        return str(self.folder / f"{number}-missing.png")

    def pattern(self, number: int) -> str:
        return str(self.folder / f"{number}-missing-*.png")

    def locked_folder(self, number: int) -> str:
        path = self.folder.parent / f"{number}-locked"
        path.mkdir()
        path.chmod(0)
        self.locked.append(path)
        return str(path)

    def empty_folder(self, number: int) -> str:
        path = self.folder.parent / f"{number}-empty"
        path.mkdir()
        return str(path)


IN_FOLDERS = [
    Hazards.loop, Hazards.dangling, Hazards.fifo, Hazards.device, Hazards.folder_with_a_suffix,
    Hazards.unreadable, Hazards.text, Hazards.line_break,
]  # fmt: skip
NAMED = [
    *IN_FOLDERS, Hazards.long_name, Hazards.long_path, Hazards.missing, Hazards.pattern,
    Hazards.locked_folder, Hazards.empty_folder,
]  # fmt: skip


def test_strange_paths(part: NewPart, launcher: Launcher, tmp_path: Path) -> None:
    """Good files among what is none are drawn, and each of the others gets its line."""
    attacked = part("Links, pipes, devices and names among images", "paths", share=0.03)
    for case in attacked.cases(6):
        work = tmp_path / f"case-{case.number}"
        (work / "in").mkdir(parents=True)
        rng, hazards = case.rng, Hazards(work / "in")
        by_name = rng.random() < 0.6
        kinds = rng.sample(NAMED if by_name else IN_FOLDERS, rng.randint(1, 6))
        names = [kind(hazards, number) for number, kind in enumerate(kinds)]
        read = {f"good-{number}" for number in range(rng.randint(1, 2))}
        for name in read:
            (work / "in" / f"{name}.png").write_bytes(samples()[4][1])
        inputs = [str(work / "in" / f"{name}.png") for name in sorted(read)] + names
        rng.shuffle(inputs)
        blocked = rng.random() < 0.3
        if blocked:  # where an output should go there is a folder
            (work / "out" / "good-0.edges.png").mkdir(parents=True)
        outcome = launcher.hnets(
            "edges", *(inputs if by_name else ["in"]), "-o", "out",
            folder=work, limit=60, unprivileged=True,
        )  # fmt: skip
        if blocked:
            (work / "out" / "good-0.edges.png").rmdir()
            read -= {"good-0"}
        # The order of names in a folder is not the order of the numbers, and a line break in a
        # name is shown as a space: the number is enough.
        refused = {f"{number}" for number in range(len(kinds))} | ({"good-0"} if blocked else set())
        wrong = check_edges(work / "out", outcome, refused, read)
        for path in hazards.locked:
            path.chmod(0o700)
        if wrong:
            attacked.fail(case, f"{[kind.__name__ for kind in kinds]}, {by_name=}: {wrong}")
        else:
            attacked.count("refused in one line", len(refused))
            attacked.count("good ones beside them drawn", len(read))
        shutil.rmtree(work)
    attacked.check()
