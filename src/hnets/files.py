"""Files that appear only when they are complete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["replacing"]


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name to write to; it takes the place of ``path`` when the block ends well.

    A reader never sees half a file, and a failed or killed writer leaves the old one. The folder
    is made if need be.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield part
        with part.open("rb") as written:
            os.fsync(written.fileno())  # a rename may reach the disk before the data does
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
