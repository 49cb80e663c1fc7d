"""Boundaries of a picture, and whether turning and finding them may change places."""

from __future__ import annotations

import io
import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets import plot as inspect
from hnets.data.image_file import centre_crop
from hnets.functional import rotate_pixels
from hnets.predict import EdgeDetector, thin_across
from hnets.web.encoding import base64_png
from hnets.web.uploads import read

__all__ = ["Edges"]

LONGEST = 480
"""Side to which a picture is reduced: a second's work at most."""
SIDE = 192
"""Side of the disc that is turned, small enough to follow a hand."""
RIM = 0.86
"""Radius, in half sides, within which the two are compared: outside, the disc fades to grey."""

Floats = NDArray[np.float32]


class Edges:
    """The network, loaded and calibrated when the first picture comes."""

    @cached_property
    def detector(self) -> EdgeDetector:
        """The pretrained H-DSN."""
        return EdgeDetector()

    def found(self, data: bytes) -> dict[str, Any]:
        """Boundaries, lines and orientations of a picture, as pictures."""
        image, strength, angle = self._found(data)
        return {
            "width": image.width,
            "height": image.height,
            "picture": base64_png(image),
            "edges": base64_png(inspect.edges_image(strength)),
            "lines": base64_png(inspect.edges_image(thin_across(strength, angle))),
            "orientation": base64_png(inspect.orientation_image(strength, angle)),
            "overlay": base64_png(inspect.overlay_image(np.asarray(image), strength)),
            "disc": base64_png(centre_crop(image).resize((2 * SIDE, 2 * SIDE))),
        }

    def numbers(self, data: bytes) -> bytes:
        """Magnitude and angle as the bytes of an ``.npz`` file."""
        _, strength, angle = self._found(data)
        held = io.BytesIO()
        np.savez(held, magnitude=strength, angle=angle)
        return held.getvalue()

    def turned(self, data: bytes, degrees: float) -> dict[str, Any]:
        """The boundaries of a turned picture beside the turned boundaries of the picture.

        The error is the norm of their difference, in parts of that of the boundaries.
        """
        square, upright = self._upright(data)
        disc = _disc(square, degrees)
        first = self.detector(disc)  # turned, then found
        then = np.clip(_rotated(upright, degrees), 0, 1)  # found, then turned
        inside = _radius(SIDE) < RIM
        apart = np.abs(first - then) * inside
        norm = float(np.linalg.norm(upright * inside))
        return {
            "degrees": degrees,
            "error": round(float(np.linalg.norm(apart)) / norm, 4) if norm else 0.0,
            "picture": base64_png(disc),
            "first": base64_png(first * inside),
            "then": base64_png(then * inside),
            "apart": base64_png(apart),
        }

    def _found(self, data: bytes) -> tuple[Image.Image, Floats, Floats]:
        image = read(data)
        image.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
        return image, *self.detector.oriented(image)

    @lru_cache(maxsize=4)  # noqa: B019 - there is one of these in a process
    def _upright(self, data: bytes) -> tuple[Image.Image, Floats]:
        square = centre_crop(read(data)).resize((2 * SIDE, 2 * SIDE), Image.Resampling.LANCZOS)
        return square, self.detector(_disc(square, 0.0))


def _disc(square: Image.Image, degrees: float) -> Floats:
    """A picture turned at twice the resolution, and faded to grey at the rim of a disc."""
    turned = square.rotate(degrees, Image.Resampling.BICUBIC).reduce(2)
    values = np.asarray(turned, dtype=np.float32) / 255 - np.float32(0.5)
    window = np.cos(np.pi / 2 * np.clip((_radius(SIDE) - RIM) / (1 - RIM), 0, 1)) ** 2
    return (0.5 + values * window[..., None]).astype(np.float32)


def _rotated(strength: Floats, degrees: float) -> Floats:
    maps = torch.from_numpy(strength)[None, None]
    turned: Floats = rotate_pixels(maps, math.radians(degrees))[0, 0].numpy()
    return turned


def _radius(side: int) -> NDArray[np.float64]:
    offset = (np.arange(side) - (side - 1) / 2) / (side / 2)
    return np.hypot(offset, offset[:, None])
