"""Results that ship with the package: one JSON file per recipe, as the training wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hnets.errors import InputError
from hnets.train.result import write_json

SHIPPED = Path(__file__).parent / "results"

StoredResult = dict[str, Any]


def read(name: str, folder: Path = SHIPPED) -> StoredResult | None:
    """The result of that name, or None if there is none."""
    path = folder / f"{name}.json"
    try:
        result: StoredResult = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is damaged ({error}); delete it and train again") from None
    return result


def shipped(name: str) -> StoredResult:
    """The result of that name that comes with the package."""
    result = read(name)
    if result is None:
        raise InputError(f"no result of {name} ships: train it with hnets reproduce, and --train")
    return result


def write(result: StoredResult, name: str, folder: Path) -> Path:
    """Put a result in a folder; returns its path."""
    path = folder / f"{name}.json"
    write_json(result, path)
    return path
