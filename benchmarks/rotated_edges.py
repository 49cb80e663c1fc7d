"""Rotate a photograph, or rotate its edges: by how much do the two differ?

    HNETS_DATA=... python benchmarks/rotated_edges.py hdsn hed_low

Photographs of BSDS500's test set are rotated about their centre (bicubically), and edges are found
before and after. What is compared is a disc that no border comes near. The difference is relative
to the edges themselves (root of the ratio of squares). Rotating the edges interpolates them too,
which any network pays for: the first row is that cost alone, the edges rotated there and back.
Last, left and right of the photograph are exchanged.
"""

import argparse
import math
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import torch
from torch import Tensor

from hnets import freeze
from hnets.data.bsds import photos
from hnets.functional import rotate_pixels
from hnets.predict.edge_detector import edge_network

SIDE = 320
MARGIN = 64
"""Pixels that are left out next to the border of the disc, where the rotated image ends."""
Move: TypeAlias = Callable[[Tensor], Tensor]


def mirrored(maps: Tensor) -> Tensor:
    """Left and right exchanged."""
    return maps.flip(3)


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
    differences: dict[str, dict[str, list[float]]] = {}
    chosen = photos(options.split)
    for photo in chosen[:: max(1, len(chosen) // options.photos)][: options.photos]:
        image = torch.from_numpy(photo.image()).permute(2, 0, 1)[None].float() / 255
        top, left = ((side - SIDE) // 2 for side in image.shape[2:])
        image = image[:, :, top : top + SIDE, left : left + SIDE]
        before = {name: network(image) for name, network in networks.items()}
        moves: dict[str, tuple[Move, Move]] = {
            f"{angle:g}": (
                partial(rotate_pixels, theta=math.radians(angle)),
                partial(rotate_pixels, theta=-math.radians(angle)),
            )
            for angle in options.angles
        }
        moves["mirror"] = (mirrored, mirrored)
        for move, (forth, back) in moves.items():
            cost = difference(back(forth(before[first])), before[first], inside)
            differences.setdefault("interpolation", {}).setdefault(move, []).append(cost)
            moved = forth(image).clamp(0, 1)
            for name, network in networks.items():
                wrong = difference(network(moved), forth(before[name]), inside)
                differences.setdefault(name, {}).setdefault(move, []).append(wrong)
    print(f"{'degrees':>14}", *(f"{move:>7}" for move in moves))
    for name, by_move in differences.items():
        print(f"{name:>14}", *(f"{statistics.median(v):7.3f}" for v in by_move.values()))


if __name__ == "__main__":
    main()
