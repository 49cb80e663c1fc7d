"""From any image of a digit to what a network trained on rotated MNIST expects.

MNIST scales the upright bounding box of a digit to 20 pixels. Which way is up is not known here, so
the longest extent in any direction is scaled instead, to its mean in MNIST: a rotated image gives
the same digit, rotated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch.nn.functional import conv2d, max_pool2d

from hnets.data.image_file import SMALLEST, ImageError, eight_bits
from hnets.functional import gaussian_window
from hnets.predict.image_input import Floats, ImageLike, rgb

SIDE = 28
FINE = 8
"""Pixels of the canvas per pixel of the digit: rotating at that resolution does not blur."""
EXTENT = 21.7
"""Longest extent of a digit, in pixels: its mean in MNIST, where it is from 20 to 25."""
NARROW, WIDE = 1.7, 3.7
"""Stroke widths in pixels: nine of ten digits of MNIST are between them."""
WIDENED, NARROWED = 2.4, 3.2
"""The stroke widths that other images are brought to."""
LARGEST = 512
"""Longest side of the image that is worked on; larger ones are reduced first."""
FAINTEST = 0.03
"""The least visible contrast between ink and paper, relative to that of black and white."""
_COARSE = 48
"""Side of the reduced image that the paper is estimated from."""
_POWERS = ((0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
"""Of y and x, in the surface that follows the paper; the first three are a plane."""
_BLOCKS = 128
"""Blocks along the longer side: parts nearer to each other than one block are one part."""


@dataclass(frozen=True)
class Ink:
    """A digit cut out of an image: light on black, centred and scaled, but not yet reduced."""

    canvas: Floats
    """``(224, 224)`` from 0 to 1, eight pixels for each of the digit's 28."""

    def digit(self, degrees: float = 0.0) -> Floats:
        """``(28, 28)`` from 0 to 1, rotated counter-clockwise about the centre of mass."""
        rotated = Image.fromarray(self.canvas).rotate(degrees, Image.Resampling.BICUBIC)
        return np.clip(np.asarray(rotated.reduce(FINE), dtype=np.float32), 0, 1)


def as_digit(image: ImageLike, degrees: float = 0.0, name: str = "the image") -> Floats:
    """An image of one digit as rotated MNIST has them: ``(28, 28)`` from 0 to 1, light on black.

    Of any size, dark on light or light on dark, also photographed on unevenly lit paper, and
    rotated counter-clockwise by some degrees. ``name`` is what an error calls it.
    """
    return find_ink(image, name).digit(degrees)


def find_ink(image: ImageLike, name: str = "the image") -> Ink:
    """The digit in an image, located once for all the angles it is rotated by."""
    ink = _ink_on_paper(_grey(image, name))
    if ink is not None:
        ink = np.where(_main_parts(ink > 0.5), ink, np.float32(0))
        extent = _extent(ink > 0.5)
        if extent >= SMALLEST / 2:
            return Ink(_ordinary(_centred(ink, extent)))
    raise ImageError(
        f"no digit is visible in {name}: give an image of one digit, dark on light or light on dark"
    )


def _grey(image: ImageLike, name: str) -> Floats:
    """``(h, w)`` from 0 to 1, of at most `LARGEST` pixels along a side."""
    if not isinstance(image, Image.Image):
        values = rgb(image, name)
        image = Image.fromarray(
            values if values.dtype == np.uint8 else (values * 255).round().astype(np.uint8)
        )
    if min(image.size) < SMALLEST:
        raise ImageError(
            f"{name} is {image.width}×{image.height} pixels, and at least {SMALLEST}×{SMALLEST} "
            "are needed; give a larger image"
        )
    grey = eight_bits(image).convert("L")
    grey.thumbnail((LARGEST, LARGEST), Image.Resampling.LANCZOS)
    grey = grey.filter(ImageFilter.GaussianBlur(max(grey.size) / LARGEST))  # against camera grain
    return np.asarray(grey, dtype=np.float32) / np.float32(255)


# Ink apart from paper, under uneven light ---------------------------------------------------------


def _ink_on_paper(grey: Floats) -> Floats | None:
    """From 0 where there is paper to 1 where there is ink; None where there is only paper."""
    paper = _paper(grey)
    contrast: Floats = grey - paper
    # Ink is what is far from the paper, on either side of it.
    if float((contrast * np.abs(contrast)).sum()) < 0:
        contrast /= -np.maximum(paper, 0.05)  # dark ink absorbs a share of the light
    # A standard deviation, of the lowest third: ink is at most the other two.
    noise = 2.6 * float(np.percentile(np.abs(contrast), 30))
    highest = np.percentile(contrast, 99.9)  # but for a few pixels that are noise
    above = contrast[contrast > highest / 2]
    level = float(np.median(above)) if above.size else 0.0  # of full ink
    if level < max(FAINTEST, 6 * noise):
        return None
    floor = min(3 * noise, level / 3)
    return np.clip((contrast - np.float32(floor)) / np.float32(level - floor), 0, 1)


