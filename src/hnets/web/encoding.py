"""Pictures and numbers on their way to the page."""

from __future__ import annotations

import base64
import io
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["Complex", "as_text", "base64_png", "png", "quantised"]

Complex: TypeAlias = NDArray[np.complexfloating]


def png(image: Image.Image) -> bytes:
    """A picture as the bytes of a PNG file, quickly rather than small."""
    held = io.BytesIO()
    image.save(held, format="PNG", compress_level=1)
    return held.getvalue()


def base64_png(pixels: Image.Image | NDArray[np.generic]) -> str:
    """A picture, or values from 0 to 1, as text for JSON."""
    if not isinstance(pixels, Image.Image):
        values = np.clip(np.asarray(pixels, np.float32), 0, 1)
        pixels = Image.fromarray((255 * values).round().astype(np.uint8))
    return base64.b64encode(png(pixels)).decode("ascii")


def quantised(fields: Complex, ceiling: float) -> dict[str, Any]:
    """Complex maps ``(n, h, w)`` as bytes: 127 is the ceiling, of which brightness is a part."""
    scale = 127 / (ceiling or 1.0)
    count, height, width = fields.shape
    return {
        "count": count,
        "height": height,
        "width": width,
        "re": as_text(np.clip(fields.real * scale, -127, 127), np.int8),
        "im": as_text(np.clip(fields.imag * scale, -127, 127), np.int8),
    }


def as_text(values: NDArray[np.floating], kind: type[np.int8 | np.uint8]) -> str:
    """Rounded numbers, a byte each, in base64."""
    return base64.b64encode(values.round().astype(kind).tobytes()).decode("ascii")
