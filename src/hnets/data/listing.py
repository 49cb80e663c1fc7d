"""Where the images of a split are, in folders or in tar files, and how one is brought to size.

A folder of images has one sub-folder per class. Tar files have the layout of webdataset:
``0001.jpg`` beside ``0001.cls``, which holds the number of its class.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.data.image_file import SUFFIXES, ImageError, read_image
from hnets.errors import InputError, reason

_FACTS = [("label", "<i4"), ("place", "<i4"), ("offset", "<i8"), ("bytes", "<i8"), ("time", "<i8")]
_LABEL = ".cls"
"""The suffix of the file that holds the number of an image's class."""
_LONGEST = 20  # bytes of a number
_SEED = 0
_FEWEST = 3  # images per class: one for each split
_SPLITS = ("train", "val", "test")
FORM = "2"
"""Counts changes of `fit`: decoded images in a cache are those of one of them."""
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """One image file, in a folder or in a tar file."""

    name: str
    label: int
    place: str
    """The folder or the tar file that holds it."""
    bytes: int
    time: int
    """When the file was written last, in nanoseconds."""
    offset: int = -1
    """Where its bytes begin in a tar file."""


class Listing:
    """The image files of one split.

    They are held in one array, which processes that decode images share without copies.
    """

    def __init__(
        self, folder: Path, classes: Iterable[str], entries: list[Entry], others: Iterable[str]
    ) -> None:
        self.folder, self.classes, self.others = folder, tuple(classes), tuple(others)
        self.places = tuple(dict.fromkeys(entry.place for entry in entries))
        index = {place: number for number, place in enumerate(self.places)}
        names = np.array([os.fsencode(entry.name) for entry in entries], np.bytes_)
        facts = [(e.label, index[e.place], e.offset, e.bytes, e.time) for e in entries]
        dtype = [("name", names.dtype if len(names) else "S1"), *_FACTS]
        self._files = np.empty(len(entries), dtype)
        self._files["name"] = names
        for number, (name, _) in enumerate(_FACTS):
            self._files[name] = [fact[number] for fact in facts]

    def __len__(self) -> int:
        return len(self._files)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The index of each image's class in `classes`."""
        return self._files["label"].astype(np.int64)

    @property
    def digest(self) -> str:
        """A SHA-256 of the names, sizes and times of all files."""
        total = hashlib.sha256("\0".join([*self.places, ""]).encode(errors="surrogateescape"))
        total.update(self._files.tobytes())
        return total.hexdigest()

    def decode(self, row: int, size: int, channels: int) -> NDArray[np.uint8]:
        """One image, brought to size by `fit`; an `ImageError` if it cannot be read."""
        file = self._files[row]
        name = os.path.join(self.places[file["place"]], os.fsdecode(file["name"]))
        source: Path | BinaryIO = Path(name)
        if file["offset"] >= 0:
            try:
                with open(self.places[file["place"]], "rb") as tar:
                    tar.seek(file["offset"])
                    source = io.BytesIO(tar.read(file["bytes"]))
            except OSError as error:
                raise ImageError(f"{name} cannot be read ({error.strerror or error})") from None
        return fit(read_image(source, name=name, needed=2 * size), size, channels)


def list_images(folder: Path, parts: list[str]) -> Listing:
    """The images of some splits of a folder, which may hold tar files in place of classes."""
    sharded = any(next(place.glob("*.tar"), None) for place in (folder, folder / "train"))
    return (_list_shards if sharded else _list_folder)(folder, parts)


def _list_folder(folder: Path, parts: list[str]) -> Listing:
    """The images of some splits of a folder, in an order that no file system changes.

    If the folder has the classes' folders within ``train``, ``val`` and ``test``, these are the
    splits. Otherwise a tenth of each class is for ``val``, a tenth for ``test`` and the rest for
    ``train``: the same images as long as their file names are the same. Labels follow the sorted
    names of the classes.
    """
    splits = [name for name in _SPLITS if _folders(folder / name)]
    classes = _folders(folder / splits[0] if splits else folder)
    images, others = list[Entry](), dict[str, None]()  # in order, each once
    for part in parts:
        place = folder / part if splits else folder
        names = _folders(place)
        if len(names) < 2:
            raise InputError(
                f"{place} has {len(names)} sub-folder{'s' * (len(names) != 1)}, and one for each "
                "of at least two classes is needed, or one of images and one of masks"
            )
        if names != classes:
            raise InputError(
                f"{place} has the classes {', '.join(names)} and {splits[0]} has "
                f"{', '.join(classes)}; make them the same"
            )
        for label, name in enumerate(classes):
            files, rest = _files(place / name, label)
            images += files if splits else cut(files, part, place / name)
            others |= dict.fromkeys(rest)
    return Listing(folder, classes, images, others)


