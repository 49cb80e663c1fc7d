"""Score a folder of edge maps of the photographs of BSDS500, on all cores.

A map is a grey PNG of 8 or 16 bits, or an npy file of NumPy.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.data.bsds import Photo
from hnets.devices import cores
from hnets.errors import InputError, reason
from hnets.metrics.berkeley import Counts, Point, Scores, count, summarise
from hnets.metrics.suppression import suppress

HUMAN = Point(recall=0.7240, precision=0.9014)
"""People on the test photographs, each against the others, measured by `benchmarks/berkeley.py`;
the official program marks a recall of 0.7235 and the same precision."""
ENDINGS = (".png", ".npy", ".edges.png")
"""What follows the name of a photograph in the name of its map."""

_NAMED = 12  # files that one error names
_SLACK = 1e-6  # of rounding, below 0 and above 1
_GREY = {"1": 1, "L": 255, "I;16": 65535, "I;16B": 65535, "I": 65535}  # Pillow's modes of a PNG
_INTEGERS = {"bool": 1, "uint8": 255, "uint16": 65535}


@dataclass(frozen=True)
class BenchmarkResult:
    """The scores of maps after one kind of suppression, and the counts per image."""

    suppression: str
    scores: Scores
    images: Mapping[str, Counts]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for a JSON file."""
        return {
            "ods": _as_dict(self.scores.ods),
            "ois": _as_dict(self.scores.ois),
            "ap": self.scores.ap,
            "curve": [_as_dict(point) for point in self.scores.curve],
            "images": {
                name: _as_dict(summarise([counts]).ods) for name, counts in self.images.items()
            },
        }


def _as_dict(point: Point) -> dict[str, float]:
    values = {"f": point.f, "recall": point.recall, "precision": point.precision}
    return values if point.threshold is None else {"threshold": point.threshold, **values}


def score_maps(
    photos: Sequence[Photo],
    maps: Sequence[Path],
    n: int = 99,
    suppressions: Sequence[str] = ("none", "standard"),
    jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> list[BenchmarkResult]:
    """Score the map of each photograph at ``n`` thresholds, once per suppression.

    ``progress`` is called after each photograph. ``jobs`` is by default the number of cores.
    """

    def score(photo: Photo, file: Path) -> list[Counts]:
        soft, truth = read_map(file), photo.boundaries()
        return [count(suppress(soft, name), truth, n) for name in suppressions]

    # Threads are enough: the work is in compiled code that does not hold Python's lock.
    with ThreadPoolExecutor(jobs or cores()) as pool:
        tasks = [pool.submit(score, *each) for each in zip(photos, maps, strict=True)]
        try:
            for task in as_completed(tasks):
                task.result()
                if progress:
                    progress()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    names = [photo.name for photo in photos]
    columns = zip(*(task.result() for task in tasks), strict=True)
    return [
        BenchmarkResult(name, summarise(counts), dict(zip(names, counts, strict=True)))
        for name, counts in zip(suppressions, columns, strict=True)
    ]


def find_maps(folder: str | os.PathLike[str], photos: Sequence[Photo]) -> list[Path]:
    """The file of each photograph's map in a folder, after reading each of them once.

    One error names all that are missing, damaged, or not as large as their photograph.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}; give the one with the maps")
    files = {
        photo: [file for end in ENDINGS if (file := folder / f"{photo.name}{end}").is_file()]
        for photo in photos
    }
    complaints = []
    if missing := [photo.name for photo in photos if not files[photo]]:
        complaints.append(
            f"{len(missing)} of {len(photos)} maps are missing ({_some(missing)}; a map is called "
            f"NAME{', NAME'.join(ENDINGS)})"
        )
    if wrong := [text for photo in photos if (text := _problem(files[photo], photo))]:
        complaints.append(f"{len(wrong)} cannot be used ({_some(wrong)})")
    if complaints:
        raise InputError(f"{folder}: {', and '.join(complaints)}")
    return [files[photo][0] for photo in photos]


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _problem(files: Sequence[Path], photo: Photo) -> str | None:
    """What is wrong with the map of a photograph, if it has one."""
    if len(files) > 1:
        return f"{' and '.join(file.name for file in files)} are maps of one photograph"
    for file in files:
        try:
            shape = read_map(file).shape
        except InputError as error:
            return str(error).replace(str(file), file.name, 1)
        if shape != photo.size:
            height, width = photo.size
            return f"{file.name} is {shape[1]}×{shape[0]} pixels in place of {width}×{height}"
    return None


def read_map(path: str | os.PathLike[str]) -> NDArray[np.float64]:
    """The map of a file, (h, w) in [0, 1]; integers are divided by the largest of their type."""
    path = Path(path)
    try:
        values, scale = _read_npy(path) if path.suffix.lower() == ".npy" else _read_png(path)
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # readers of damaged files raise anything
        raise InputError(f"{path} is not an edge map, or damaged ({reason(error)})") from error
    if values.ndim != 2:
        raise InputError(f"{path} has the shape {values.shape} in place of (height, width)")
    soft = values / scale
    if not ((soft >= -_SLACK) & (soft <= 1 + _SLACK)).all():
        raise InputError(f"{path} has values from {soft.min():g} to {soft.max():g}, not in [0, 1]")
    return np.clip(soft, 0, 1)


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
    if values.dtype.kind != "f" and values.dtype.name not in _INTEGERS:
        raise InputError(f"{path} holds {values.dtype} in place of floats, uint8, uint16 or bool")
    return values.astype(np.float64), _INTEGERS.get(values.dtype.name, 1)
