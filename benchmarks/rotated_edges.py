"""Rotate a photograph, or rotate its edges: by how much do the two differ?

    HNETS_DATA=... python benchmarks/rotated_edges.py hdsn hed_low

Photographs of BSDS500's test set are rotated about their centre (bicubically), and edges are found
before and after. What is compared is a disc that no border comes near. The difference is relative
to the edges themselves (root of the ratio of squares). Rotating the edges interpolates them too,
which any network pays for: the first row is that cost alone, the edges rotated there and back.
"""

import argparse
import math
import statistics
from pathlib import Path

import torch
from torch import Tensor

from hnets import freeze
from hnets.data.bsds import photos
from hnets.functional import rotate_pixels
from hnets.predict.edge_detector import edge_network

SIDE = 320
MARGIN = 64
"""Pixels that are left out next to the border of the disc, where the rotated image ends."""


def disc(side: int, radius: float) -> Tensor:
    """Which pixels lie within a radius of the centre."""
    at = torch.arange(side) - (side - 1) / 2
    return at[:, None] ** 2 + at**2 < radius**2


def difference(maps: Tensor, expected: Tensor, inside: Tensor) -> float:
    """Of two maps, relative to the second."""
    wrong = (maps - expected)[..., inside].square().sum()
    return float((wrong / expected[..., inside].square().sum()).sqrt())


@torch.inference_mode()
def main() -> None:
    """Print the differences at several angles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("weights", nargs="+", help="names or files of networks")
    parser.add_argument("--split", default="test")
    parser.add_argument("--photos", type=int, default=8)
    parser.add_argument("--angles", type=float, nargs="+", default=[15, 30, 45, 60, 90])
    options = parser.parse_args()
    inside = disc(SIDE, SIDE / 2 - MARGIN)
    networks = {Path(name).stem: freeze(edge_network(name)) for name in options.weights}
    first = next(iter(networks))
    differences: dict[str, dict[float, list[float]]] = {}
    chosen = photos(options.split)
    for photo in chosen[:: max(1, len(chosen) // options.photos)][: options.photos]:
        image = torch.from_numpy(photo.image()).permute(2, 0, 1)[None].float() / 255
        top, left = ((side - SIDE) // 2 for side in image.shape[2:])
        image = image[:, :, top : top + SIDE, left : left + SIDE]
        before = {name: network(image) for name, network in networks.items()}
        for angle in options.angles:
            theta = math.radians(angle)
            rotated = rotate_pixels(image, theta).clamp(0, 1)
            back = rotate_pixels(rotate_pixels(before[first], theta), -theta)
            cost = difference(back, before[first], inside)
            differences.setdefault("interpolation", {}).setdefault(angle, []).append(cost)
            for name, network in networks.items():
                expected = rotate_pixels(before[name], theta)
                wrong = difference(network(rotated), expected, inside)
                differences.setdefault(name, {}).setdefault(angle, []).append(wrong)
    print(f"{'degrees':>14}", *(f"{angle:7g}" for angle in options.angles))
    for name, by_angle in differences.items():
        print(f"{name:>14}", *(f"{statistics.median(v):7.3f}" for v in by_angle.values()))


if __name__ == "__main__":
    main()
