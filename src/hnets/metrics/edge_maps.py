"""Soft boundary maps in files: grey PNG of 8 or 16 bits, or NumPy's npy."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.data.bsds import Photo
from hnets.errors import InputError

__all__ = ["ENDINGS", "find_maps", "read_map"]

ENDINGS = (".png", ".npy", ".edges.png")
"""What follows the name of a photograph in the name of its map."""

_NAMED = 12
_SLACK = 1e-6  # of rounding, below 0 and above 1
_GREY = {"1": 1, "L": 255, "I;16": 65535, "I;16B": 65535, "I": 65535}  # Pillow's modes of a PNG
_WHOLE = {"bool": 1, "uint8": 255, "uint16": 65535}


def read_map(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """The map of a file, (h, w) in [0, 1]; whole numbers are divided by the largest there are."""
    path = Path(path)
    try:
        values, scale = _read_npy(path) if path.suffix.lower() == ".npy" else _read_png(path)
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # readers of damaged files raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is no map, or damaged ({reason})") from error
    if values.ndim != 2:
        raise InputError(f"{path} has the shape {values.shape} in place of (height, width)")
    soft = values / scale
    if not ((soft >= -_SLACK) & (soft <= 1 + _SLACK)).all():
        raise InputError(f"{path} has values from {soft.min():g} to {soft.max():g}, not in [0, 1]")
    return np.clip(soft, 0, 1)


def find_maps(folder: str | os.PathLike[str], photos: Sequence[Photo]) -> list[Path]:
    """The file of each photograph's map in a folder, all of them read once to see that they can be.

    One error names all that are missing, not as large as their photograph, or damaged.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give the one with the maps")
    found = {
        photo.name: [file for end in ENDINGS if (file := folder / f"{photo.name}{end}").is_file()]
        for photo in photos
    }
    complaints = []
    missing = [name for name, files in found.items() if not files]
    if missing:
        complaints.append(
            f"{len(missing)} of {len(photos)} maps are missing ({_some(missing)}; a map is called "
            f"NAME{', NAME'.join(ENDINGS)})"
        )
    wrong = [said for photo in photos if (said := _wrong(found[photo.name], photo))]
    if wrong:
        complaints.append(f"{len(wrong)} cannot be used ({_some(wrong)})")
    if complaints:
        raise InputError(f"{folder}: {', and '.join(complaints)}")
    return [found[photo.name][0] for photo in photos]


def _wrong(files: list[Path], photo: Photo) -> str | None:
    """What is wrong with the map of a photograph, if there is one."""
    if not files:
        return None
    if len(files) > 1:
        return f"{' and '.join(file.name for file in files)} are maps of one photograph"
    try:
        shape = read_map(files[0]).shape
    except InputError as error:
        return str(error).replace(str(files[0]), files[0].name, 1)
    if shape != photo.size:
        height, width = photo.size
        return f"{files[0].name} is {shape[1]}×{shape[0]} pixels in place of {width}×{height}"
    return None


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _read_png(path: Path) -> tuple[NDArray[np.float64], int]:
    with Image.open(path, formats=["PNG"]) as opened:
        if opened.mode not in _GREY:
            raise InputError(
                f"{path} is in colour or transparent ({opened.mode}) in place of grey, "
                "with 8 or 16 bits"
            )
        return np.asarray(opened, dtype=np.float64), _GREY[opened.mode]


def _read_npy(path: Path) -> tuple[NDArray[np.float64], int]:
    with path.open("rb") as file:  # opened here, since NumPy leaves a damaged file open
        values = np.lib.format.read_array(file, allow_pickle=False)
    if values.dtype.kind != "f" and values.dtype.name not in _WHOLE:
        raise InputError(f"{path} holds {values.dtype} in place of floats, uint8, uint16 or bool")
    return values.astype(np.float64), _WHOLE.get(values.dtype.name, 1)
