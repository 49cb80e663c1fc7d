"""Pictures that come from outside."""

from __future__ import annotations

import io
import warnings

from PIL import Image, ImageDraw, ImageFilter, UnidentifiedImageError

from hnets.data.image_file import read_image
from hnets.web.refusal import Refused

__all__ = ["read", "sample"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
"""What browsers send. Pillow reads more, for some of which it starts other programs."""
PIXELS = 24_000_000
SCANS = 100
"""Of a progressive JPEG; cameras make ten. A small file can ask for thousands, each as slow as a
picture of its own."""


def read(data: bytes, pixels: int = PIXELS) -> Image.Image:
    """An uploaded file as an RGB image; whatever is wrong with it is `Refused` in one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data), formats=FORMATS) as opened:
                width, height, kind = *opened.size, opened.format
    except Image.DecompressionBombError:
        width, height, kind = pixels, pixels, None
    except UnidentifiedImageError:
        raise Refused(415, "this is not a PNG, JPEG, WebP, GIF or BMP picture") from None
    except Exception:  # decoders of damaged files raise anything
        raise Refused(400, "this picture is damaged; save it again from its source") from None
    if width * height > pixels:
        millions = f"{pixels / 10**6:g} million"
        raise Refused(413, f"this picture has more than {millions} pixels; give a smaller one")
    if kind != "PNG" and data.count(b"\xff\xda") > SCANS and data[:2] == b"\xff\xd8":
        raise Refused(400, "this JPEG has more scans than any camera makes; save it again")
    return read_image(io.BytesIO(data), largest=pixels, name="this picture")


def sample() -> Image.Image:
    """A picture for those who have none at hand: scikit-image's cat, or a drawing without it."""
    try:
        from skimage import data

        return Image.fromarray(data.chelsea())
    except (ImportError, OSError):
        return _drawing()


def _drawing() -> Image.Image:
    """A house on a hill, at four times its size and then reduced, so that lines are smooth."""
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