def _folders(folder: Path) -> list[str]:
    if not folder.is_dir():
        return []
    return sorted(p.name for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def _files(folder: Path, label: int) -> tuple[list[Entry], list[str]]:
    """The images of a folder, and the paths of its other files."""
    images, others = list[Entry](), list[str]()
    with os.scandir(folder) as files:
        visible = [file for file in files if file.is_file() and not file.name.startswith(".")]
    for file in sorted(visible, key=lambda file: file.name):
        if os.path.splitext(file.name)[1].lower() in SUFFIXES:
            facts = file.stat()
            images.append(Entry(file.name, label, str(folder), facts.st_size, facts.st_mtime_ns))
        else:
            others.append(file.path)
    return images, others


def cut(
    images: Sequence[T],
    part: str,
    folder: Path | str,
    advice: str = "add some, or remove the class",
) -> list[T]:
    """The images of a class, or of a folder without classes, that belong to a split.

    With ``advice`` for where there are too few.
    """
    if len(images) < _FEWEST:
        raise InputError(
            f"{folder} has {len(images)} image{'s' * (len(images) != 1)}, and at least {_FEWEST} "
            f"are needed: one for each of train, val and test; {advice}"
        )
    order = np.random.RandomState(_SEED).permutation(len(images))
    tenth = max(1, round(len(images) / 10))
    chosen = {"val": order[:tenth], "test": order[tenth : 2 * tenth], "train": order[2 * tenth :]}
    return [images[i] for i in sorted(chosen[part])]


def _list_shards(folder: Path, parts: list[str]) -> Listing:
    """The images of some splits of a folder of tar files, in the order of files and of their parts.

    The splits are the tar files within ``train``, ``val`` and ``test`` or whose names begin with
    these words; without any, each class is cut as that of a folder is. Classes are numbers from 0.
    """
    shards = {name: _shards(folder, name) for name in _SPLITS}
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
                elif f".{suffix}" == _LABEL:
                    labels[key] = _label(tar, member, path)
    except (OSError, tarfile.TarError) as error:
        raise InputError(
            f"{path} cannot be read as a tar file without compression ({reason(error)})"
        ) from None
    if bare := next((member.name for key, member in images.items() if key not in labels), None):
        raise InputError(f"{path} has no {_LABEL} beside {bare}; put the number of its class there")
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


def fit(image: Image.Image, size: int, channels: int) -> NDArray[np.uint8]:
    """An image as (channels, size, size), whole and in its proportions.

    The margins at two sides take the median colour of the border.

    >>> fit(Image.new("RGB", (60, 30), "red"), 20, 3).shape
    (3, 20, 20)
    """
    image = image.convert("L" if channels == 1 else "RGB")
    left, top, width, height = frame(image.size, size)
    pixels = np.asarray(image).reshape(image.height, image.width, channels)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    square = np.empty((size, size, channels), np.uint8)
    square[:] = np.median(border, axis=0).round()
    resized = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
    square[top : top + height, left : left + width] = resized.reshape(height, width, channels)
    return np.ascontiguousarray(square.transpose(2, 0, 1))


def frame(sides: tuple[int, int], size: int) -> tuple[int, int, int, int]:
    """Left, top, width and height of an image of ``sides`` (width, height) in a square, by `fit`.

    Margins at opposite sides are equal: an image that is rotated by 90 degrees lies in the square
    as the rotated image does.

    >>> frame((60, 31), 20)
    (0, 5, 20, 10)
    """
    longer = max(sides)
    left, top = (min(round(size * (1 - side / longer) / 2), (size - 1) // 2) for side in sides)
    return left, top, size - 2 * left, size - 2 * top
