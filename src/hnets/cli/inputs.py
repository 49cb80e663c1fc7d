"""Pictures that a user names: files, folders, patterns and stdin; and names for what is made."""

from __future__ import annotations

import glob
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from hnets.errors import InputError

__all__ = ["STDIN", "SUFFIXES", "find_images", "output_names"]

SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".webp", ".gif", ".bmp")
"""By which the pictures of a folder are known."""
STDIN = "-"


def find_images(given: str, skip: Sequence[str] = ()) -> Iterator[Path]:
    """What a user means by a path: a file, the pictures of a folder, or all that fits a pattern.

    Those of a folder come in the order of their names, less the hidden ones and those whose names
    end in one of ``skip``.
    """
    path = Path(given)
    if path.is_dir():
        inside = [file for file in sorted(path.iterdir()) if file.suffix.lower() in SUFFIXES]
        found = [
            f for f in inside if not f.name.startswith(".") and not f.name.endswith(tuple(skip))
        ]
        if not found:
            raise InputError(
                f"there is no picture in the folder {given}; expected files that end in "
                f"{', '.join(SUFFIXES)}"
            )
        yield from found
    elif given == STDIN or path.exists() or not glob.has_magic(given):
        yield path  # whoever opens it says whether it is there
    else:
        found = [Path(match) for match in sorted(glob.glob(given, recursive=True))]
        if not any(file.is_file() for file in found):
            raise InputError(f"there is no file like {given}; give the path of an image")
        yield from (file for file in found if file.is_file())


def output_names(paths: Sequence[Path], folder: Path, endings: Sequence[str]) -> list[str]:
    """A name for what is made of each picture in a folder: NAME of NAME.jpg where it is free.

    No two are the same, on file systems that do not tell upper from lower case too, and with none
    of the endings is one the name of a picture that is read.
    """
    read = {str(path.resolve()).casefold() for path in paths}
    taken, names = set[str](), list[str]()
    for path in paths:
        stem = "stdin" if str(path) == STDIN else path.stem
        for name in chain([stem, path.name], (f"{stem}-{number}" for number in count(2))):
            files = [str((folder / f"{name}{ending}").resolve()).casefold() for ending in endings]
            if name.casefold() not in taken and not read.intersection(files):
                break
        taken.add(name.casefold())
        names.append(name)
    return names
