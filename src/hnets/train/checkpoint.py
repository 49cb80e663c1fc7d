"""Checkpoints: one sealed safetensors file that is whole at every moment, and never a pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from hnets.errors import InputError
from hnets.files import replacing
from hnets.models._weights import seal
from hnets.train.recipe import Recipe

FILE = "checkpoint.safetensors"
FORMAT = "hnets-checkpoint-2"

Row = dict[str, float]
"""What the log says about one epoch."""


class CheckpointError(InputError):
    """A checkpoint that cannot be read, or is not of this run."""


class Start(NamedTuple):
    """Trained weights that a run begins with: as the user named them, and what the file holds."""

    source: str
    sha256: str


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of an epoch."""

    recipe: Recipe
    seed: int
    history: list[Row]
    """One row per epoch that has ended."""
    seconds: float
    """Time spent on them."""
    state: dict[str, Tensor]
    start: Start | None = None
    """The weights that the run began with; None for random ones."""
    teachers: Mapping[str, Any] = field(default_factory=dict)
    """What is known of the networks that softened its labels, if any did."""


def save(checkpoint: Checkpoint, folder: Path) -> None:
    """Replace the folder's checkpoint by this one."""
    from safetensors.torch import save as to_bytes

    state = {name: value.detach().cpu().clone() for name, value in checkpoint.state.items()}
    names = ("seed", "seconds", "history", "start", "teachers")
    facts = {name: getattr(checkpoint, name) for name in names}
    text = json.dumps({"recipe": checkpoint.recipe.to_dict(), **facts})
    header = {"format": FORMAT, "run": text, "sha256": seal(text, state)}
    with replacing(folder / FILE) as part:
        part.write_bytes(to_bytes(state, header))


def load(folder: Path) -> Checkpoint:
    """The folder's checkpoint, if every bit of it is as it was saved."""
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header.get("format") != FORMAT:
            raise ValueError(f"expected the format {FORMAT}, got {header.get('format')}")
        if header["sha256"] != seal(header["run"], state):
            raise ValueError("its SHA-256 is not that of its content")
        facts = json.loads(header["run"])
        recipe, seed, seconds = Recipe.from_dict(facts["recipe"]), facts["seed"], facts["seconds"]
        if type(seed) is not int or not 0 <= seed < 2**32:
            raise ValueError(f"expected a seed below 2^32, got {seed!r}")
        if not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise ValueError(f"expected seconds from 0 up, got {seconds!r}")
        start = Start(*facts["start"]) if facts.get("start") else None
        history, teachers = _history(facts["history"], recipe), facts.get("teachers") or {}
        if teachers:
            Recipe.from_dict(teachers["recipe"])
        return Checkpoint(recipe, seed, history, seconds, state, start, teachers)
    except FileNotFoundError:
        raise CheckpointError(
            f"there is no checkpoint in {folder}: start without --resume"
        ) from None
    except (SafetensorError, LookupError, OSError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged ({' '.join(str(error).split())}); delete it and start again "
            "without --resume"
        ) from None


def _history(rows: object, recipe: Recipe) -> list[Row]:
    needed = {"epoch", "rate", "loss", "images_per_second", "seconds"}
    needed |= {"val_error", "val_loss"} if recipe.data.val else set()
    if not isinstance(rows, list) or len(rows) > recipe.training.epochs:
        raise ValueError(f"expected a history of at most {recipe.training.epochs} epochs")
    for epoch, row in enumerate(rows, start=1):
        numbers = isinstance(row, dict) and all(type(v) in (int, float) for v in row.values())
        if not numbers or not needed <= row.keys() or row["epoch"] != epoch:
            raise ValueError(f"expected the numbers of epoch {epoch} in its history, got {row!r}")
    return rows


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    return (folder / FILE).exists()


def last_good(folder: Path) -> str:
    """What a run that stops leaves behind, for the end of a sentence."""
    if exists(folder):
        return f"the last good checkpoint is {folder / FILE}"
    return "there was no checkpoint yet"
