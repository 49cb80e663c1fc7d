"""A tiny training in a process of its own, and what may be compared of two of them."""

from __future__ import annotations

import csv
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from abuse.fixtures import data_folder, recipe
from abuse.launcher import Launcher, Outcome

CHECKPOINT = "checkpoint.safetensors"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class Tiny:
    """A recipe, and what an undisturbed training by it left behind."""

    launcher: Launcher
    recipe: Path
    expected: dict[str, Any]
    folder: Path
    """Of the undisturbed training."""
    seconds: float
    events: list[str]
    """The writes of the undisturbed training, in their order."""

    @classmethod
    def make(cls, launcher: Launcher, folder: Path) -> Tiny:
        """Train once, undisturbed."""
        path = folder / "tiny.toml"
        path.write_text(recipe(data_folder(folder / "data")))
        run = folder / "run"
        outcome = launcher.hnets(
            "train", str(path), "--out", "run", folder=folder,
            full_disk={"folder": str(folder), "number": 0, "left": 0, "lasting": False},
        )  # fmt: skip
        assert outcome.code == 0, outcome
        assert not outcome.err, outcome
        events = json.loads(outcome.out[outcome.out.rindex("[") :])
        return cls(launcher, path, traces(run), run, outcome.seconds, events)

    def train(self, folder: Path, *arguments: str, **options: Any) -> Outcome:
        """Train in the folder ``run`` of a folder."""
        arguments = ("train", str(self.recipe), "--out", "run", *arguments)
        return self.launcher.hnets(*arguments, folder=folder, **options)

    def resume(self, folder: Path, **options: Any) -> Outcome:
        """Go on with the training in the folder ``run`` of a folder."""
        return self.train(folder, "--resume", **options)

    def stop_after(self, folder: Path, checkpoints: int) -> Outcome:
        """Train until so many checkpoints are written, and then have no more room on the disk."""
        renames = [n for n, e in enumerate(self.events, 1) if e == f"os.rename {CHECKPOINT}"]
        disk = {
            "folder": str(folder), "number": renames[checkpoints], "left": -1, "lasting": True,
        }  # fmt: skip
        return self.train(folder, full_disk=disk)

    def difference(self, folder: Path) -> str | None:
        """How the training in the folder ``run`` differs from the undisturbed one, if it does."""
        made = traces(folder / "run")
        for name, value in self.expected.items():
            if made.get(name) != value:
                return f"{name}: expected {value}, got {made.get(name)}"
        return None if made.keys() == self.expected.keys() else f"got {sorted(made)}"


def traces(run: Path) -> dict[str, Any]:
    """What a finished training left behind, less its times: every bit of it should be the same."""
    left: dict[str, Any] = {}
    for name in (WEIGHTS, CHECKPOINT):
        for key, value in load_file(run / "seed-1" / name).items():
            left[f"{name} {key}"] = hashlib.sha256(value.tobytes()).hexdigest()
    with (run / "seed-1" / "log.csv").open() as file:
        for number, row in enumerate(csv.DictReader(file), 1):
            left[f"log.csv {number}"] = {k: v for k, v in row.items() if "second" not in k}
    left["result.json"] = json.loads((run / "result.json").read_text())["summary"]
    return left


def unfinished(folder: Path) -> list[str]:
    """Files and folders that only an unfinished write leaves behind."""
    return [str(path) for path in folder.rglob("*") if ".part" in path.name]


def refusal(outcome: Outcome, *codes: int) -> str | None:
    """Why an outcome is not one clear line with one of these exit codes, or None if it is."""
    if outcome.hung:
        return "it hung"
    if outcome.code not in codes:
        return f"exit code {outcome.code}: {outcome.err[-1500:]}"
    lines = outcome.err.splitlines()
    if len(lines) != 1 or not lines[0].startswith("hnets: "):
        return f"not one line of ours on stderr: {outcome.err[-1500:]!r}"
    return None
