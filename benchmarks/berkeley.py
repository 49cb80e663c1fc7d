"""The Berkeley benchmark itself: how fast it is, and whether its numbers are the official ones.

    python benchmarks/berkeley.py                    # speed on every tenth test photograph
    python benchmarks/berkeley.py --human            # how well people agree, on all 200
    python benchmarks/berkeley.py --official         # beside the official C++, 70 times slower

The maps are gradients of the photographs, without and with non-maximum suppression, and what people
drew, blurred and covered with noise: poor, middling and good detectors. BSDS500 is looked for in
HNETS_DATA. The official matcher comes with pyEdgeEval, which is built from C++ when pip installs
it, so it needs an environment of its own:

    python -m venv .venv-official
    .venv-official/bin/pip install -c constraints.txt -e ".[bench]" pyEdgeEval==0.2.8
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from hnets.data.bsds import Photo, photos
from hnets.metrics.berkeley import Counts, Point, count, count_human, summarise, thresholds
from hnets.metrics.skeleton import skeletonise
from hnets.metrics.suppression import suppress

Map = NDArray[np.float64]
Masks = NDArray[np.bool_]


def main() -> None:
    """Measure what the arguments ask for and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=10, help="take every so-many-th photograph")
    parser.add_argument("--human", action="store_true", help="only measure how well people agree")
    parser.add_argument("--official", action="store_true", help="also run the official matcher")
    parser.add_argument("--json", type=Path, help="also write the numbers to this file")
    args = parser.parse_args()
    if args.human:
        results = human(photos("test"))
    else:
        results = detectors(photos("test")[:: args.every], args.official)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


def human(chosen: tuple[Photo, ...]) -> dict[str, float]:
    """Print the agreement of people, each against the others."""
    counts = [count_human(photo.boundaries()) for photo in chosen]
    total = sum(counts[1:], counts[0])
    point = Point(float(total.recall[0]), float(total.precision[0]))
    print(
        f"people on {len(chosen)} photographs: F {point.f:.4f}, recall {point.recall:.4f}, "
        f"precision {point.precision:.4f}"
    )
    return {"f": point.f, "recall": point.recall, "precision": point.precision}


def detectors(chosen: tuple[Photo, ...], official: bool) -> dict[str, dict[str, float]]:
    """Print scores and CPU seconds per image, of one thread."""
    count(np.eye(9), [np.eye(9)])  # compile
    columns = "maps                  ODS     OIS     AP      seconds"
    print(f"{len(chosen)} photographs, 99 thresholds\n{columns}")
    results = {}
    for name, detect in DETECTORS.items():
        maps = [(detect(photo), photo.boundaries()) for photo in chosen]
        results[name] = row(name, maps, count)
        if official:
            results[f"{name}, official"] = row("  official", maps, official_count)
    return results


def row(
    name: str, maps: list[tuple[Map, Masks]], counting: Callable[[Map, Masks], Counts]
) -> dict[str, float]:
    """Measure one line of the table, print it and return it."""
    counts, seconds = [], []
    for soft, truth in maps:
        before = time.process_time()
        counts.append(counting(soft, truth))
        seconds.append(time.process_time() - before)
    scores = summarise(counts)
    numbers = {"ods": scores.ods.f, "ois": scores.ois.f, "ap": scores.ap}
    print(
        f"{name:20}  {'  '.join(f'{number:.4f}' for number in numbers.values())}  "
        f"mean {np.mean(seconds):.2f}, worst {max(seconds):.2f}",
        flush=True,
    )
    return {**numbers, "mean seconds": float(np.mean(seconds)), "worst seconds": max(seconds)}


def official_count(soft: Map, truth: Masks) -> Counts:
    """`hnets.metrics.berkeley.count` with the official matcher."""
    from pyEdgeEval._lib import correspond_pixels

    def columns() -> Iterator[tuple[int, int, int, int]]:
        for level in thresholds():
            skeleton = skeletonise(soft >= level)
            recalled, correct = 0, np.zeros(skeleton.shape, bool)
            for person in truth:
                ours, theirs, _, _ = correspond_pixels(skeleton, person)
                correct |= ours > 0
                recalled += int((theirs > 0).sum())
            yield recalled, int(truth.sum()), int(correct.sum()), int(skeleton.sum())

    return Counts(*np.array(list(columns())).T)


def gradient(photo: Photo) -> Map:
    """The gradient of the colours at two scales, in 8 bits."""
    colours = photo.image() / 255
    scales = [
        sum(ndimage.gaussian_gradient_magnitude(colours[..., c], s) for c in range(3)) * s**0.7
        for s in (1.5, 2.5)
    ]
    strength = np.maximum(*scales)
    return np.rint(np.clip(strength / np.percentile(strength, 99.5), 0, 1) * 255) / 255


def drawn(photo: Photo) -> Map:
    """What people drew, blurred, with the gradient and noise on it."""
    near = np.clip(3.5 * ndimage.gaussian_filter(photo.boundaries().mean(axis=0), 1.6), 0, 1)
    random = np.random.default_rng(int(photo.name))
    noise = ndimage.gaussian_filter(random.standard_normal(near.shape), 4)
    evidence = 4 * near + 3 * gradient(photo) + 0.9 * noise / noise.std() - 3.5
    return np.rint(255 / (1 + np.exp(-evidence))) / 255


DETECTORS: dict[str, Callable[[Photo], Map]] = {
    "gradient": gradient,
    "gradient, suppressed": lambda photo: suppress(gradient(photo)),
    "drawn": drawn,
    "drawn, suppressed": lambda photo: suppress(drawn(photo)),
}


if __name__ == "__main__":
    main()
