"""Files of trained values: written with a card that describes them, and checked when read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from hnets.errors import InputError
from hnets.files import replacing

__all__ = ["available", "describe", "load_into", "mismatch", "pack", "parse", "shapes"]

FOLDER = Path(__file__).parents[1] / "weights"
TOLD = ("options", "recipe", "data", "metrics", "commit")
"""What only those who trained the values can say of them."""


def available(folder: str | os.PathLike[str] | None = None) -> tuple[str, ...]:
    """Names of the models that have weights, in the package or in a folder."""
    files = Path(folder or FOLDER).glob("*.safetensors")
    return tuple(sorted(file.stem for file in files if file.with_suffix(".json").is_file()))


def describe(name: str, folder: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """The card of a model's weights: model, options, recipe, data, metrics, sha256, commit, ..."""
    if name not in available(folder):
        there = ", ".join(available(folder)) or "none yet"
        raise InputError(f"there are no trained weights for {name}; models that have some: {there}")
    path = Path(folder or FOLDER) / f"{name}.json"
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        card = None
    if not isinstance(card, dict) or not {"model", "options", "sha256"} <= card.keys():
        raise InputError(f"{path} is damaged: it describes no weights; install hnets again")
    if card["model"] != name:
        raise InputError(
            f"{path} should describe the weights of {name}, but describes those of {card['model']}"
        )
    return card


def load_into(model: nn.Module, name: str, folder: str | os.PathLike[str] | None = None) -> None:
    """Give a model the trained values of that name, once they are seen to be whole and to fit."""
    card = describe(name, folder)
    path = Path(folder or FOLDER) / f"{name}.safetensors"
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != card["sha256"]:
        raise InputError(
            f"{path} is damaged: its SHA-256 should be {card['sha256']}, got {found}; "
            "install hnets again"
        )
    state = parse(content, path)
    if wrong := mismatch(model, state):
        options = ", ".join(f"{option}={value!r}" for option, value in card["options"].items())
        raise InputError(
            f"the weights of {name} do not fit this {type(model).__name__}: {wrong}; they were "
            f"trained with {options or 'the default options'}, and options that change shapes need "
            "pretrained=False"
        )
    model.load_state_dict(state)


def pack(
    model: nn.Module,
    name: str,
    folder: str | os.PathLike[str],
    info: Mapping[str, Any],
    half: bool = False,
) -> Path:
    """Write a model's values and their card to a folder, for others to load by name.

    The same values give the same bytes. Neither file appears before both are complete.

    Args:
        model: what was trained.
        name: what `hnets.create_model` calls it.
        folder: where to; that of `hnets.weights` itself to ship them.
        info: options (those of `hnets.create_model`), recipe, data, metrics and commit.
        half: keep values in float16, half as many bytes; they are float32 again when loaded.
    """
    from safetensors.torch import save

    if set(info) != set(TOLD):
        raise ValueError(f"info has {', '.join(TOLD)}, got {', '.join(info) or 'nothing'}")
    state = {key: value.detach().cpu().clone() for key, value in model.state_dict().items()}
    if half:
        state = {k: v.half() if v.is_floating_point() else v for k, v in state.items()}
    content = save(state)
    card = {
        "model": name,
        "parameters": sum(p.numel() for p in model.parameters()),
        "sha256": hashlib.sha256(content).hexdigest(),
        **{key: info[key] for key in TOLD},
    }
    text = json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    path = Path(folder) / f"{name}.safetensors"
    with replacing(path) as values, replacing(path.with_suffix(".json")) as description:
        values.write_bytes(content)
        description.write_text(text, encoding="utf-8")
    return path


def parse(content: bytes, path: Path) -> dict[str, Tensor]:
    """The values in the content of a safetensors file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(content)
    except SafetensorError as error:
        raise InputError(f"{path} is not a safetensors file ({error})") from None


def mismatch(model: nn.Module, state: Mapping[str, Tensor]) -> str | None:
    """The first value whose name or shape is not the model's, for a complaint; None if all fit."""
    expected, given = shapes(model.state_dict()), shapes(state)
    for key in [*expected, *given]:
        if key not in given:
            return f"expected {key} of shape {expected[key]}, got none"
        if key not in expected:
            return f"expected no {key}, got one of shape {given[key]}"
        if expected[key] != given[key]:
            return f"expected {key} of shape {expected[key]}, got {given[key]}"
    return None


def shapes(state: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """The shape of every value."""
    return {key: tuple(value.shape) for key, value in state.items()}
