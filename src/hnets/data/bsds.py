"""BSDS500: photographs, and the boundaries that several people drew in each of them.

The folder is the official one, `BSDS500/data`, with `images/{train,val,test}/NAME.jpg` and
`groundTruth/{train,val,test}/NAME.mat` (Arbelaez et al., 2011; for research).

```python
for photo in photos("test"):
    photo.name, photo.image(), photo.boundaries()  # (h, w, 3) uint8, (people, h, w) bool
```
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.data.cache import folders
from hnets.data.dataset import check_split
from hnets.data.image_file import read_image
from hnets.errors import InputError, MissingExtra

__all__ = ["SIZES", "Photo", "photos"]

SIZES = {"train": 200, "val": 100, "test": 200}
_AGAIN = "get BSDS500 again from its source"


@dataclass(frozen=True)
class Photo:
    """A photograph and what people saw in it; files are read when they are asked for."""

    name: str
    split: str
    image_path: Path
    truth_path: Path

    @property
    def size(self) -> tuple[int, int]:
        """Height and width, from the head of the file."""
        try:
            with Image.open(self.image_path) as opened:
                return opened.height, opened.width
        except OSError:
            raise InputError(f"{self.image_path} is no JPEG picture; {_AGAIN}") from None

    def image(self) -> NDArray[np.uint8]:
        """The colours, (height, width, 3)."""
        return np.array(read_image(self.image_path))

    def boundaries(self) -> NDArray[np.bool_]:
        """Where each person drew a boundary, (people, height, width)."""
        return self._truth("Boundaries") != 0

    def segmentations(self) -> NDArray[np.uint16]:
        """The number of the region that each person saw a pixel in, (people, height, width)."""
        return self._truth("Segmentation").astype(np.uint16)

    def _truth(self, field: str) -> NDArray[Any]:
        try:
            from scipy.io import loadmat
        except ImportError:
            raise MissingExtra("the boundaries of BSDS500", "scipy", "bench") from None
        try:
            people = loadmat(self.truth_path, variable_names=["groundTruth"])["groundTruth"]
            found = np.stack([person[field][0, 0] for person in people.ravel()])
            if found.shape[1:] != self.size or found.dtype.kind not in "bu":
                raise ValueError(f"{field} is {found.dtype} of shape {found.shape}")
        except OSError as error:
            if error.strerror:
                raise  # the file may not be read, and the error says why
            raise self._damaged(error) from error
        except Exception as error:  # readers of damaged files raise anything
            raise self._damaged(error) from error
        return found

    def _damaged(self, error: Exception) -> InputError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return InputError(
            f"{self.truth_path} does not hold the boundaries of {self.image_path.name} ({reason}); "
            f"{_AGAIN}"
        )


def photos(split: str = "test", root: str | os.PathLike[str] | None = None) -> tuple[Photo, ...]:
    """The photographs of ``train``, ``val``, ``train+val`` or ``test``, sorted by name.

    They are looked for in ``root``, or in the folder that the environment variable ``HNETS_DATA``
    names, and then in the user's cache. A set that is not whole is refused: scores on a part of it
    cannot be compared.
    """
    data = _find(root)
    return tuple(photo for part in check_split(split).split("+") for photo in _listed(data, part))


def _find(root: str | os.PathLike[str] | None) -> Path:
    places = folders(root)
    for folder in places:
        for data in (folder / "BSDS500/data", folder / "BSR/BSDS500/data"):  # or as it is unpacked
            if os.path.isdir(data):
                return data
    raise InputError(
        f"BSDS500 is not here: put its folder BSDS500/data into {places[0]}, or set HNETS_DATA to "
        "the folder that has it"
    )


def _listed(data: Path, split: str) -> list[Photo]:
    images = _stems(data / "images" / split, ".jpg")
    truths = _stems(data / "groundTruth" / split, ".mat")
    alone = sorted(images.keys() ^ truths.keys())
    if alone:
        what = "boundaries" if alone[0] in images else "photograph"
        raise InputError(
            f"BSDS500 {split} in {data} lacks the {what} of {alone[0]}"
            f"{f' and {len(alone) - 1} more' if alone[1:] else ''}; {_AGAIN}"
        )
    if len(images) != SIZES[split]:
        raise InputError(
            f"BSDS500 {split} in {data} has {len(images)} photographs in place of {SIZES[split]}; "
            f"{_AGAIN}"
        )
    return [Photo(name, split, images[name], truths[name]) for name in sorted(images)]


def _stems(folder: Path, suffix: str) -> dict[str, Path]:
    try:
        return {path.stem: path for path in folder.iterdir() if path.suffix.lower() == suffix}
    except FileNotFoundError:
        raise InputError(f"there is no folder {folder}; {_AGAIN}") from None
