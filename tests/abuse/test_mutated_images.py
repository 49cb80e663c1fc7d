"""Damaged and strange image files: read, refused in one line, and nothing else."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

from abuse.demo_server import serving, upload
from abuse.harness import Case, NewPart
from abuse.launcher import Launcher
from abuse.mutations import mutated
from abuse.outputs import check_edges

BATCH = 100
DRAWN = 12
"""Files of a batch that the network is given, and ..."""
SMALL = 2_000
"""... pixels of each at most: it takes its time."""


def write_batch(folder: Path, rng: random.Random) -> dict[str, str]:
    """Files of a batch by name, and what was done to each."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    done = {}
    for number in range(BATCH):
        what, suffix, content = mutated(rng)
        name = f"{number}{suffix}"
        (folder / name).write_bytes(content)
        done[name] = what
    return done


def read_batch(launcher: Launcher, folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    outcome = launcher.call("abuse.reading:read_all", folder, 600, arguments={"names": names})
    results = {one["name"]: one for one in map(json.loads, outcome.out.splitlines())}
    if outcome.code and len(results) < len(names):
        name = names[len(results)]
        results[name] = {"name": name, "traceback": f"the process ended with {outcome.code}"}
    return results


def one_line(message: str, name: str) -> bool:
    return "\n" not in message and name in message and len(message) < 1000


def keep(path: Path, case: Case) -> Path:
    """A copy of a file that a report can name."""
    kept = path.parent.parent / f"case-{case.number}-{path.name}"
    shutil.copy(path, kept)
    return kept


def test_the_reader(part: NewPart, launcher: Launcher, tmp_path: Path) -> None:
    attacked = part("Damaged image files, read", "files", share=0.17, target=100_000)
    for case in attacked.cases(8):
        done = write_batch(tmp_path / "batch", case.rng)
        results = read_batch(launcher, tmp_path / "batch", list(done))
        for name, what in done.items():
            result = results.get(name, {"traceback": "not reached"})
            wrong = result.get("traceback") or result.get("stderr")
            if not wrong and "refused" in result and not one_line(result["refused"], name):
                wrong = f"refused with {result['refused']!r}"
            if wrong:
                where = keep(tmp_path / "batch" / name, case)
                attacked.fail(case, f"{where} ({what}): {wrong}")
            else:
                attacked.count("refused in one line" if "refused" in result else "read")
    attacked.check()


def test_the_edges_command(part: NewPart, launcher: Launcher, tmp_path: Path) -> None:
    attacked = part("Damaged image files, `hnets edges`", "files", share=0.06, target=100_000)
    for case in attacked.cases(3):
        batch = tmp_path / "batch"
        results = read_batch(launcher, batch, list(write_batch(batch, case.rng)))
        refused, read = set[str](), set[str]()
        for name, result in results.items():
            width, height = result.get("size", (0, 0))
            if not width:
                refused.add(name)
            elif width * height <= SMALL and len(read) < DRAWN:
                read.add(name)
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        names = sorted(f"batch/{name}" for name in refused | read)
        arguments = ("edges", *names, "-o", "out")
        outcome = launcher.hnets(*arguments, folder=tmp_path, limit=120)
        wrong = check_edges(tmp_path / "out", outcome, refused, read)
        if wrong:
            attacked.fail(case, wrong)
        else:
            attacked.count("refused in one line", len(refused))
            attacked.count("drawn", len(read))
    attacked.check()


def test_the_page(part: NewPart, launcher: Launcher, tmp_path: Path) -> None:
    """Each upload is drawn or refused in one line, and the server has nothing to say."""
    attacked = part("Damaged image files, uploaded to the page", "files", share=0.04)
    with serving(launcher, tmp_path) as server:
        for case in attacked.cases(60):
            what, _, content = mutated(case.rng)
            try:
                status, reply = upload(server.port, content)
            except OSError as error:
                attacked.fail(case, f"{what}: {error!r}")
                continue
            if status == 200:
                attacked.count("drawn")
            elif status in (400, 413, 415) and "\n" not in reply["error"]:
                attacked.count("refused in one line")
            else:
                attacked.fail(case, f"{what}: status {status}, {reply}")
        said = server.errors()
    if said:
        attacked.failures.append(f"on the server's stderr: {said[:1000]}")
    attacked.check()
