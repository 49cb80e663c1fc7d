"""What requests bring and responses carry: uploaded images in, PNG files and quantised maps out."""

from __future__ import annotations

import base64
import io
import warnings
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from fastapi import HTTPException
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter, UnidentifiedImageError

from hnets.data.image_file import FORMATS, format_names, read_image

BROWSER_FORMATS = [name for name in FORMATS if name not in ("TIFF", "PPM")]
"""The formats that browsers show, too."""
PIXELS = 24_000_000
SCANS = 100
"""Of a progressive JPEG; cameras write ten. A small file can have thousands, each as slow to decode
as a whole image."""

Complex: TypeAlias = NDArray[np.complexfloating]


def uploaded(data: bytes, pixels: int = PIXELS) -> Image.Image:
    """An uploaded file as an RGB image, or an error that says in one line why it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=BROWSER_FORMATS) as opened:
                width, height, kind = *opened.size, opened.format
    except Image.DecompressionBombError:
        width, height, kind = pixels, pixels, None
    except UnidentifiedImageError:
        names = format_names(BROWSER_FORMATS)
        raise HTTPException(415, f"this is not a {names} image") from None
    except Exception:  # decoders raise exceptions of any type on damaged files
        raise HTTPException(400, "this image is damaged; save it again from its source") from None
    if width * height > pixels:
        millions = f"{pixels / 10**6:g} million"
        raise HTTPException(413, f"this image has more than {millions} pixels; give a smaller one")
    if kind != "PNG" and data.count(b"\xff\xda") > SCANS and data[:2] == b"\xff\xd8":
        raise HTTPException(400, "this JPEG has more scans than any camera writes; save it again")
    return read_image(io.BytesIO(data), largest=pixels, name="this image")


def _png(image: Image.Image) -> bytes:
    """An image as the bytes of a PNG file, compressed fast rather than small."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=1)
    return buffer.getvalue()


def base64_png(pixels: Image.Image | NDArray[np.generic]) -> str:
    """An image, or values from 0 to 1, as the base64 text of a PNG file."""
    if not isinstance(pixels, Image.Image):
        values = np.clip(np.asarray(pixels, np.float32), 0, 1)
        pixels = Image.fromarray((255 * values).round().astype(np.uint8))
    return base64.b64encode(_png(pixels)).decode("ascii")


def quantised(fields: Complex, ceiling: float) -> dict[str, Any]:
    """Complex maps ``(n, h, w)`` in 8 bits per part, where 127 stands for ``ceiling``."""
    scale = 127 / (ceiling or 1.0)
    count, height, width = fields.shape
    return {
        "count": count,
        "height": height,
        "width": width,
        "re": encoded(np.clip(fields.real * scale, -127, 127), np.int8),
        "im": encoded(np.clip(fields.imag * scale, -127, 127), np.int8),
    }


def encoded(values: NDArray[np.floating], kind: type[np.int8 | np.uint8]) -> str:
    """Numbers, rounded to one byte each, in base64."""
    return base64.b64encode(values.round().astype(kind).tobytes()).decode("ascii")


@cache
def sample() -> bytes:
    """A PNG file to try the page with: scikit-image's cat, or a drawing without scikit-image."""
    try:
        from skimage import data

        return _png(Image.fromarray(data.chelsea()))
    except (ImportError, OSError):
        return _png(drawing())


def drawing() -> Image.Image:
    """A house on a hill, drawn at four times its size and reduced, so that lines are smooth."""
    image = Image.new("RGB", (1800, 1200), (158, 200, 226))
    draw = ImageDraw.Draw(image)
    draw.ellipse((1300, 130, 1560, 390), fill=(250, 214, 96))
    draw.ellipse((-500, 640, 1100, 2000), fill=(96, 146, 84))
    draw.ellipse((600, 760, 2400, 2400), fill=(70, 118, 72))
    draw.rectangle((420, 480, 860, 860), fill=(226, 218, 200))
    draw.polygon([(360, 500), (640, 240), (920, 500)], fill=(168, 66, 52))
    draw.rectangle((590, 640, 700, 860), fill=(104, 70, 46))
    draw.rectangle((470, 560, 560, 650), fill=(70, 96, 122))
    draw.rectangle((730, 560, 820, 650), fill=(70, 96, 122))
    draw.rectangle((1330, 620, 1370, 900), fill=(92, 64, 44))
    draw.ellipse((1210, 400, 1490, 700), fill=(52, 102, 60))
    return image.filter(ImageFilter.GaussianBlur(3)).reduce(4)
