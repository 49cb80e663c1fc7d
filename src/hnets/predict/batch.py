"""Many image files at once: finding them, naming their outputs, and writing their edges.

Nothing here knows of a terminal, and torch is only imported when there is work for it.
"""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, count
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np

from hnets.errors import InputError
from hnets.files import replacing
from hnets.predict.rendering import edges_image, orientation_image, overlay_image

STDIN = "-"
KINDS = {
    "edges": ".edges.png",
    "thin": ".thin.png",
    "orientation": ".orientation.png",
    "overlay": ".overlay.png",
    "npz": ".edges.npz",
}
"""What can be made of an image's edges, and the ending of its file name."""
_FOR_ALL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Failed writes after which it is useless to go on with other files."""


def find_images(
    inputs: Iterable[str], skip: Sequence[str] = ()
) -> tuple[list[Path], list[InputError]]:
    """The images that inputs name, each once, and what is wrong with inputs that name none.

    An input is a file, a folder, a pattern, or - for stdin. The files of a folder come in the order
    of their names, without hidden ones and those whose names end in one of ``skip``.
    """
    paths, errors = dict[str, Path](), list[InputError]()
    for text in inputs:
        try:
            images, expected = _named(text, skip)
        except OSError as error:  # such as a folder that may not be read
            images, expected = [], f"{text} cannot be read ({error.strerror})"
        for path in images:
            paths.setdefault(os.path.realpath(path), path)
        if not images:
            errors.append(InputError(expected))
    return list(paths.values()), errors


def _named(text: str, skip: Sequence[str]) -> tuple[list[Path], str]:
    """The images that an input names, and what is wrong if there are none."""
    path = Path(text)
    if os.path.isdir(path):  # False for a name that is too long, where pathlib raises
        from hnets.data.image_file import SUFFIXES

        images = [
            file
            for file in sorted(path.iterdir())
            if file.suffix.lower() in SUFFIXES
            and not file.name.startswith(".")
            and not file.name.endswith(tuple(skip))
        ]
        ends = ", ".join(SUFFIXES)
        message = f"there is no image in the folder {text}; expected files that end in {ends}"
        return images, message
    if text == STDIN or os.path.lexists(path):
        return [path], ""
    if glob.has_magic(text):
        matches = [Path(match) for match in sorted(glob.glob(text, recursive=True))]
        images = [match for match in matches if match.is_file()]
        return images, f"there is no file like {text}; give the path of an image"
    return [], f"there is no file {text}; give the path of an image"


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


class EdgeWriter:
    """Reads image files, finds their edges and writes them: one network for many files.

    Args:
        kinds: names in `KINDS`.
        scales: that images are resized to; the outputs are averaged.
        device: where the network runs; by default a GPU if there is one.
    """

    def __init__(
        self,
        kinds: Sequence[str] = ("edges",),
        scales: Sequence[float] = (1.0,),
        device: str | None = None,
    ) -> None:
        import torch

        from hnets.predict.edge_detector import EdgeDetector

        self.kinds, self.scales = tuple(kinds), tuple(scales)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.detector = EdgeDetector(device=device)

    def __call__(self, source: Path | BinaryIO, folder: Path, name: str) -> list[Path]:
        """Write the edges of an image file to a folder, as NAME.edges.png and others.

        The folder is made when it is needed; the paths of all files are returned. What is wrong
        with one file is an `InputError`, what others would suffer from too is an `OSError`.
        """
        paths = []
        for kind, save in self._render(source, name):
            paths.append(folder / f"{name}{KINDS[kind]}")
            try:
                with replacing(paths[-1]) as part, part.open("wb") as file:
                    save(file)
            except OSError as error:
                if error.errno in _FOR_ALL:
                    raise
                raise InputError(f"{paths[-1]} cannot be written ({error.strerror})") from None
        return paths

    def write_to(self, file: IO[bytes], source: Path | BinaryIO, name: str) -> None:
        """Write the edges of an image file to an open file, one kind after the other."""
        for _, save in self._render(source, name):
            try:
                save(file)
                file.flush()  # a full disk is an error here, not at the end of the process
            except OSError as error:
                raise OSError(error.errno, error.strerror, file.name) from None

    def _render(
        self, source: Path | BinaryIO, name: str
    ) -> Iterator[tuple[str, Callable[[IO[bytes]], None]]]:
        """What writes each kind to a file, one at a time, since images may be large."""
        from hnets.data.image_file import LARGEST, read_image
        from hnets.predict.edge_detector import suppress_edges

        label = str(source) if isinstance(source, Path) else name
        image = np.asarray(read_image(source, smallest=1, largest=2 * LARGEST, name=label))
        if {"thin", "orientation", "npz"}.isdisjoint(self.kinds):
            strength = angle = self.detector(image, self.scales)  # no kind needs the angle
        else:
            strength, angle = self.detector.oriented(image, self.scales)
        images = {
            "edges": lambda: edges_image(strength),
            "thin": lambda: edges_image(suppress_edges(strength, angle)),
            "orientation": lambda: orientation_image(strength, angle),
            "overlay": lambda: overlay_image(image, strength),
        }
        for kind in self.kinds:
            if kind == "npz":
                yield kind, partial(np.savez, magnitude=strength, angle=angle)
            else:
                yield kind, partial(images[kind]().save, format="PNG")
