"""Image files in, files of their edges out: what `hnets edges` does, without the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

import numpy as np
from PIL import Image

from hnets.files import replacing
from hnets.predict.rendering import edges_image, orientation_image, overlay_image

if TYPE_CHECKING:
    from hnets.predict.edge_detector import OrientedEdges

__all__ = ["KINDS", "EdgeFiles"]

KINDS = {
    "edges": ".edges.png",
    "thin": ".thin.png",
    "orientation": ".orientation.png",
    "overlay": ".overlay.png",
    "npz": ".edges.npz",
}
"""What can be made of an image's edges, and the ending of its file name."""


class EdgeFiles:
    """Reads image files, finds their edges and writes them: one network for many files.

    Args:
        kinds: names in `KINDS`.
        scales: that images are resized to; the outputs are averaged.
        device: where the network runs; by default a GPU if there is one.
    """

    def __init__(
        self,
        kinds: Sequence[str] = ("edges",),
        scales: Sequence[float] = (1.0,),
        device: str | None = None,
    ) -> None:
        import torch

        from hnets.predict.edge_detector import EdgeDetector

        self.kinds, self.scales = tuple(kinds), tuple(scales)
        device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.detector = EdgeDetector(device=device)

    def __call__(self, source: Path | BinaryIO, folder: Path, name: str) -> list[Path]:
        """Write the edges of an image file to a folder, as NAME.edges.png and others.

        The folder is made when the first file is complete; the paths of all files are returned.
        """
        paths = []
        for kind, content in self._render(source, name):
            paths.append(folder / f"{name}{KINDS[kind]}")
            with replacing(paths[-1]) as part, part.open("wb") as file:
                _save(content, file)
        return paths

    def write_to(self, file: IO[bytes], source: Path | BinaryIO, name: str) -> None:
        """Write the edges of an image file to an open file, one kind after the other."""
        for _, content in self._render(source, name):
            _save(content, file)

    def _render(
        self, source: Path | BinaryIO, name: str
    ) -> Iterator[tuple[str, Image.Image | OrientedEdges]]:
        """One kind at a time, since images may be large."""
        from hnets.data.image_file import LARGEST, read_image
        from hnets.predict.edge_detector import OrientedEdges, suppress_edges

        label = str(source) if isinstance(source, Path) else name
        image = np.asarray(read_image(source, smallest=1, largest=2 * LARGEST, name=label))
        if {"thin", "orientation", "npz"}.isdisjoint(self.kinds):
            strength = angle = self.detector(image, self.scales)  # no kind needs the angle
        else:
            strength, angle = self.detector.oriented(image, self.scales)
        for kind in self.kinds:
            if kind == "edges":
                yield kind, edges_image(strength)
            elif kind == "thin":
                yield kind, edges_image(suppress_edges(strength, angle))
            elif kind == "orientation":
                yield kind, orientation_image(strength, angle)
            elif kind == "overlay":
                yield kind, overlay_image(image, strength)
            else:
                yield kind, OrientedEdges(strength, angle)


def _save(content: Image.Image | OrientedEdges, file: IO[bytes]) -> None:
    if isinstance(content, Image.Image):
        content.save(file, format="PNG")
    else:
        np.savez(file, magnitude=content.strength, angle=content.angle)
