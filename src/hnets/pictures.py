"""Read a picture as its owner sees it: upright, opaque, with eight bits a colour."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from hnets.errors import InputError

__all__ = ["PictureError", "centre_square", "eight_bits", "read_picture"]

SMALLEST = 16


class PictureError(InputError):
    """A file that cannot be used as a picture, and why."""


def read_picture(path: str | os.PathLike[str]) -> Image.Image:
    """A file as an RGB image, or a `PictureError` that says in one line what is wrong with it.

    Any format that Pillow reads: the camera's orientation is applied, transparency is laid on
    white, and pictures of 16 or 32 bits are stretched from their darkest to their brightest value.
    Of an animation, the first frame.
    """
    path = Path(path)
    if path.is_dir():
        raise PictureError(f"{path} is a folder; give one picture in it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd metadata ...
            warnings.simplefilter("error", Image.DecompressionBombWarning)  # ... but not this one
            with Image.open(path) as opened:
                _check_size(path, opened)
                opened.load()
                image = eight_bits(ImageOps.exif_transpose(opened))
    except PictureError:
        raise
    except FileNotFoundError:
        raise PictureError(f"there is no file {path}; give the path of a picture") from None
    except PermissionError:
        raise PictureError(f"{path} may not be read; check its permissions") from None
    except UnidentifiedImageError:
        size = path.stat().st_size
        what = "is empty" if size == 0 else "is not a picture that Pillow can read"
        raise PictureError(f"{path} {what}; give a PNG, JPEG, TIFF, WebP or GIF file") from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        limit = (Image.MAX_IMAGE_PIXELS or 0) // 10**6
        raise PictureError(
            f"{path} has more than {limit} million pixels; make it smaller first"
        ) from None
    except Exception as error:  # decoders of damaged files raise anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise PictureError(
            f"{path} is damaged or cut short ({reason}); save it again from its source"
        ) from error
    return image


def centre_square(image: Image.Image) -> Image.Image:
    """The largest square in the middle of an image.

    >>> centre_square(Image.new("RGB", (30, 20))).size
    (20, 20)
    """
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((left, top, left + side, top + side))


def _check_size(path: Path, image: Image.Image) -> None:
    if min(image.size) < SMALLEST:
        raise PictureError(
            f"{path} is {image.width}×{image.height} pixels, and at least {SMALLEST}×{SMALLEST} "
            "are needed; give a larger picture"
        )


def eight_bits(image: Image.Image) -> Image.Image:
    """An image of any mode as RGB: on white where it is transparent, stretched beyond 8 bits."""
    if image.mode.startswith(("I", "F")):  # where Pillow itself would clip at 255
        values = np.asarray(image, dtype=np.float64)
        values = np.where(np.isfinite(values), values, np.nan)
        if np.isnan(values).all():
            raise ValueError("it holds no finite value")
        low, high = np.nanmin(values), np.nanmax(values)
        scaled = (np.nan_to_num(values, nan=low) - low) * (255 / max(high - low, 1e-30))
        return Image.fromarray(scaled.round().astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        opaque = image.convert("RGBA")
        white = Image.new("RGBA", opaque.size, "white")
        return Image.alpha_composite(white, opaque).convert("RGB")
    return image.convert("RGB")
