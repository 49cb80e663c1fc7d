"""Read an image file as a viewer shows it: upright, opaque, with eight bits per channel."""

from __future__ import annotations

import itertools
import logging
import math
import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from hnets.errors import InputError, reason

FORMATS = {
    "PNG": (".png",),
    "JPEG": (".jpg", ".jpeg"),
    "WebP": (".webp",),
    "GIF": (".gif",),
    "BMP": (".bmp",),
    "TIFF": (".tif", ".tiff"),
    "PPM": (".ppm", ".pgm", ".pbm"),
}
"""The formats that are read, and their suffixes; for others Pillow may start another program."""
SUFFIXES = tuple(itertools.chain(*FORMATS.values()))
SMALLEST = 16
_PER_BYTE = {"PNG": 8 * 1032, "GIF": 2731}
"""Pixels at most that a byte of a file stands for: of one bit each, by deflate, and by LZW."""
_MANY = 2**22
"""Pixels of an image that may have fewer than it says: more would take a network too long."""
LARGEST = 89_478_485
"""Pixels from which on Pillow warns of a decompression bomb."""
_STRIP = 2**20
logging.getLogger("PIL").addHandler(logging.NullHandler())  # or it reports damage on stderr
stderr_lock = threading.Lock()
"""Held while what libtiff writes on stderr is discarded; hold it to write there from a thread."""


class ImageError(InputError):
    """A file that cannot be used as an image, and why."""


def eight_bits(image: Image.Image) -> Image.Image:
    """An image of any mode as RGB: on white where it is transparent, stretched beyond 8 bits."""
    if is_deep(image):  # where Pillow itself would clip at 255
        return Image.fromarray(_stretched(np.asarray(image))).convert("RGB")
    image = opaque(image, "white")
    return image if image.mode == "RGB" else image.convert("RGB")  # which copies, large as it is


def is_deep(image: Image.Image) -> bool:
    """Whether an image has more than eight bits per channel."""
    return image.mode.startswith(("I", "F"))


def opaque(image: Image.Image, ground: str) -> Image.Image:
    """An image laid on a ground of one colour; itself if nothing of it is transparent."""
    if not image.has_transparency_data:
        return image
    above = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", above.size, ground), above).convert("RGB")


def format_names(formats: Iterable[str] = FORMATS) -> str:
    """The names of formats, for a sentence.

    >>> format_names(["PNG", "JPEG", "GIF"])
    'PNG, JPEG or GIF'
    """
    *names, last = formats
    return f"{', '.join(names)} or {last}"


def read_image(
    source: str | os.PathLike[str] | BinaryIO,
    smallest: int = SMALLEST,
    largest: int = LARGEST,
    name: str | None = None,
    needed: int = 0,
    convert: Callable[[Image.Image], Image.Image] = eight_bits,
) -> Image.Image:
    """A file as an RGB image, or an `ImageError` that says in one line what is wrong with it.

    The camera's orientation is applied, transparency is laid on white, and images of 16 or 32 bits
    are stretched from their darkest to their brightest value. Of an animation, the first frame.

    Args:
        source: the path of a regular file in one of `FORMATS`, or such a file, open and seekable.
        smallest: pixels that either side must have.
        largest: pixels that the whole may have; Pillow itself allows no more than twice `LARGEST`.
        name: what an error calls it; by default the path.
        needed: pixels that the longer side needs, if that is all: JPEGs that have two, four or
            eight times as many are decoded at that fraction of their size, which is faster.
        convert: what is made of the decoded image; by default RGB.
    """
    name = name or str(source)
    if isinstance(source, str | os.PathLike):
        source = _regular_file(Path(source), name)
    try:
        with (
            warnings.catch_warnings(action="ignore"),  # odd metadata, bombs within the limit
            Image.open(source, formats=tuple(FORMATS)) as opened,
        ):
            width, height = opened.size
            if min(width, height) < smallest:
                raise ImageError(
                    f"{name} is {width}×{height} pixels, and at least {smallest}×{smallest} are "
                    "needed; give a larger image"
                )
            if width * height > largest:
                raise Image.DecompressionBombError
            if _is_short(opened, source):
                raise ValueError("it has fewer pixels than it says")
            if needed:
                part = needed / max(width, height)
                opened.draft(None, (math.ceil(width * part), math.ceil(height * part)))
            with stderr_discarded() if opened.format == "TIFF" else nullcontext():
                opened.load()
            ImageOps.exif_transpose(opened, in_place=True)
            return convert(opened)
    except ImageError:
        raise
    except UnidentifiedImageError:
        what = "is not an image that can be read" if _bytes(source) else "is empty"
        raise ImageError(f"{name} {what}; give a {format_names()} file") from None
    except Image.DecompressionBombError:
        raise ImageError(
            f"{name} has more than {largest // 10**6} million pixels; make it smaller first"
        ) from None
    except Exception as error:  # decoders of damaged files raise anything
        if isinstance(error, OSError) and error.strerror:
            raise ImageError(f"{name} cannot be read ({error.strerror})") from None
        raise ImageError(
            f"{name} is damaged or cut short ({reason(error)}); save it again from its source"
        ) from error


