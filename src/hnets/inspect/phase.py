"""Complex numbers as colours: the phase is the hue, the magnitude the brightness.

Hues lie on a circle of the OKLab colour space, where equal steps look equally large and no hue
looks brighter than another: what seems bright is large. Phase 0 is red, and phases grow through
yellow, green and blue.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["colour_wheel", "phase_colours"]

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
    """The legend of `phase_colours` as a picture: the numbers of the unit disc, y up.

    ``(size, size, 4)``, the fourth channel being 1 in the disc and 0 outside.

    >>> colour_wheel(64).shape
    (64, 64, 4)
    """
    offset = (np.arange(size) - (size - 1) / 2) / (size / 2)
    z = offset[None, :] - 1j * offset[:, None]
    inside = np.clip((1 - np.abs(z)) * size / 2, 0, 1)  # one pixel of soft edge
    return np.concatenate([phase_colours(z, ceiling=1), inside[..., None]], axis=-1)
