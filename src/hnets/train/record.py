"""What a run leaves behind: the log of its epochs, and the result."""

from __future__ import annotations

import csv
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

import hnets
from hnets.files import replacing

__all__ = ["RESULT", "Log", "commit", "summarise", "versions", "write_json"]

RESULT = "result.json"


class Log:
    """The epochs of one run as ``log.csv`` and, where tensorboard is installed, as its events.

    What an interrupted run wrote after its last checkpoint is taken back.
    """

    def __init__(self, folder: Path, history: Sequence[Mapping[str, float]]) -> None:
        self._path, self._empty = folder / "log.csv", True
        self._events: Any = None
        folder.mkdir(parents=True, exist_ok=True)
        self._path.unlink(missing_ok=True)
        for row in history:
            self._append(row)
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            return
        self._events = SummaryWriter(folder / "events", purge_step=len(history) + 1)

    def add(self, row: Mapping[str, float]) -> None:
        """Write down one epoch."""
        self._append(row)
        if self._events is not None:
            for name, value in row.items():
                if name != "epoch":
                    self._events.add_scalar(name, value, int(row["epoch"]))

    def close(self) -> None:
        """Finish the events."""
        if self._events is not None:
            self._events.close()

    def _append(self, row: Mapping[str, float]) -> None:
        with self._path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=list(row))
            if self._empty:
                writer.writeheader()
                self._empty = False
            writer.writerow(row)


def summarise(values: Sequence[float]) -> dict[str, float]:
    """Mean and sample standard deviation.

    >>> summarise([1.0, 2.0, 3.0])
    {'mean': 2.0, 'std': 1.0, 'n': 3}
    """
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {"mean": statistics.fmean(values), "std": spread, "n": len(values)}


def write_json(value: object, path: Path) -> None:
    """Write an object as JSON for people and programs."""
    with replacing(path) as part:
        part.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def versions(device: torch.device) -> dict[str, str]:
    """What the numbers of a result depend on besides the recipe."""
    found = {
        "hnets": hnets.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": "CPU",
    }
    if device.type == "cuda":
        found["device"] = torch.cuda.get_device_name(device)
    return found


def commit() -> str:
    """The commit of the code that runs, with ``+`` if files were changed since, or "unknown".

    Where the code is no checkout, the environment variable ``HNETS_COMMIT`` may name it.
    """
    folder = Path(__file__).parent
    git = ["git", "-C", str(folder)]
    try:
        tracked = [*git, "ls-files", "--error-unmatch", __file__]
        subprocess.run(tracked, check=True, capture_output=True)
        head = subprocess.run(
            [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
        )
        changed = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no", "."],
            check=True,
            capture_output=True,
            text=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("HNETS_COMMIT", "unknown")
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")