def _paper(grey: Floats) -> Floats:
    """A smooth surface through the image's border and through similar pixels inside.

    A polynomial of second order follows a lamp at the side and the dark corners of a lens, but no
    stroke.
    """
    coarse = Image.fromarray(grey).resize((_COARSE, _COARSE), Image.Resampling.BOX)
    values = np.asarray(coarse, dtype=np.float64).ravel()
    at = _positions(_COARSE)
    terms = np.stack([np.multiply.outer(at**i, at**j).ravel() for i, j in _POWERS], axis=-1)
    # The border is a quarter of the reduced image, and counts for four fifths: paper is there.
    border = np.maximum.outer(np.abs(at), np.abs(at)).ravel() > 0.88
    plane = _fit(terms[:, :3], values, np.where(border, 14.0, 1.0))
    away = np.abs(values - terms[:, :3] @ plane)
    near = away <= max(0.3 * float(np.percentile(away, 98)), 0.01)
    weights = _fit(terms[near], values[near], np.ones(near.sum()))
    rows, columns = map(_positions, grey.shape)
    surface = np.zeros(grey.shape)
    for weight, (i, j) in zip(weights, _POWERS, strict=True):
        surface += weight * np.multiply.outer(rows**i, columns**j)
    return surface.astype(np.float32)


def _positions(count: int) -> NDArray[np.float64]:
    """The centres of ``count`` pixels between −1 and 1."""
    return (2 * np.arange(count, dtype=np.float64) + 1) / count - 1


def _fit(
    terms: NDArray[np.float64], values: NDArray[np.float64], importance: NDArray[np.float64]
) -> NDArray[np.floating]:
    """Weights of the terms with the least sum of absolute differences: most of it is paper."""
    weights: NDArray[np.floating] = np.zeros(terms.shape[1])
    weights[0] = np.median(values)
    for _ in range(20):
        root = np.sqrt(importance / np.maximum(np.abs(values - terms @ weights), 0.01))
        weights, *_ = np.linalg.lstsq(root[:, None] * terms, root * values, rcond=None)
    return weights


# Connected parts ----------------------------------------------------------------------------------


def _main_parts(drawn: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where the largest connected part is, and others a tenth as large; specks are left out.

    A part that touches the border of the image belongs to another object, unless the largest does.
    """
    block = -(-max(drawn.shape) // _BLOCKS)
    padded = np.pad(drawn, [(0, -n % block) for n in drawn.shape])
    rows, columns = (n // block for n in padded.shape)
    amount = padded.reshape(rows, block, columns, block).sum((1, 3))
    labels = _labels(amount > 0)
    size = np.bincount(labels.ravel(), amount.ravel())
    size[0] = 0
    keep = size >= 0.1 * size.max()
    border = np.zeros(len(size), dtype=bool)
    border[np.concatenate([labels[[0, -1]].ravel(), labels[:, [0, -1]].ravel()])] = True
    if not border[size.argmax()]:
        keep &= ~border
    keep[0] = False
    parts = torch.from_numpy(keep[labels].astype(np.float32))[None, None]
    grown = max_pool2d(parts, 3, 1, 1)[0, 0].numpy() > 0  # the soft edges of strokes too
    whole = grown.repeat(block, 0).repeat(block, 1)
    return whole[: drawn.shape[0], : drawn.shape[1]]


def _labels(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """A number for each connected part, counting diagonal neighbours; 0 outside."""
    inside = torch.from_numpy(mask.astype(np.float32))[None, None]
    labels = inside * torch.arange(1, mask.size + 1).view_as(inside)  # each pixel its own number
    while True:
        spread = max_pool2d(labels, 3, 1, 1) * inside
        if torch.equal(spread, labels):
            break
        # A number is that of a pixel, which may have received a higher one by now.
        labels = spread.flatten()[(spread.long() - 1).clamp(0)] * inside
    _, numbers = np.unique(np.append(labels.numpy().ravel(), 0), return_inverse=True)
    return numbers[:-1].reshape(mask.shape)


# The size, place and stroke width of MNIST --------------------------------------------------------


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
    margin = int(np.ceil(reach)) + 1  # outside the image there is paper
    padded = Image.fromarray(np.pad(ink, margin))
    y, x = y + margin, x + margin
    side = SIDE * FINE
    box = (x - reach, y - reach, x + reach, y + reach)
    canvas = padded.resize((side, side), Image.Resampling.BICUBIC, box)
    return np.clip(np.asarray(canvas, dtype=np.float32), 0, 1)


def _ordinary(canvas: Floats) -> Floats:
    """Widen strokes that would fade away in 28 pixels, and narrow those that would merge."""
    down, across = np.gradient(canvas)
    width = 2 * float(canvas.sum()) / float(np.hypot(down, across).sum())  # area over half outline
    if width < NARROW * FINE:
        sigma = np.sqrt((WIDENED * FINE) ** 2 - width**2) / 2.355  # half as high at that width
        blurred = _blurred(canvas, sigma)
        return _cut(blurred / float(np.median(blurred[canvas > 0.5])), 0.5, 0.25)
    if width > WIDE * FINE:
        sigma = (width - NARROWED * FINE) / 2  # what is lost on each side
        return _cut(_blurred(canvas, sigma), 0.841, 0.1)  # a blurred edge's value there
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