def _is_short(image: Image.Image, source: Path | BinaryIO) -> bool:
    """Whether a file cannot have all the pixels that it says; Pillow reads the others as black.

    A few hundred bytes that say a hundred million pixels would keep a network busy for minutes.
    """
    if image.format == "TIFF":
        ends = [extents[3] for _, extents, *_ in getattr(image, "tile", ()) if extents]
        return bool(ends) and max(ends) < image.height
    pixels = image.width * image.height
    densest = _PER_BYTE.get(image.format or "", pixels)
    return pixels > max(_MANY, densest * _bytes(source))


def _bytes(source: Path | BinaryIO) -> int:
    if isinstance(source, Path):
        return source.stat().st_size
    position = source.tell()
    size = source.seek(0, os.SEEK_END)
    source.seek(position)
    return size


def _regular_file(path: Path, name: str) -> Path:
    """The path, if it is of a regular file: to open a pipe may wait for ever."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise ImageError(f"there is no file {name}; give the path of an image") from None
    except (OSError, ValueError) as error:  # a loop of links, a name too long or with a NUL
        message = getattr(error, "strerror", None) or error
        raise ImageError(f"{name} cannot be read ({message})") from None
    if stat.S_ISDIR(mode):
        raise ImageError(f"{name} is a folder; give one image in it")
    if not stat.S_ISREG(mode):
        raise ImageError(f"{name} is not a regular file, but a pipe or device; give an image file")
    return path


@contextmanager
def stderr_discarded() -> Iterator[None]:
    """Discard what libraries in C write on file descriptor 2, as libtiff does of damaged files."""
    with stderr_lock, open(os.devnull, "wb") as null:
        try:
            stderr = os.dup(2)
        except OSError:  # it is closed
            yield
            return
        os.dup2(null.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


def centre_crop(image: Image.Image) -> Image.Image:
    """The largest square in the middle of an image.

    >>> centre_crop(Image.new("RGB", (30, 20))).size
    (20, 20)
    """
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    return image.crop((left, top, left + side, top + side))


def _stretched(values: NDArray[Any]) -> NDArray[np.uint8]:
    """From the lowest to the highest finite value, in strips: the image may be large."""
    rows = max(1, _STRIP // values.shape[1])
    strips = [slice(top, top + rows) for top in range(0, len(values), rows)]
    finite = (values[strip][np.isfinite(values[strip])] for strip in strips)
    ends = [float(end) for part in finite if part.size for end in (part.min(), part.max())]
    if not ends:
        raise ValueError("it holds no finite value")
    low, high = min(ends), max(ends)
    stretched = np.empty(values.shape, np.uint8)
    for strip in strips:
        part = np.where(np.isfinite(values[strip]), values[strip], low) - low
        stretched[strip] = (part * (255 / max(high - low, 1e-30))).round()
    return stretched
