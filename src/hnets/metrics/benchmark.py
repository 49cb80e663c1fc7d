"""Score soft maps of the photographs of BSDS500, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hnets.data.bsds import Photo
from hnets.metrics.berkeley import Counts, Point, Scores, count, summarise
from hnets.metrics.edge_maps import read_map
from hnets.metrics.suppression import suppress

__all__ = ["HUMAN", "Result", "benchmark", "cores"]

HUMAN = Point(recall=0.7240, precision=0.9014)
"""People on the test photographs, each against the others, measured by `benchmarks/boundaries.py`;
the official programme marks a recall of 0.7235 and the same precision."""


@dataclass(frozen=True)
class Result:
    """The scores of maps after one kind of suppression, and the counts of each image."""

    suppression: str
    scores: Scores
    images: Mapping[str, Counts]

    def facts(self) -> dict[str, Any]:
        """Everything, for a JSON file."""
        return {
            "ods": _facts(self.scores.ods),
            "ois": _facts(self.scores.ois),
            "ap": self.scores.ap,
            "curve": [_facts(point) for point in self.scores.curve],
            "images": {
                name: _facts(summarise([counts]).ods) for name, counts in self.images.items()
            },
        }


def benchmark(
    photos: Sequence[Photo],
    maps: Sequence[Path],
    n: int = 99,
    suppressions: Sequence[str] = ("none", "standard"),
    jobs: int | None = None,
    progress: Callable[[], None] | None = None,
) -> list[Result]:
    """Score the map of each photograph at ``n`` thresholds, once for each suppression.

    ``progress`` is called after each photograph.
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
        Result(name, summarise(counts), dict(zip(names, counts, strict=True)))
        for name, counts in zip(suppressions, columns, strict=True)
    ]


def cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _facts(point: Point) -> dict[str, float]:
    facts = {"f": point.f, "recall": point.recall, "precision": point.precision}
    return facts if point.threshold is None else {"threshold": point.threshold, **facts}
