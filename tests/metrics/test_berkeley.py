"""The Berkeley benchmark: its protocol and its known values."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hnets.data import bsds
from hnets.errors import InputError
from hnets.metrics.benchmark import HUMAN
from hnets.metrics.berkeley import Counts, Point, count, count_human, summarise


@pytest.fixture
def photos(data_folder: Path) -> dict[str, bsds.Photo]:
    if not (data_folder / "BSDS500").is_dir():
        pytest.skip("needs BSDS500 in HNETS_DATA")
    return {photo.name: photo for photo in bsds.photos("test", data_folder)}


def vertical(*columns: int) -> NDArray[np.bool_]:
    """A map of 60×80 pixels with lines in some columns; a match reaches 0.75 pixels."""
    mask = np.zeros((60, 80), bool)
    mask[:, list(columns)] = True
    return mask


# Counts ---------------------------------------------------------------------------------------


def test_a_pixel_is_correct_if_anyone_drew_it_and_recall_is_over_everyone() -> None:
    soft = 0.9 * vertical(10) + 0.6 * vertical(30) + 0.3 * vertical(50)
    counts = count(soft, [vertical(10), vertical(10, 30), vertical(70)], n=3)
    assert counts.recalled.tolist() == [180, 180, 120]  # thresholds 0.25, 0.5 and 0.75
    assert counts.annotated.tolist() == [240, 240, 240]
    assert counts.correct.tolist() == [120, 120, 60]
    assert counts.detected.tolist() == [180, 120, 60]


def test_an_empty_map_and_empty_boundaries() -> None:
    nothing, line = np.zeros((60, 80)), vertical(5)
    assert summarise([count(nothing, [line])]).ods == Point(0.0, 0.0, 0.01)
    assert summarise([count(line, [nothing])]).ap == 0
    assert not count(nothing, np.zeros((0, 60, 80))).annotated.any()


def test_the_same_counts_each_time() -> None:
    random = np.random.default_rng(3)
    soft, truth = random.random((60, 80)), random.random((3, 60, 80)) < 0.1
    first, again = count(soft, truth, n=9), count(soft, truth, n=9)
    assert first.correct.tolist() == again.correct.tolist()


@pytest.mark.parametrize(
    ("soft", "truth", "message"),
    [
        (np.zeros((4, 5)), np.zeros((1, 5, 4)), r"got shapes \(4, 5\) and \(1, 5, 4\)"),
        (np.zeros((4, 5)), np.zeros((4, 5)), r"boundaries \(people, h, w\)"),
        (np.full((4, 5), 1.5), np.zeros((1, 4, 5)), r"values in \[0, 1\]"),
        (np.full((4, 5), np.nan), np.zeros((1, 4, 5)), r"values in \[0, 1\]"),
    ],
)
def test_other_maps_are_refused(soft: object, truth: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        count(soft, truth)


def test_summaries_and_people_need_some() -> None:
    with pytest.raises(InputError, match="at least one image"):
        summarise([])
    with pytest.raises(InputError, match="got 1 of them"):
        count_human([vertical(3)])


# Scores ---------------------------------------------------------------------------------------


def by_the_book(counts: list[Counts]) -> tuple[float, float, float]:
    """ODS, OIS and AP as the official program writes them, loop by loop."""

    def f(r: float, p: float) -> float:
        return 2 * p * r / (p + r + ((p + r) == 0))

    total = [
        sum(getattr(c, part) for c in counts)
        for part in ("recalled", "annotated", "correct", "detected")
    ]
    recall = total[0] / (total[1] + (total[1] == 0))
    precision = total[2] / (total[3] + (total[3] == 0))
    ods = f(recall[0], precision[0])
    for i in range(1, len(recall)):
        for d in np.linspace(0, 1, 100):
            r = recall[i] * d + recall[i - 1] * (1 - d)
            p = precision[i] * d + precision[i - 1] * (1 - d)
            ods = max(ods, f(r, p))
    best = np.zeros(4)
    for c in counts:
        fs = [f(r, p) for r, p in zip(c.recall, c.precision, strict=True)]
        k = fs.index(max(fs))
        best += [c.recalled[k], c.annotated[k], c.correct[k], c.detected[k]]
    area = 0.0
    known = dict(zip(recall[::-1], precision[::-1], strict=True))  # the first of equal recalls
    for x in np.arange(101) / 100:
        if min(known) <= x <= max(known):
            below, above = max(r for r in known if r <= x), min(r for r in known if r >= x)
            t = (x - below) / (above - below) if above > below else 0
            area += 0.01 * (known[below] * (1 - t) + known[above] * t)
    return ods, f(best[0] / best[1], best[2] / best[3]), area


def test_scores_are_those_of_the_official_formulas() -> None:
    random = np.random.default_rng(0)
    counts = []
    for _ in range(5):
        detected = np.sort(random.integers(0, 5000, 20))[::-1]
        correct = (detected * np.sort(random.uniform(0.2, 1, 20))).astype(int)
        annotated = np.full(20, random.integers(4000, 9000))
        recalled = np.minimum(annotated, correct * random.integers(1, 5))
        counts.append(Counts(recalled, annotated, correct, detected))
    scores = summarise(counts)
    assert (scores.ods.f, scores.ois.f, scores.ap) == pytest.approx(by_the_book(counts), abs=1e-12)
    assert len(scores.curve) == 20


# Known values ---------------------------------------------------------------------------------


def test_everybodys_own_map_is_perfect(photos: dict[str, bsds.Photo]) -> None:
    for name in ("100007", "107072"):
        for person in photos[name].boundaries():
            scores = summarise([count(person, person[None])])
            assert scores.ods.f == scores.ois.f == 1


def test_people_agree_as_they_are_known_to(photos: dict[str, bsds.Photo]) -> None:
    """Every 40th photograph here; all of them give F = 0.803, the value that is published."""
    counts = [count_human(photo.boundaries()) for photo in list(photos.values())[::40]]
    total = sum(counts[1:], counts[0])
    assert Point(total.recall[0], total.precision[0]).f == pytest.approx(HUMAN.f, abs=0.05)
    assert HUMAN.f == pytest.approx(0.803, abs=5e-4)


def blurred(boundaries: NDArray[np.bool_]) -> NDArray[np.float64]:
    """A detector that spreads what people drew over 5×5 pixels, and draws it again where it is not.

    In whole numbers, so that it is the same on every machine.
    """
    _, height, width = boundaries.shape
    padded = np.pad(boundaries.sum(axis=0), 2)
    near = sum(padded[i : i + height, j : j + width] for i in range(5) for j in range(5))
    false = np.roll(near, (9, 7), axis=(0, 1))
    top = 15 * len(boundaries)
    return np.minimum(np.maximum(3 * near, 2 * false), top) / top


def test_the_scores_are_those_of_the_official_programme(photos: dict[str, bsds.Photo]) -> None:
    """Its own C++ and formulas, on three photographs at 99 thresholds."""
    truths = [photos[name].boundaries() for name in ("100039", "160067", "5096")]
    scores = summarise([count(blurred(truth), truth) for truth in truths])
    official = 0.81581, 0.84194, 0.32527  # itself random in the fourth digit
    assert (scores.ods.f, scores.ois.f, scores.ap) == pytest.approx(official, abs=5e-4)
