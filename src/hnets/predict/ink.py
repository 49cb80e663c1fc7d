"""From any picture of a digit to what a network trained on rotated MNIST expects.

MNIST scales the upright bounding box of a digit to 20 pixels. Which way is up is what is not known
here, so the longest extent in any direction is scaled instead, to its mean in MNIST: a picture that
is turned gives the same digit, turned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch.nn.functional import conv2d

from hnets.data.image_file import SMALLEST, ImageError, eight_bits
from hnets.functional import gaussian_window
from hnets.predict.contrast import Floats, ink_on_paper
from hnets.predict.parts import main_parts

__all__ = ["Ink", "Picture", "as_digit", "find_ink"]

Picture: TypeAlias = Image.Image | NDArray[np.generic]
"""A Pillow image, or an array ``(h, w)`` or ``(h, w, 3)``: uint8, or floating point from 0 to 1."""

SIDE = 28
FINE = 8
"""Pixels of the canvas for one of the digit: turning at that resolution blurs nothing."""
EXTENT = 21.7
"""Longest extent of a digit, in pixels: its mean in MNIST, where it is from 20 to 25."""
THIN, THICK = 1.7, 3.7
"""Widths of strokes in pixels: nine of ten digits of MNIST are between them."""
WIDENED, THINNED = 2.4, 3.2
"""What the strokes of other pictures are brought to."""
LARGEST = 512
"""Side of the picture that is worked on; larger ones are reduced first."""


@dataclass(frozen=True)
class Ink:
    """A digit found in a picture: light on black, centred and scaled, but not yet reduced."""

    canvas: Floats
    """``(224, 224)`` from 0 to 1, eight pixels for each of the digit's 28."""

    def digit(self, degrees: float = 0.0) -> Floats:
        """``(28, 28)`` from 0 to 1, turned counter-clockwise about the centre of mass."""
        turned = Image.fromarray(self.canvas).rotate(degrees, Image.Resampling.BICUBIC)
        return np.clip(np.asarray(turned.reduce(FINE), dtype=np.float32), 0, 1)


def as_digit(picture: Picture, degrees: float = 0.0, name: str = "the picture") -> Floats:
    """A picture of one digit as rotated MNIST has them: ``(28, 28)`` from 0 to 1, light on black.

    Of any size, dark on light or light on dark, also photographed on paper that is not evenly lit,
    and turned counter-clockwise by some degrees. ``name`` is what an error calls it.
    """
    return find_ink(picture, name).digit(degrees)


def find_ink(picture: Picture, name: str = "the picture") -> Ink:
    """The digit in a picture, found once for all the angles it is turned by."""
    ink = ink_on_paper(_grey(picture, name))
    if ink is not None:
        ink = np.where(main_parts(ink > 0.5), ink, np.float32(0))
        extent = _extent(ink > 0.5)
        if extent >= SMALLEST / 2:
            return Ink(_ordinary(_centred(ink, extent)))
    raise ImageError(
        f"no digit is to be seen in {name}: give a picture with one digit, dark on light or light "
        "on dark"
    )


def _grey(picture: Picture, name: str) -> Floats:
    """``(h, w)`` from 0 to 1, of at most `LARGEST` pixels along a side."""
    image = picture if isinstance(picture, Image.Image) else _image(picture, name)
    _check_size(*image.size, name)
    grey = eight_bits(image).convert("L")
    grey.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    grey = grey.filter(ImageFilter.GaussianBlur(max(grey.size) / LARGEST))  # the grain of cameras
    return np.asarray(grey, dtype=np.float32) / np.float32(255)


def _image(values: NDArray[np.generic], name: str) -> Image.Image:
    values = np.asarray(values)
    if values.ndim not in (2, 3) or values.shape[2:] not in ((), (3,)):
        raise ImageError(
            f"{name} should be an array of shape (height, width) or (height, width, 3), got "
            f"{values.shape}"
        )
    _check_size(values.shape[1], values.shape[0], name)
    if values.dtype != np.uint8:
        if values.dtype.kind != "f" or not (values.min() >= 0 and values.max() <= 1):
            raise ImageError(
                f"{name} should hold uint8, or floating point from 0 to 1, got {values.dtype} "
                f"from {values.min()} to {values.max()}"
            )
        values = (values * 255).round().astype(np.uint8)
    return Image.fromarray(values)


def _check_size(width: int, height: int, name: str) -> None:
    if min(width, height) < SMALLEST:
        raise ImageError(
            f"{name} is {width}×{height} pixels, and at least {SMALLEST}×{SMALLEST} are needed; "
            "give a larger picture"
        )


def _extent(mask: NDArray[np.bool_]) -> float:
    """The longest extent of what is set, over all directions, in pixels."""
    rows = np.flatnonzero(mask.any(1))
    if not rows.size:
        return 0.0
    first = mask[rows].argmax(1)
    last = mask.shape[1] - 1 - mask[rows][:, ::-1].argmax(1)
    y, x = np.concatenate([rows, rows]), np.concatenate([first, last])
    angles = np.radians(np.arange(0, 180, 3))
    along = np.multiply.outer(np.cos(angles), x) + np.multiply.outer(np.sin(angles), y)
    return float(np.ptp(along, axis=1).max()) + 0.9


def _centred(ink: Floats, extent: float) -> Floats:
    """The canvas, with the centre of mass in its middle and the extent scaled to `EXTENT`."""
    y, x = (
        float((ink.sum(axis) * (np.arange(n) + 0.5)).sum() / ink.sum())
        for axis, n in ((1, ink.shape[0]), (0, ink.shape[1]))
    )
    reach = SIDE / 2 * extent / EXTENT
    margin = int(np.ceil(reach)) + 1  # what is outside the picture is paper
    image = Image.fromarray(np.pad(ink, margin))
    y, x = y + margin, x + margin
    side = SIDE * FINE
    box = (x - reach, y - reach, x + reach, y + reach)
    canvas = image.resize((side, side), Image.Resampling.BICUBIC, box)
    return np.clip(np.asarray(canvas, dtype=np.float32), 0, 1)


def _ordinary(canvas: Floats) -> Floats:
    """Widen strokes that would fade away in 28 pixels, and thin those that would run together."""
    down, across = np.gradient(canvas)
    width = 2 * float(canvas.sum()) / float(np.hypot(down, across).sum())  # area over half outline
    if width < THIN * FINE:
        sigma = np.sqrt((WIDENED * FINE) ** 2 - width**2) / 2.355  # half as high at that width
        blurred = _blurred(canvas, sigma)
        return _cut(blurred / float(np.median(blurred[canvas > 0.5])), 0.5, 0.25)
    if width > THICK * FINE:
        sigma = (width - THINNED * FINE) / 2  # what is lost on each side
        return _cut(_blurred(canvas, sigma), 0.841, 0.1)  # an edge's value there
    return canvas


def _cut(values: Floats, level: float, softness: float) -> Floats:
    """From 0 to 1 where the values pass a level."""
    return np.clip(0.5 + (values - level) / (2 * softness), 0, 1).astype(np.float32)


def _blurred(canvas: Floats, sigma: float) -> Floats:
    reach = int(3 * sigma)
    window = gaussian_window(2 * reach + 1, sigma).float()
    across = conv2d(
        torch.from_numpy(canvas)[None, None], window.view(1, 1, 1, -1), padding=(0, reach)
    )
    blurred: Floats = conv2d(across, window.view(1, 1, -1, 1), padding=(reach, 0))[0, 0].numpy()
    return blurred
