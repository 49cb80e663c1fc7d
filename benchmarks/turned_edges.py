"""Turn a photograph, or turn its boundaries: by how much do the two differ?

    HNETS_DATA=... python benchmarks/turned_edges.py

Photographs of BSDS500's test set are turned about their centre (bicubically), and boundaries are
looked for before and after. What is compared is a disc that no border comes near. The difference is
given relative to the boundaries themselves (root of the ratio of squares); turning the boundaries
interpolates them too, which any network pays for: the first row is that cost alone, the boundaries
turned there and back.
"""

import argparse
import math
import statistics

import torch
from torch import Tensor

from hnets import create_model, freeze
from hnets.data.bsds import photos
from hnets.functional import rotate_pixels

SIDE = 320
MARGIN = 64
"""Pixels that are left out next to the border of the disc, where the turned picture ends."""


def disc(side: int, radius: float) -> Tensor:
    """Which pixels lie within a radius of the centre."""
    at = torch.arange(side) - (side - 1) / 2
    return at[:, None] ** 2 + at**2 < radius**2


def difference(found: Tensor, expected: Tensor, inside: Tensor) -> float:
    """Of two maps, relative to the second."""
    wrong = (found - expected)[..., inside].square().sum()
    return float((wrong / expected[..., inside].square().sum()).sqrt())


@torch.inference_mode()
def main() -> None:
    """Print the differences at several angles."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", type=int, default=8)
    parser.add_argument("--angles", type=float, nargs="+", default=[15, 30, 45, 60, 90])
    given = parser.parse_args()
    inside = disc(SIDE, SIDE / 2 - MARGIN)
    networks = {name: freeze(create_model(name, pretrained=True)) for name in ("hdsn", "hed_low")}
    found: dict[str, dict[float, list[float]]] = {}
    chosen = photos("test")
    for photo in chosen[:: max(1, len(chosen) // given.photos)][: given.photos]:
        picture = torch.from_numpy(photo.image()).permute(2, 0, 1)[None].float() / 255
        top, left = ((side - SIDE) // 2 for side in picture.shape[2:])
        picture = picture[:, :, top : top + SIDE, left : left + SIDE]
        before = {name: network(picture) for name, network in networks.items()}
        for angle in given.angles:
            theta = math.radians(angle)
            turned = rotate_pixels(picture, theta).clamp(0, 1)
            back = rotate_pixels(rotate_pixels(before["hdsn"], theta), -theta)
            cost = difference(back, before["hdsn"], inside)
            found.setdefault("interpolation", {}).setdefault(angle, []).append(cost)
            for name, network in networks.items():
                expected = rotate_pixels(before[name], theta)
                wrong = difference(network(turned), expected, inside)
                found.setdefault(name, {}).setdefault(angle, []).append(wrong)
    print(f"{'degrees':>14}", *(f"{angle:7g}" for angle in given.angles))
    for name, by_angle in found.items():
        print(f"{name:>14}", *(f"{statistics.median(v):7.3f}" for v in by_angle.values()))


if __name__ == "__main__":
    main()
