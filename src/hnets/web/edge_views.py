"""The edges of an image, and how well edge detection commutes with rotation."""

from __future__ import annotations

import io
import math
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.image_file import centre_crop
from hnets.functional import rotate_pixels
from hnets.models import model_card
from hnets.predict import EDGE_MODEL, EDGE_MODELS, EdgeDetector, suppress_edges
from hnets.predict.image_input import Floats
from hnets.predict.rendering import edges_image, orientation_image, overlay_image
from hnets.web.payloads import base64_png, uploaded

LONGEST = 480
"""Longest side of an image, larger ones being reduced: at most a second's work."""
SIDE = 192
"""Side of the disc that is rotated, small enough to follow a slider."""
RIM = 0.86
"""Radius, in half sides, within which edges are compared: outside, the disc fades to grey."""


class EdgeViews:
    """The edge detector, loaded when the first image arrives."""

    @cached_property
    def detector(self) -> EdgeDetector:
        """The one that finds edges unless another is named."""
        return EdgeDetector()

    def about(self) -> dict[str, Any]:
        """What the page says of the detector before it is loaded."""
        return {"edges": {"parameters": model_card(EDGE_MODELS[EDGE_MODEL])["parameters"]}}

    def images(self, data: bytes) -> dict[str, Any]:
        """Edges, lines and orientations of an image, as images."""
        image, strength, angle = self._detect(data)
        return {
            "width": image.width,
            "height": image.height,
            "image": base64_png(image),
            "edges": base64_png(edges_image(strength)),
            "thin": base64_png(edges_image(suppress_edges(strength))),
            "orientation": base64_png(orientation_image(strength, angle)),
            "overlay": base64_png(overlay_image(np.asarray(image), strength)),
            "disc": base64_png(centre_crop(image).resize((2 * SIDE, 2 * SIDE))),
        }

    def arrays(self, data: bytes) -> bytes:
        """Magnitude and angle as the bytes of an ``.npz`` file."""
        _, strength, angle = self._detect(data)
        buffer = io.BytesIO()
        np.savez(buffer, magnitude=strength, angle=angle)
        return buffer.getvalue()

    def rotated(self, data: bytes, degrees: float) -> dict[str, Any]:
        """The edges of a rotated image beside the rotated edges of the upright one.

        The error is the norm of their difference, relative to that of the edges.
        """
        square, upright = self._upright(data)
        disc = _disc(square, degrees)
        first = self.detector(disc)  # rotate, then detect
        maps = torch.from_numpy(upright)[None, None]
        then = rotate_pixels(maps, math.radians(degrees))[0, 0].clip(0, 1).numpy()
        inside = _radius() < RIM
        difference = np.abs(first - then) * inside
        norm = float(np.linalg.norm(upright * inside))
        return {
            "degrees": degrees,
            "error": round(float(np.linalg.norm(difference)) / norm, 4) if norm else 0.0,
            "image": base64_png(disc),
            "first": base64_png(first * inside),
            "then": base64_png(then * inside),
            "difference": base64_png(difference),
        }

    def _detect(self, data: bytes) -> tuple[Image.Image, Floats, Floats]:
        image = uploaded(data)
        image.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
        return image, *self.detector.oriented(image)

    @lru_cache(maxsize=4)  # noqa: B019 - one instance per process
    def _upright(self, data: bytes) -> tuple[Image.Image, Floats]:
        size = (2 * SIDE, 2 * SIDE)
        square = centre_crop(uploaded(data)).resize(size, Image.Resampling.LANCZOS)
        return square, self.detector(_disc(square, 0.0))


def _disc(square: Image.Image, degrees: float) -> Floats:
    """An image rotated at twice the resolution, and faded to grey at the rim of a disc."""
    rotated = square.rotate(degrees, Image.Resampling.BICUBIC).reduce(2)
    values = np.asarray(rotated, dtype=np.float32) / 255 - np.float32(0.5)
    window = np.cos(np.pi / 2 * np.clip((_radius() - RIM) / (1 - RIM), 0, 1)) ** 2
    return (0.5 + values * window[..., None]).astype(np.float32)


def _radius() -> NDArray[np.float64]:
    """Distance of every pixel from the centre, in half sides: ``(SIDE, SIDE)``."""
    offset = (np.arange(SIDE) - (SIDE - 1) / 2) / (SIDE / 2)
    return np.hypot(offset, offset[:, None])
