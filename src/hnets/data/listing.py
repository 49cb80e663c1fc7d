"""Where the images of a split are, and how one of them is brought to size."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.data.image_file import ImageError, read_image

_FACTS = [("label", "<i4"), ("place", "<i4"), ("offset", "<i8"), ("bytes", "<i8"), ("time", "<i8")]


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


def fit(image: Image.Image, size: int, channels: int) -> NDArray[np.uint8]:
    """An image as (channels, size, size), whole and in its proportions.

    The margins at two sides take the median colour of the border.

    >>> fit(Image.new("RGB", (60, 30), "red"), 20, 3).shape
    (3, 20, 20)
    """
    image = image.convert("L" if channels == 1 else "RGB")
    scale = size / max(image.size)
    width, height = (max(1, round(side * scale)) for side in image.size)
    pixels = np.asarray(image).reshape(image.height, image.width, channels)
    border = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
    square = np.empty((size, size, channels), np.uint8)
    square[:] = np.median(border, axis=0).round()
    resized = np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
    top, left = (size - height) // 2, (size - width) // 2
    square[top : top + height, left : left + width] = resized.reshape(height, width, channels)
    return np.ascontiguousarray(square.transpose(2, 0, 1))
