"""What ``hnets edges`` left behind, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from abuse.launcher import Outcome


def check_edges(
    folder: Path, outcome: Outcome, refused: set[str], read: set[str], kinds: int = 1
) -> str | None:
    """What is wrong with a run of ``hnets edges`` over files of which some cannot be read."""
    if outcome.hung:
        return "it hung"
    if outcome.code != (2 if refused else 0):
        return f"exit code {outcome.code}; {outcome.err[-1000:]}"
    lines = outcome.err.splitlines()
    for line in lines:
        if not line.startswith("hnets: "):
            return f"a line of somebody else's on stderr: {line!r}"
    if len(lines) != len(refused):
        return f"{len(refused)} refused, {len(lines)} lines: {outcome.err[-1000:]}"
    for name in refused:
        if not any(name in line for line in lines):
            return f"{name} is not named in {outcome.err[-1000:]}"
    return wrong_outputs(folder, len(read) * kinds)


def wrong_outputs(folder: Path, count: int) -> str | None:
    """What is wrong with the outputs in a folder: too few, too many, or half-written."""
    outputs = [path.name for path in folder.iterdir()] if folder.exists() else []
    if len(outputs) != count:
        return f"expected {count} outputs, got {sorted(outputs)}"
    return damaged(folder)


def damaged(folder: Path) -> str | None:
    """Which file in a folder is not whole, if one is not."""
    for path in sorted(folder.iterdir()) if folder.exists() else []:
        try:
            if path.suffix == ".npz":
                with np.load(path) as arrays:
                    for name in arrays:
                        arrays[name]
            else:
                with Image.open(path) as image:
                    image.load()
        except Exception as error:
            return f"{path.name} is not whole: {error}"
    return None
