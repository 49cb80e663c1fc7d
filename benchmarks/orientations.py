"""Which way do edges run: the phases of the H-DSN beside other estimates, against people.

    HNETS_DATA=... python benchmarks/orientations.py

Where a line that somebody drew in a photograph of BSDS500's test set is straight for ten pixels,
its direction is compared with what is read at the strongest pixel of the network's map within two:
from phases, from the second derivatives of the map (as the usual non-maximum suppression does), and
from the gradients of the photograph's colours (its structure tensor, as smooth as the phases are).
People do not draw along the pixels of an edge, so none of them can be at zero.
"""

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import convolve, gaussian_filter

import hnets
from hnets.data.bsds import photos
from hnets.metrics.suppression import normals
from hnets.predict.orientation import SMOOTHING

RADIUS, STRAIGHT, SURE, NEAR = 5, 0.97, 0.5, 2
Floats = NDArray[np.floating]


def straight_lines(drawn: NDArray[np.bool_]) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Rows and columns of pixels on a straight line, and its direction, y up."""
    at = np.arange(-RADIUS, RADIUS + 1.0)
    x, y = at[None, :], -at[:, None]
    disc = (x**2 + y**2 <= RADIUS**2).astype(float)

    def total(weights: Floats) -> Floats:
        return convolve(drawn.astype(float), (weights * disc)[::-1, ::-1], mode="constant")

    def mean(weights: Floats) -> Floats:
        return total(weights) / np.maximum(count, 1)

    count = total(disc)
    mx, my = mean(x + 0 * y), mean(y + 0 * x)
    xx, yy, xy = mean(x * x + 0 * y) - mx**2, mean(y * y + 0 * x) - my**2, mean(x * y) - mx * my
    long = np.hypot(xx - yy, 2 * xy) / (xx + yy + 1e-9)
    rows, columns = np.nonzero(drawn & (long > STRAIGHT) & (count >= 8))
    return rows, columns, np.arctan2(2 * xy, xx - yy)[rows, columns] / 2


def strongest(strength: Floats, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Floats:
    """The strongest pixels nearby: rows, columns, strengths."""
    side = 2 * NEAR + 1
    around = np.lib.stride_tricks.sliding_window_view(np.pad(strength, NEAR), (side, side))
    near = around[rows, columns].reshape(len(rows), -1)
    down, right = np.divmod(near.argmax(1), side)
    return np.stack([rows + down - NEAR, columns + right - NEAR, near.max(1)])


def by_gradients(image: NDArray[np.uint8]) -> Floats:
    """The direction across the gradients of all colours, y up."""
    re, im = np.zeros((2, *image.shape[:2]))
    for colour in np.moveaxis(image, -1, 0):
        down, right = np.gradient(gaussian_filter(colour.astype(float), 1))
        re += right**2 - down**2
        im -= 2 * right * down
    re, im = gaussian_filter(re, SMOOTHING), gaussian_filter(im, SMOOTHING)
    return np.arctan2(im, re) / 2 + np.pi / 2


def main() -> None:
    """Print how far each way is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="?", default="hdsn", help="name or file")
    parser.add_argument("--photos", type=int, default=20)
    parser.add_argument("--split", default="test")
    options = parser.parse_args()
    detector = hnets.EdgeDetector(options.weights)
    chosen, errors = photos(options.split), dict[str, list[Floats]]()
    for photo in chosen[:: max(1, len(chosen) // options.photos)][: options.photos]:
        image = photo.image()
        strength, angle = detector.oriented(image)
        ways: dict[str, Floats] = {
            "phases": angle,
            "second derivatives of the map": np.pi / 2 - normals(strength.astype(float)),
            "gradients of the colours": by_gradients(image),
        }
        for drawn in photo.boundaries():
            rows, columns, direction = straight_lines(drawn)
            y, x, sure = strongest(strength, rows, columns)
            kept = sure > SURE
            place = y[kept].astype(int), x[kept].astype(int)
            for way, read in ways.items():
                off = np.degrees(read[place] - direction[kept])
                errors.setdefault(way, []).append(np.abs(np.mod(off + 90, 180) - 90))
    print(f"{'degrees off':30s}  median    mean  over 45")
    for way, parts in errors.items():
        off = np.concatenate(parts)
        print(f"{way:30s} {np.median(off):7.1f} {off.mean():7.1f} {100 * (off > 45).mean():7.1f} %")
    first, *others = errors
    for way in others:
        nearer = np.concatenate(errors[first]) < np.concatenate(errors[way])
        print(f"{first} nearer than {way}: {100 * nearer.mean():.0f} % of the pixels")
    print(f"{len(off):,} pixels of {options.photos} photographs")


if __name__ == "__main__":
    main()
