"""The edges in an image as lines that a drawing program can edit.

    python examples/edges_to_svg.py photo.jpg photo.svg

The network finds the edges. After non-maximum suppression across them they are lines of one pixel,
which are followed, simplified and written as SVG paths.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hnets import EdgeDetector
from hnets.data.image_file import read_image
from hnets.files import replacing

Point = tuple[int, int]
AROUND = [(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, -1), (-1, 1)]


def trace(lines: NDArray[np.bool_], shortest: int) -> list[list[Point]]:
    """Follow connected pixels from end to end; each becomes part of one path."""
    left = {(int(y), int(x)) for y, x in zip(*np.nonzero(lines), strict=True)}
    ends = [point for point in sorted(left) if len(_next(point, left)) == 1]
    paths = []
    for start in [*ends, *sorted(left)]:  # first from the ends, then the closed ones
        if start not in left:
            continue
        path = [start]
        left.remove(start)
        while near := _next(path[-1], left):
            path.append(near[0])
            left.remove(near[0])
        for point in path:  # what runs beside the path is the same line, two pixels wide
            left.difference_update(_next(point, left))
        if len(path) >= shortest:
            paths.append(path)
    return paths


def _next(point: Point, left: set[Point]) -> list[Point]:
    y, x = point
    return [(y + down, x + across) for down, across in AROUND if (y + down, x + across) in left]


def simplify(path: list[Point], tolerance: float) -> list[Point]:
    """Leave out points that lie nearer than ``tolerance`` to the line between those that stay."""
    if len(path) < 3:
        return path
    points = np.array(path, dtype=float)
    way = points[-1] - points[0]
    off = points - points[0]
    length = np.hypot(*way)
    away = np.abs(way[0] * off[:, 1] - way[1] * off[:, 0]) / length if length else np.hypot(*off.T)
    middle = int(away.argmax())
    if away[middle] <= tolerance:
        return [path[0], path[-1]]
    first, second = path[: middle + 1], path[middle:]
    return simplify(first, tolerance)[:-1] + simplify(second, tolerance)


def svg(paths: list[list[Point]], strength: NDArray[np.floating], size: tuple[int, int]) -> str:
    """A drawing in which stronger edges are drawn stronger."""
    height, width = size
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'fill="none" stroke="black" stroke-linecap="round" stroke-linejoin="round">'
    ]
    for path in paths:
        weight = float(np.mean([strength[point] for point in path]))
        where = " ".join(f"{x + 0.5:g},{y + 0.5:g}" for y, x in path)
        lines.append(f'<polyline points="{where}" stroke-opacity="{min(1.0, 2 * weight):.2f}"/>')
    return "\n".join([*lines, "</svg>", ""])


def main() -> None:
    """Read an image, write an SVG file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("image", type=Path)
    parser.add_argument("svg", type=Path)
    parser.add_argument("--threshold", type=float, default=0.3, help="how sure, from 0 to 1")
    parser.add_argument("--shortest", type=int, default=12, help="pixels of a line that is kept")
    parser.add_argument("--tolerance", type=float, default=1.2, help="pixels a line may be off")
    options = parser.parse_args()
    detector = EdgeDetector()
    strength = detector.suppressed(np.asarray(read_image(options.image)))
    lines = trace(strength > options.threshold, options.shortest)
    paths = [simplify(path, options.tolerance) for path in lines]
    with replacing(options.svg) as part:
        part.write_text(svg(paths, strength, strength.shape), encoding="utf-8")
    points = sum(map(len, paths))
    print(f"wrote {options.svg}: {len(paths)} lines of {points} points")


if __name__ == "__main__":
    main()
