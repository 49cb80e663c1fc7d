"""The Berkeley benchmark of boundary detection: ODS, OIS and AP as its official programme has them.

A soft map in [0, 1] is cut at each threshold and thinned, and its pixels are matched one to one
with those of each annotator in turn, within 0.0075 of the image's diagonal. A pixel is right if any
annotator's matches it (precision); each annotator's pixels are to be found (recall, summed over
annotators). Over all images,

- ODS is the best F-measure with one threshold for all, on straight lines between the thresholds,
- OIS is the F-measure with the best threshold of each image,
- AP is the area below the precision-recall curve, at recalls 0, 0.01 … 1.

```python
counts = [count(soft, photo.boundaries()) for soft, photo in ...]
summarise(counts).ods.f
```
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.errors import InputError
from hnets.metrics.matching import Matcher
from hnets.metrics.skeleton import thin

__all__ = ["DISTANCE", "Counts", "Point", "Scores", "count", "count_human", "summarise"]

DISTANCE = 0.0075
"""How far apart matched pixels may be, as a part of the diagonal."""
_BETWEEN = np.linspace(0, 1, 100)


@dataclass(frozen=True)
class Counts:
    """Pixels of an image, or of many, at each threshold.

    >>> both = Counts(*np.array([[6], [8], [3], [4]])) + Counts(*np.array([[0], [2], [0], [0]]))
    >>> both.recall, both.precision
    (array([0.6]), array([0.75]))
    """

    found: NDArray[np.int64]
    """Pixels of annotators that were matched, over all annotators."""
    wanted: NDArray[np.int64]
    """All pixels of annotators."""
    right: NDArray[np.int64]
    """Pixels of the map that an annotator's matched."""
    drawn: NDArray[np.int64]
    """All pixels of the map, thinned."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.found + other.found,
            self.wanted + other.wanted,
            self.right + other.right,
            self.drawn + other.drawn,
        )

    def at(self, k: int) -> Counts:
        """The counts at one threshold, the ``k``-th."""
        return Counts(*(a[k : k + 1] for a in (self.found, self.wanted, self.right, self.drawn)))

    @property
    def recall(self) -> NDArray[np.float64]:
        """The part of the annotators' pixels that was found; 0 where there are none."""
        return self.found / np.maximum(self.wanted, 1)

    @property
    def precision(self) -> NDArray[np.float64]:
        """The part of the map's pixels that is right; 0 where there are none."""
        return self.right / np.maximum(self.drawn, 1)


@dataclass(frozen=True)
class Point:
    """A place on the precision-recall curve; without a threshold where each image has its own."""

    recall: float
    precision: float
    threshold: float | None = None

    @property
    def f(self) -> float:
        """The F-measure, the harmonic mean of precision and recall.

        >>> Point(recall=0.5, precision=1).f
        0.6666666666666666
        """
        total = self.recall + self.precision
        return 2 * self.recall * self.precision / total if total else 0.0


@dataclass(frozen=True)
class Scores:
    """The scores of a detector on a set of images, and the curve that they come from."""

    ods: Point
    ois: Point
    ap: float
    curve: tuple[Point, ...]


def thresholds(n: int = 99) -> NDArray[np.float64]:
    """``n`` equally spaced thresholds between 0 and 1.

    >>> thresholds(3)
    array([0.25, 0.5 , 0.75])
    """
    return np.arange(1, n + 1) / (n + 1)


def count(soft: ArrayLike, boundaries: ArrayLike, n: int = 99) -> Counts:
    """The counts of a soft map (h, w) at ``n`` thresholds, against annotators' (people, h, w)."""
    values = np.ascontiguousarray(soft, dtype=np.float64)
    truth = np.ascontiguousarray(boundaries, dtype=bool)
    if values.ndim != 2 or truth.ndim != 3 or truth.shape[1:] != values.shape:
        raise InputError(
            "a map (h, w) is compared with boundaries (people, h, w), got shapes "
            f"{values.shape} and {truth.shape}"
        )
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("a map has values in [0, 1], got others")
    matcher = Matcher(values.shape, DISTANCE * math.hypot(*values.shape))
    people = [matcher.pixels(person) for person in truth]
    table = np.zeros((4, n), np.int64)
    covered = -1
    for k, level in enumerate(thresholds(n)):
        mask = values >= level
        if mask.sum() == covered:  # the same pixels as before: there is nothing new to match
            table[:, k] = table[:, k - 1]
            continue
        covered = mask.sum()
        ours = matcher.pixels(thin(mask))
        right = np.zeros(len(ours.places), bool)
        for person, theirs in enumerate(people):
            one, two = matcher.match(ours, theirs, seed=k * len(people) + person)
            right[one] = True
            table[0, k] += len(two)
        table[1:, k] = truth.sum(), right.sum(), len(right)
    return Counts(*table)


def count_human(boundaries: ArrayLike) -> Counts:
    """The counts of each annotator against the others, summed: how well people agree."""
    truth = np.asarray(boundaries, dtype=bool)
    if len(truth) < 2:
        raise InputError(f"people are compared with one another, got {len(truth)} of them")
    counts = [count(truth[k], np.delete(truth, k, axis=0), n=1) for k in range(len(truth))]
    return sum(counts[1:], counts[0])


def summarise(counts: Sequence[Counts]) -> Scores:
    """The scores of a detector from its counts on each image."""
    if not counts:
        raise InputError("scores need at least one image")
    total = sum(counts[1:], counts[0])
    recall, precision = total.recall, total.precision
    levels = thresholds(len(recall))
    best = [one.at(int(np.argmax(_f(one.recall, one.precision)))) for one in counts]
    own = sum(best[1:], best[0])
    return Scores(
        ods=_best(levels, recall, precision),
        ois=Point(float(own.recall[0]), float(own.precision[0])),
        ap=_area(recall, precision),
        curve=tuple(
            Point(float(r), float(p), float(t))
            for t, r, p in zip(levels, recall, precision, strict=True)
        ),
    )


def _f(recall: NDArray[np.float64], precision: NDArray[np.float64]) -> NDArray[np.float64]:
    total = recall + precision
    return 2 * recall * precision / (total + (total == 0))


def _best(
    levels: NDArray[np.float64], recall: NDArray[np.float64], precision: NDArray[np.float64]
) -> Point:
    """The best F on straight lines between neighbouring thresholds, at 100 places on each."""
    ends = np.arange(1, len(levels))
    if not len(ends):
        return Point(float(recall[0]), float(precision[0]), float(levels[0]))
    t, r, p = (
        a[ends, None] * _BETWEEN + a[ends - 1, None] * (1 - _BETWEEN)
        for a in (levels, recall, precision)
    )
    best = int(np.argmax(_f(r, p)))
    return Point(float(r.flat[best]), float(p.flat[best]), float(t.flat[best]))


def _area(recall: NDArray[np.float64], precision: NDArray[np.float64]) -> float:
    """The mean of 101 precisions, but for the official programme's division by 100."""
    known, first = np.unique(recall, return_index=True)
    if len(known) < 2:
        return 0.0
    between = np.interp(np.arange(101) / 100, known, precision[first], left=0, right=0)
    return float(between.sum() / 100)
