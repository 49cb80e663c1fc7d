"""Images in tar files, in the layout of webdataset: ``0001.jpg`` beside ``0001.cls``, its class."""

from __future__ import annotations

import functools
import os
import tarfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hnets.data.image_file import SUFFIXES
from hnets.data.image_folder import cut
from hnets.data.listing import Entry, Listing
from hnets.errors import InputError, reason

LABEL = ".cls"
"""The suffix of the file that holds the number of an image's class."""
_LONGEST = 20  # bytes of a number


def is_sharded(folder: Path) -> bool:
    """Whether a folder, or its folder ``train``, holds tar files."""
    return any(next(place.glob("*.tar"), None) for place in (folder, folder / "train"))


def list_shards(folder: Path, parts: list[str]) -> Listing:
    """The images of some splits of a folder of tar files, in the order of files and of their parts.

    The splits are the tar files within ``train``, ``val`` and ``test`` or whose names begin with
    these words; without any, each class is cut as that of a folder is. Classes are numbers from 0.
    """
    shards = {name: _shards(folder, name) for name in ("train", "val", "test")}
    if any(shards.values()):
        images = {
            name: [image for path in paths for image in _index(path)]
            for name, paths in shards.items()
        }
    else:
        classes = defaultdict[int, list[Entry]](list)
        for path in sorted(folder.glob("*.tar")):
            for image in _index(path):
                classes[image.label].append(image)
        images = {
            name: [
                image
                for label in sorted(classes)
                for image in cut(classes[label], name, f"class {label} of {folder}")
            ]
            for name in shards
        }
    chosen = list[Entry]()
    for part in parts:
        if not images[part]:
            raise InputError(f"{folder} has no images for {part}; add {part}-0000.tar")
        chosen += images[part]
    count = 1 + max(image.label for entries in images.values() for image in entries)
    if count < 2:
        raise InputError(f"{folder} has one class, and at least two are needed")
    return Listing(folder, map(str, range(count)), chosen, [])


def _shards(folder: Path, part: str) -> list[Path]:
    paths = [*(folder / part).glob("*.tar"), *folder.glob(f"{part}[!a-zA-Z]*.tar")]
    return sorted(path for path in paths if not path.name.startswith("."))


def _index(path: Path) -> list[Entry]:
    """The images of a tar file with their labels, in its order."""
    facts = path.stat()
    return [
        Entry(os.fsdecode(name), label, str(path), size, facts.st_mtime_ns, offset)
        for name, label, size, offset in _read(path, facts.st_size, facts.st_mtime_ns).tolist()
    ]


@functools.cache
def _read(path: Path, size: int, time: int) -> NDArray[np.void]:
    """The names, labels, sizes and offsets of the images of a tar file, which is read once only."""
    images, labels = dict[str, tarfile.TarInfo](), dict[str, int]()
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                folder, _, name = member.name.rpartition("/")
                stem, _, suffix = name.partition(".")
                key = f"{folder}/{stem}"
                if not member.isfile() or not stem:
                    continue
                if f".{suffix.lower()}" in SUFFIXES:
                    images[key] = member
                elif f".{suffix}" == LABEL:
                    labels[key] = _label(tar, member, path)
    except (OSError, tarfile.TarError) as error:
        raise InputError(
            f"{path} cannot be read as a tar file without compression ({reason(error)})"
        ) from None
    if bare := next((member.name for key, member in images.items() if key not in labels), None):
        raise InputError(f"{path} has no {LABEL} beside {bare}; put the number of its class there")
    rows = [
        (os.fsencode(member.name), labels[key], member.size, member.offset_data)
        for key, member in images.items()
    ]
    longest = max((len(row[0]) for row in rows), default=1)
    return np.array(rows, [("name", f"S{longest}"), ("label", "i4"), ("size", "i8"), ("at", "i8")])


def _label(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> int:
    file = tar.extractfile(member)
    text = (file.read(_LONGEST) if file else b"").strip()
    if not text.isdigit() or len(text) > 6:
        raise InputError(f"{path} has {text!r} in {member.name}; expected a class from 0 up")
    return int(text)
