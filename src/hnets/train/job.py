"""A job: a recipe, its seeds and a folder, as a command begins it or takes it up again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from hnets.errors import InputError
from hnets.studies.svm import train_svm
from hnets.train import checkpoint
from hnets.train.distributed import Team
from hnets.train.loop import Run
from hnets.train.progress import watching
from hnets.train.recipe import Recipe, read_recipe
from hnets.train.record import RESULT, write_json
from hnets.train.report import seeds_of, train_recipe

__all__ = ["Job"]

RUNS = Path("runs")
FILE = "job.json"


@dataclass(frozen=True)
class Job:
    """What `hnets train` does: the seeds of one recipe, in one folder."""

    name: str
    recipe: Recipe
    seeds: int
    folder: Path

    @classmethod
    def begin(
        cls, recipe: str | None, changes: list[str], seeds: int, out: Path | None, resume: bool
    ) -> Job:
        """A new job, or the one in the folder if it is to be resumed.

        Args:
            recipe: a file or the name of a shipped recipe; None for that of the job in the folder.
            changes: ``key=value`` changes to the recipe.
            seeds: how many.
            out: the folder; by default one in ``runs`` with the recipe's name, or the newest.
            resume: whether the folder may hold a job already.
        """
        if recipe is None:
            return cls.take_up(out or _newest(RUNS))
        loaded, name = read_recipe(recipe, changes), Path(recipe).stem
        job = cls(name, loaded, seeds, out or RUNS / name)
        if resume:
            return job
        begun = any(run.folder and checkpoint.exists(run.folder) for run in job.runs)
        if begun or (job.folder / RESULT).exists():
            raise InputError(
                f"{job.folder} already holds a run of {name}: add --resume to go on with it, or "
                "name another folder with --out"
            )
        return job

    @classmethod
    def take_up(cls, folder: Path) -> Job:
        """The job that a folder holds."""
        try:
            told = json.loads((folder / FILE).read_text(encoding="utf-8"))
            recipe = Recipe.from_dict(told["recipe"])
            return cls(str(told["name"]), recipe, int(told["seeds"]), folder)
        except FileNotFoundError:
            raise InputError(
                f"{folder} holds no run to go on with: name its folder with --out, or give a recipe"
            ) from None
        except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder / FILE} is damaged ({error}); give the recipe too: hnets train RECIPE "
                "--resume"
            ) from None

    @property
    def runs(self) -> list[Run]:
        """One for each seed."""
        return seeds_of(self.recipe, self.seeds, self.folder)

    def run(self, team: Team, resume: bool, console: Console) -> dict[str, Any]:
        """Train to the end and write the result."""
        runs = self.runs
        if self.recipe.model.name == "svm":
            console.print("fitting the support vector machine, some minutes")
            result = train_svm(self.recipe, self.name)
            write_json(result, self.folder / RESULT)
            return result
        if team.leads:
            told = {"name": self.name, "recipe": self.recipe.to_dict(), "seeds": self.seeds}
            write_json(told, self.folder / FILE)
        with watching({self.name: runs}, console) as watch:
            return train_recipe(self.recipe, runs, team, self.folder, resume, watch, self.name)


def _newest(folder: Path) -> Path:
    """The job in a folder that was written to last."""
    jobs = [path.parent for path in folder.glob(f"*/{FILE}")]
    if not jobs:
        raise InputError(
            f"there is no run in {folder}{os.sep} to go on with: name its folder with --out, or "
            "give a recipe"
        )
    return max(jobs, key=lambda job: max(p.stat().st_mtime for p in job.rglob("*")))
