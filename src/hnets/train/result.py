"""Results: trained networks, their errors, and the file that records them."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import hnets
from hnets.data import Dataset, Streamed, available
from hnets.errors import InputError
from hnets.files import replacing
from hnets.models import save
from hnets.models._weights import WEIGHTS, remember_training
from hnets.train.checkpoint import Row
from hnets.train.distributed import Team
from hnets.train.run import RESULT, Run, writing
from hnets.train.task import (
    Classification,
    Errors,
    Segmentation,
    SegmentationErrors,
    calibrated,
    precision_on,
)


@dataclass(frozen=True)
class Result:
    """A run after its last epoch, and its network in evaluation mode."""

    run: Run
    model: nn.Module
    history: list[Row]
    seconds: float

    def evaluate(self) -> dict[str, Errors]:
        """The errors by split; here, and nowhere else, is the test set evaluated.

        A threshold for pixels is chosen on the validation split, or else on the training split.
        """
        recipe, tasks = self.run.recipe, self.run.tasks
        chosen = recipe.data.val or recipe.data.train
        first = tasks[chosen].evaluate(self.model)
        errors = {
            split: first if split == chosen else calibrated(task, first).evaluate(self.model)
            for split, task in tasks.items()
        }
        if recipe.data.test and recipe.evaluation.views:
            task = self.run.tasks[recipe.data.test]
            errors[f"{recipe.data.test}, averaged"] = task.evaluate(
                self.model, recipe.evaluation.views
            )
        return errors


class Diverged(InputError):
    """The loss of some ``runs`` became NaN or infinite; ``results`` are those of the others."""

    def __init__(self, message: str, runs: Sequence[Run], results: list[Result]) -> None:
        super().__init__(message)
        self.runs, self.results = runs, results


def report(results: Sequence[Result], team: Team, out: Path | None = None) -> dict[str, Any]:
    """The content of ``result.json`` for the runs of one recipe, written to ``out`` if given.

    The weights of each run are written to its folder.
    """
    run = results[0].run
    seeds = list[dict[str, Any]]()
    for result in results:
        errors = result.evaluate()
        if result.run.folder is not None and team.leads:
            remember_training(result.model, _trained(result.run, errors))
            with writing(result.run.folder):
                save(result.model, result.run.folder / WEIGHTS)
        seeds.append(
            {
                "seed": result.run.seed,
                "epochs": len(result.history),
                "seconds": round(result.seconds, 1),
                "errors": {split: dataclasses.asdict(each) for split, each in errors.items()},
            }
        )

    def summary(kind: str) -> dict[str, dict[str, float]]:
        splits = seeds[0]["errors"]
        return {split: summarise([one["errors"][split][kind] for one in seeds]) for split in splits}

    content: dict[str, Any] = {
        "name": run.name,
        "recipe": run.recipe.to_dict(),
        "from": run.start._asdict() if run.start is not None else None,
        **({"teachers": run.teachers} if run.teachers else {}),
        "parameters": sum(p.numel() for p in results[0].model.parameters()),
        "data": {
            split: {"images": len(data), "sha256": data.digest} for split, data in run.data.items()
        },
        "commit": commit(),
        "versions": versions(team.device),
        "precision": precision_on(team.device, run.recipe),
        "seeds": seeds,
        "summary": summary("error"),
    }
    if all(isinstance(task, Classification) for task in run.tasks.values()):
        content["log_loss"] = summary("loss")
    learned = run.data[run.recipe.data.train]
    if isinstance(learned, Dataset | Streamed):
        content["classes"] = list(learned.classes)
    if all(isinstance(task, Segmentation) for task in run.tasks.values()):
        content |= {"auc": summary("auc"), "f1": summary("f1")}
    if team.leads and out is not None:
        with writing(run.folder or out):
            write_json(content, out / RESULT)
    return content


def _trained(run: Run, errors: Mapping[str, Errors]) -> dict[str, Any]:
    """What `hnets.predict` has to know of a network that learned from a folder of images."""
    recipe, learned = run.recipe.data, run.data[run.recipe.data.train]
    if recipe.name in available():
        return {}  # images of a named set are prepared in its own way
    channels, size = run.tasks[recipe.train].images.shape[1:3]
    trained: dict[str, Any] = {"size": size, "channels": channels}
    if isinstance(learned, Dataset | Streamed):
        return {**trained, "classes": list(learned.classes)}
    chosen = errors[recipe.val or recipe.train]
    assert isinstance(chosen, SegmentationErrors)
    return {**trained, "threshold": chosen.threshold}


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Mean and sample standard deviation.

    >>> summarise([1.0, 2.0, 3.0])
    {'mean': 2.0, 'std': 1.0, 'n': 3}
    """
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "std": spread, "n": len(values)}


def mean_and_spread(summary: Mapping[str, float], digits: int = 2) -> str:
    """A mean with its standard deviation, if there is more than one value.

    >>> mean_and_spread({"mean": 1.5, "std": 0.25, "n": 5}), mean_and_spread({"mean": 2, "n": 1})
    ('1.50 ± 0.25', '2.00')
    """
    spread = f" ± {summary['std']:.{digits}f}" if summary["n"] > 1 else ""
    return f"{summary['mean']:.{digits}f}{spread}"


def error_lines(content: Mapping[str, Any]) -> list[str]:
    """The errors of a report, for people; for classes also the log loss, their cross-entropy.

    For pixels also the AUC and F1.

    >>> one = {"mean": 1.5, "n": 1}
    >>> error_lines({"summary": {"test": one}, "log_loss": {"test": one}})
    ['      test error  1.50 %, log loss 1.500']
    """
    lines = []
    for split, errors in content["summary"].items():
        line = f"{split:>10} error  {mean_and_spread(errors)} %"
        if loss := content.get("log_loss", {}).get(split):
            line += f", log loss {mean_and_spread(loss, 3)}"
        if auc := content.get("auc", {}).get(split):
            f1 = content["f1"][split]
            line += f", AUC {mean_and_spread(auc, 4)}, F1 {mean_and_spread(f1, 4)}"
        lines.append(line)
    return lines


def write_json(value: object, path: Path) -> None:
    """Write an object as JSON for people and programs."""
    with replacing(path) as part:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        # A class may have the name of a folder that is not UTF-8: JSON has an escape for its bytes.
        part.write_text(text, encoding="utf-8", errors="backslashreplace")


def versions(device: torch.device) -> dict[str, str]:
    """What the numbers of a result depend on besides the recipe."""
    cuda = device.type == "cuda"
    return {
        "hnets": hnets.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": torch.cuda.get_device_name(device) if cuda else "CPU",
    }


def commit() -> str:
    """The commit of the code that runs, with ``+`` if files were changed since, or "unknown".

    Where the code is no checkout, the environment variable ``HNETS_COMMIT`` may name it.
    """

    def git(*arguments: str) -> str:
        # Without a lock, which a kill in this moment would leave in the repository.
        command = ["git", "--no-optional-locks", "-C", str(Path(hnets.__file__).parent), *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", hnets.__file__)
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("HNETS_COMMIT", "unknown")
