"""The Berkeley benchmark of edge detection: ODS, OIS and AP as its official program has them.

A soft map in [0, 1] is thresholded and skeletonised, and its pixels are matched one to one with
those of each annotator in turn, within 0.0075 of the image's diagonal. Precision counts the pixels
of the map that match any annotator; recall counts the matched pixels of all annotators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hnets.errors import InputError
from hnets.metrics.matching import Matcher
from hnets.metrics.skeleton import skeletonise

DISTANCE = 0.0075
"""How far apart matched pixels may be, as a fraction of the diagonal."""
_BETWEEN = np.linspace(0, 1, 100)

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Counts:
    """Pixels of an image, or of many, at each threshold.

    >>> both = Counts(*np.array([[6], [8], [3], [4]])) + Counts(*np.array([[0], [2], [0], [0]]))
    >>> both.recall, both.precision
    (array([0.6]), array([0.75]))
    """

    recalled: NDArray[np.int64]
    """Pixels of annotators that were matched, over all annotators."""
    annotated: NDArray[np.int64]
    """All pixels of annotators."""
    correct: NDArray[np.int64]
    """Pixels of the map that match an annotator's."""
    detected: NDArray[np.int64]
    """All pixels of the skeletonised map."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(self._table() + other._table()))

    def at(self, k: int) -> Counts:
        """The counts at one threshold, the ``k``-th."""
        return Counts(*self._table()[:, k : k + 1])

    def _table(self) -> NDArray[np.int64]:
        return np.stack([self.recalled, self.annotated, self.correct, self.detected])

    @property
    def recall(self) -> Floats:
        """The fraction of the annotators' pixels that was matched; 0 where there are none."""
        return self.recalled / np.maximum(self.annotated, 1)

    @property
    def precision(self) -> Floats:
        """The fraction of the map's pixels that is correct; 0 where there are none."""
        return self.correct / np.maximum(self.detected, 1)


@dataclass(frozen=True)
class Point:
    """A point of the precision-recall curve; without a threshold if each image has its own."""

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
    """The scores of a detector on a set of images."""

    ods: Point
    """The best F-measure with one threshold for all images, on lines between the thresholds."""
    ois: Point
    """The F-measure with the best threshold of each image."""
    ap: float
    """The area below the precision-recall curve, at recalls 0, 0.01 … 1."""
    curve: tuple[Point, ...]


def thresholds(n: int = 99) -> Floats:
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
        if mask.sum() == covered:  # the same pixels as before: nothing new to match
            table[:, k] = table[:, k - 1]
            continue
        covered = mask.sum()
        ours = matcher.pixels(skeletonise(mask))
        correct = np.zeros(len(ours.places), bool)
        for person, theirs in enumerate(people):
            one, two = matcher.match(ours, theirs, seed=k * len(people) + person)
            correct[one] = True
            table[0, k] += len(two)
        table[1:, k] = truth.sum(), correct.sum(), len(correct)
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
    rows = zip(recall, precision, levels, strict=True)
    return Scores(
        ods=_best(levels, recall, precision),
        ois=Point(float(own.recall[0]), float(own.precision[0])),
        ap=_area(recall, precision),
        curve=tuple(Point(float(r), float(p), float(t)) for r, p, t in rows),
    )


def _f(recall: Floats, precision: Floats) -> Floats:
    total = recall + precision
    return 2 * recall * precision / (total + (total == 0))


def _best(levels: Floats, recall: Floats, precision: Floats) -> Point:
    """The best F on straight lines between neighbouring thresholds, at 100 points on each."""
    ends = np.arange(1, len(levels))
    if not len(ends):
        return Point(float(recall[0]), float(precision[0]), float(levels[0]))
    t, r, p = (
        a[ends, None] * _BETWEEN + a[ends - 1, None] * (1 - _BETWEEN)
        for a in (levels, recall, precision)
    )
    best = int(np.argmax(_f(r, p)))
    return Point(float(r.flat[best]), float(p.flat[best]), float(t.flat[best]))


def _area(recall: Floats, precision: Floats) -> float:
    """The sum of 101 precisions, divided by 100 as in the official program."""
    known, first = np.unique(recall, return_index=True)
    if len(known) < 2:
        return 0.0
    between = np.interp(np.arange(101) / 100, known, precision[first], left=0, right=0)
    return float(between.sum() / 100)
