"""A disk that is full at any write is one line; what was there before stays."""

from __future__ import annotations

import shutil
from pathlib import Path

from abuse.fixtures import photograph
from abuse.harness import Case, NewPart
from abuse.launcher import Launcher
from abuse.outputs import damaged
from abuse.training import Tiny, refusal, unfinished


def full_disk(case: Case, folder: Path, events: int) -> dict[str, object]:
    """Which write finds the disk full, how many bytes of a file still fit, and for how long."""
    return {
        "folder": str(folder),
        "number": case.rng.randint(1, events),
        "left": case.rng.choice((-1, 0, 0, 10, 1000, 100_000)),
        "lasting": case.rng.random() < 0.5,
    }


def test_a_training_stops_in_one_line_and_goes_on_when_there_is_room(
    part: NewPart, tiny: Tiny, tmp_path: Path
) -> None:
    attacked = part("A full disk in a training", "full disks", share=0.22, target=1_000)
    for case in attacked.cases(8):
        work = tmp_path / f"case-{case.number}"
        work.mkdir()
        disk = full_disk(case, work, len(tiny.events))
        told = f"{disk}, {tiny.events[disk['number'] - 1]}"
        outcome = tiny.train(work, full_disk=disk)
        wrong = None
        if outcome.code == 0:
            happened = "nothing needed the space, and the same bits"
            wrong = f"on stderr: {outcome.err}" if outcome.err else None
        else:
            happened = "stopped in one line, resumed, and the same bits in the end"
            wrong = refusal(outcome, 1, 2)
            if not wrong:
                resumed = tiny.resume(work)
                wrong = f"resumed: {resumed}" if resumed.code or resumed.err else None
        wrong = wrong or tiny.difference(work)
        if not wrong and (left := unfinished(work)):
            wrong = f"left behind: {left}"
        if wrong:
            attacked.fail(case, f"{told}: {wrong}; left in {work}")
            continue
        attacked.count(happened)
        shutil.rmtree(work)
    attacked.check()


def test_edges_are_whole_or_not_there(part: NewPart, launcher: Launcher, tmp_path: Path) -> None:
    attacked = part("A full disk in `hnets edges --npz`", "full disks", share=0.04)
    for number in range(2):
        photograph(tmp_path / "in" / f"{number}.png")
    kinds = ("--npz", "--thin", "--overlay")
    for case in attacked.cases(5):
        work = tmp_path / f"case-{case.number}"
        work.mkdir()
        disk = full_disk(case, work, 24)
        outcome = launcher.hnets(
            "edges", "../in", "-o", "out", *kinds, folder=work, full_disk=disk
        )  # fmt: skip
        lines = outcome.err.splitlines()
        wrong = None
        if outcome.hung or outcome.code not in (0, 1, 2) or bool(outcome.code) != bool(lines):
            wrong = str(outcome)
        for line in lines:
            if not line.startswith("hnets: ") or "out" not in line:
                wrong = f"a line that is not ours, or names no file: {line!r}"
        wrong = wrong or (f"left behind: {unfinished(work)}" if unfinished(work) else None)
        wrong = wrong or damaged(work / "out")
        if wrong:
            attacked.fail(case, f"{disk}: {wrong}")
        elif outcome.code:
            attacked.count("stopped in one line that names the file, and nothing half-written")
        else:
            attacked.count("nothing needed the space")
        shutil.rmtree(work)
    attacked.check()
