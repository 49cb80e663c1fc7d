"""Colours and 8-bit images of what networks find: complex numbers, edges and their orientations.

A phase is a hue on a circle of the OKLab colour space, where equal steps look equally large and no
hue looks brighter than another, and a magnitude is a brightness. Phase 0 is red, and phases grow
through yellow, green and blue. An edge has the hue of twice its angle: it is the same after half a
rotation, and so is its colour.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

_STRIP = 2**18
"""Pixels that are coloured at once: in between they take a hundred bytes each."""
_WHEEL, _ROOM = (48, 160), 96
"""Sides of the legend, and the smallest side of an image that has room for it."""
_MARK = np.array([214, 0, 60], np.float32)
"""The colour of edges on a photograph."""
_LIGHTNESS, _CHROMA, _HUE_OF_ZERO = 0.80, 0.155, 0.45
_TO_CONES = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


def phase_colours(z: ArrayLike, ceiling: float | None = None) -> NDArray[np.float64]:
    """Colours ``(..., 3)``, red, green and blue from 0 to 1, of complex numbers ``(...)``.

    Zero is black; magnitudes from ``ceiling`` upwards are fully bright. By default that is the 99th
    percentile of the magnitudes, so that a few large ones do not darken the rest.

    >>> phase_colours([0, 1, -1], ceiling=1).round(2)
    array([[0.  , 0.  , 0.  ],
           [1.  , 0.58, 0.54],
           [0.  , 0.85, 0.93]])
    """
    z = np.asarray(z, dtype=np.complex128)
    size = np.abs(z)
    if ceiling is None:
        ceiling = float(np.percentile(size, 99)) if size.size else 1.0
    # Lightness is already close to what the eye sees; the root opens the shadows a little.
    bright = np.clip(size / ceiling, 0, 1) ** 0.8 if ceiling > 0 else np.zeros_like(size)
    hue = np.angle(z) + _HUE_OF_ZERO
    lab = np.stack([_LIGHTNESS + 0 * hue, _CHROMA * np.cos(hue), _CHROMA * np.sin(hue)], axis=-1)
    linear = ((lab * bright[..., None]) @ _TO_CONES.T) ** 3 @ _TO_RGB.T
    linear = np.clip(linear, 0, 1)
    # Linear light to sRGB.
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def colour_wheel(size: int = 256) -> NDArray[np.float64]:
    """The legend of `phase_colours` as an image: the numbers of the unit disc, y up.

    ``(size, size, 4)``, the fourth channel being 1 in the disc and 0 outside.

    >>> colour_wheel(64).shape
    (64, 64, 4)
    """
    x, y, inside = _disc(size)
    colours = phase_colours(x + 1j * y, ceiling=1)
    return np.concatenate([colours, inside[..., None]], axis=-1)


def orientation_colours(
    strength: ArrayLike, angle: ArrayLike, ceiling: float = 1.0
) -> NDArray[np.float64]:
    """Colours ``(..., 3)`` from 0 to 1 of edges; those of strength ``ceiling`` are brightest.

    >>> lines = orientation_colours([1, 1, 0], [0, np.pi / 2, 1])     # horizontal, vertical, none
    >>> lines.round(2)
    array([[1.  , 0.58, 0.54],
           [0.  , 0.85, 0.93],
           [0.  , 0.  , 0.  ]])
    """
    twice = 2j * np.asarray(angle, dtype=np.float64)
    return phase_colours(np.asarray(strength) * np.exp(twice), ceiling)


def orientation_wheel(size: int = 256) -> NDArray[np.float64]:
    """The legend of `orientation_colours`: ``(size, size, 4)``, with alpha.

    >>> orientation_wheel(64).shape
    (64, 64, 4)
    """
    x, y, inside = _disc(size)
    colours = orientation_colours(np.minimum(np.hypot(x, y), 1), np.arctan2(y, x))
    return np.concatenate([colours, inside[..., None]], axis=-1)


def _disc(size: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """x, y and the opacity of pixels in the unit disc, whose border is soft by one pixel."""
    offset = (np.arange(size) - (size - 1) / 2) / (size / 2)
    x, y = offset, -offset[:, None]
    return x, y, np.clip((1 - np.hypot(x, y)) * size / 2, 0, 1)


def edges_image(strength: NDArray[np.floating]) -> Image.Image:
    """Strengths from 0 to 1 in 8 bits, black to white."""
    return Image.fromarray(_bytes(lambda part: part[..., None], strength)[..., 0])


def orientation_image(strength: NDArray[np.floating], angle: NDArray[np.floating]) -> Image.Image:
    """The hue is the direction of an edge, the brightness its strength.

    A wheel in the corner is the legend: a line has the colour of the wheel where it points to.
    Small images have no room for it.
    """
    image = Image.fromarray(_bytes(orientation_colours, strength, angle))
    side = min(image.size)
    if side >= _ROOM:
        size = int(np.clip(side // 5, *_WHEEL))
        legend = Image.fromarray((255 * orientation_wheel(size)).round().astype(np.uint8))
        at = image.width - size - size // 8, image.height - size - size // 8
        image.paste(legend.convert("RGB"), at, legend.getchannel("A"))
    return image


def overlay_image(image: NDArray[Any], strength: NDArray[np.floating]) -> Image.Image:
    """Edges in red over an image as `rgb` gives it, which is made paler."""
    white = 255 if image.dtype == np.uint8 else 1

    def laid(pixels: NDArray[Any], share: NDArray[Any]) -> NDArray[Any]:
        pale = (0.6 * 255 / white) * pixels + 0.4 * 255
        return (pale + (_MARK - pale) * share[..., None]) / 255

    return Image.fromarray(_bytes(laid, image, strength))


def _bytes(colour: Callable[..., NDArray[Any]], *maps: NDArray[Any]) -> NDArray[np.uint8]:
    """Colours ``(height, width, n)`` in 8 bits, strip by strip: images may be large."""
    height, width = maps[0].shape[:2]
    rows = max(1, _STRIP // width)
    strips = []
    for top in range(0, height, rows):
        values = colour(*(each[top : top + rows] for each in maps))
        strips.append((255 * np.clip(values, 0, 1)).round().astype(np.uint8))
    return np.concatenate(strips)
