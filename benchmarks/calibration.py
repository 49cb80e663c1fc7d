"""Does an edge that says .7 hold in 70 % of the cases: the strength of lines, against people.

    HNETS_DATA=... python benchmarks/calibration.py WEIGHTS [WEIGHTS ...] --plot reliability.png

Weights are names or files of networks that were trained on BSDS500's training set alone, for the
validation set to be new to them. Lines are the maxima of the map across its edges; one is right if
any person drew one within the benchmark's distance. Prints how often lines of each strength are
right, and the scale and the shift that the logits would fit best with (options of the networks;
fit again with those, since the lines depend on them too).
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.ndimage import distance_transform_edt
from scipy.optimize import minimize

import hnets
from hnets.data.bsds import photos
from hnets.metrics.berkeley import DISTANCE
from hnets.metrics.suppression import suppress
from hnets.plot import Sheet, figure_style, save
from hnets.plot.style import BLUE, GREEN, MUTED, ORANGE, light

BORDER = 5
"""Pixels next to the border, where the benchmark's suppression fades."""
BINS = np.linspace(0, 1, 11)
Floats = NDArray[np.float64]


def lines(detector: hnets.EdgeDetector, every: int) -> tuple[Floats, Floats]:
    """The logits of the pixels on lines in validation photographs, and whether they are right."""
    logits, right = [], []
    for photo in photos("val")[::every]:
        strength = np.clip(detector(photo.image()).astype(float), 1e-6, 1 - 1e-6)
        on = suppress(strength, "unsmoothed") > 0
        inside = np.zeros_like(on)
        inside[BORDER:-BORDER, BORDER:-BORDER] = True
        on &= inside
        away = distance_transform_edt(~photo.boundaries().any(0))
        logits.append(np.log(strength / (1 - strength))[on])
        right.append(away[on] <= DISTANCE * np.hypot(*strength.shape))
    return np.concatenate(logits), np.concatenate(right).astype(float)


def fit(logits: Floats, right: Floats) -> Floats:
    """Scale and shift of the logits with the least cross-entropy."""

    def entropy(values: Floats) -> float:
        z = values[0] * logits + values[1]
        return float(np.mean(np.logaddexp(0, z) - right * z))

    best: Floats = minimize(entropy, np.array([1.0, 0.0])).x
    return best


def main() -> None:
    """Print, and draw, how often lines of each strength are right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="+")
    parser.add_argument("--every", type=int, default=2, help="every so many photographs")
    parser.add_argument("--plot", type=Path, help="draw the reliability into this file")
    options = parser.parse_args()
    curves = {}
    for weights in options.weights:
        logits, right = lines(hnets.EdgeDetector(weights), options.every)
        scale, shift = fit(logits, right)
        print(f"{weights}: scale {scale:.3f}, shift {shift:.3f}, of {len(logits):,} pixels")
        strength = 1 / (1 + np.exp(-logits))
        bins = np.digitize(strength, BINS[1:-1])
        points = [(strength[bins == k].mean(), right[bins == k].mean()) for k in np.unique(bins)]
        print("\n".join(f"  {said:.2f} is right in {true:.2f}" for said, true in points))
        curves[weights] = points
    if options.plot:
        save(reliability_figure(curves), options.plot)


@figure_style()
def reliability_figure(curves: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """How often lines are right against their strength, one curve per network."""
    figure = Sheet(4.6, 4.4).figure
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, linestyle="--")
    for (weights, points), colour in zip(curves.items(), cycle((BLUE, ORANGE, GREEN))):
        label = Path(weights).stem
        axes.plot(*zip(*points, strict=True), "o-", color=colour, markersize=4, label=label)
    axes.set(xlabel="strength of a line", ylabel="share that someone drew", aspect="equal")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    light(axes)
    axes.legend(frameon=False, loc="upper left")
    figure.tight_layout()
    return figure


if __name__ == "__main__":
    main()
