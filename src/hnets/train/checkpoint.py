"""Checkpoints: one safetensors file that is whole at every moment, and never a pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from hnets.errors import InputError
from hnets.files import replacing

__all__ = ["FILE", "Checkpoint", "CheckpointError", "Row", "exists", "kept", "load", "save"]

FILE = "checkpoint.safetensors"
FORMAT = "hnets-checkpoint-1"

Row = dict[str, float]
"""What the log says about one epoch."""


class CheckpointError(InputError):
    """A checkpoint that cannot be read, or is not of this run."""


@dataclass(frozen=True)
class Checkpoint:
    """A run at the end of an epoch."""

    recipe: dict[str, Any]
    seed: int
    history: list[Row]
    """One row per epoch that has ended."""
    seconds: float
    """Time spent on them."""
    state: dict[str, Tensor]


def save(checkpoint: Checkpoint, folder: Path) -> None:
    """Replace the folder's checkpoint by this one."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    values = {
        "format": FORMAT,
        "recipe": json.dumps(checkpoint.recipe),
        "seed": str(checkpoint.seed),
        "history": json.dumps(checkpoint.history),
        "seconds": repr(checkpoint.seconds),
    }
    tensors = {name: value.detach().cpu().clone() for name, value in checkpoint.state.items()}
    with replacing(folder / FILE) as part:
        try:
            save_file(tensors, part, metadata=values)
        except SafetensorError as error:  # its own name for a full disk
            raise OSError(None, " ".join(str(error).split()), str(folder / FILE)) from None


def load(folder: Path) -> Checkpoint:
    """The folder's checkpoint."""
    from safetensors import SafetensorError, safe_open

    path = folder / FILE
    try:
        with safe_open(path, framework="pt") as file:
            values = file.metadata() or {}
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if values.get("format") != FORMAT:
            raise CheckpointError(
                f"{path} is not a checkpoint of a training run; expected the format {FORMAT}, got "
                f"{values.get('format')}"
            )
        return Checkpoint(
            json.loads(values["recipe"]),
            int(values["seed"]),
            json.loads(values["history"]),
            float(values["seconds"]),
            state,
        )
    except FileNotFoundError:
        raise CheckpointError(
            f"there is no checkpoint in {folder}: start without --resume"
        ) from None
    except (SafetensorError, KeyError, OSError, json.JSONDecodeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(
            f"{path} is damaged ({reason}); delete it and start again without --resume"
        ) from None


def exists(folder: Path) -> bool:
    """Whether there is a checkpoint in a folder."""
    return (folder / FILE).exists()


def kept(folder: Path) -> str:
    """What a run that stops leaves behind, for the end of a sentence."""
    if exists(folder):
        return f"the last good checkpoint is {folder / FILE}"
    return "there was no checkpoint yet"
