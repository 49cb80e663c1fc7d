"""Images that a user names: files, folders, patterns and stdin; and names for their outputs."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from hnets.errors import InputError

__all__ = ["STDIN", "find_all", "find_images", "output_names"]

STDIN = "-"


def find_all(
    inputs: Iterable[str], complain: Callable[[str], None], skip: Sequence[str] = ()
) -> tuple[list[Path], int]:
    """The images that some inputs name, each once, and how many inputs name none.

    ``complain`` is called with what is wrong with those.
    """
    paths, wrong = dict[str, Path](), 0
    for text in inputs:
        try:
            for path in find_images(text, skip):
                paths.setdefault(os.path.realpath(path), path)
        except InputError as error:
            complain(str(error))
            wrong += 1
    return list(paths.values()), wrong


def find_images(text: str, skip: Sequence[str] = ()) -> Iterator[Path]:
    """What a user means by a path: a file, the images of a folder, or all that match a pattern.

    The files of a folder come in the order of their names, without hidden ones and those whose
    names end in one of ``skip``.
    """
    from hnets.data.image_file import SUFFIXES

    path = Path(text)
    if os.path.isdir(path):  # False for a name that is too long, where pathlib raises
        images = [
            file
            for file in sorted(path.iterdir())
            if file.suffix.lower() in SUFFIXES
            and not file.name.startswith(".")
            and not file.name.endswith(tuple(skip))
        ]
        if not images:
            raise InputError(
                f"there is no image in the folder {text}; expected files that end in "
                f"{', '.join(SUFFIXES)}"
            )
        yield from images
    elif text == STDIN or os.path.lexists(path):
        yield path
    elif glob.has_magic(text):
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True))]
        if not any(file.is_file() for file in matches):
            raise InputError(f"there is no file like {text}; give the path of an image")
        yield from (file for file in matches if file.is_file())
    else:
        raise InputError(f"there is no file {text}; give the path of an image")


def output_names(paths: Sequence[Path], folder: Path, endings: Sequence[str]) -> list[str]:
    """A name for the output of each image in a folder: NAME of NAME.jpg where it is free.

    No two are the same, also on file systems that ignore case, and none with one of the endings is
    the name of an input.
    """
    inputs = {os.path.realpath(path).casefold() for path in paths}
    taken, names = set[str](), list[str]()
    for path in paths:
        stem = "stdin" if str(path) == STDIN else path.stem
        for name in chain([stem, path.name], (f"{stem}-{number}" for number in count(2))):
            files = [os.path.realpath(folder / f"{name}{ending}").casefold() for ending in endings]
            if name.casefold() not in taken and not inputs.intersection(files):
                break
        taken.add(name.casefold())
        names.append(name)
    return names
