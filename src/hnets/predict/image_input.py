"""The images that predictors take, as arrays of red, green and blue."""

from __future__ import annotations

import os
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from hnets.data.image_file import LARGEST, ImageError, eight_bits, read_image

Floats: TypeAlias = NDArray[np.float32]
ImageLike: TypeAlias = Image.Image | NDArray[Any] | Tensor | str | os.PathLike[str]
"""The path of a file, a Pillow image, or an array or tensor ``(height, width)``, ``(height, width,
3)``, or with alpha ``(height, width, 4)``, of uint8, uint16, or floating point from 0 to 1."""
Images: TypeAlias = list[Any] | tuple[Any, ...]
"""Several of them."""

_WHOLE = {"bool": 1, "uint8": 255, "uint16": 65535}
_SLACK = 1e-6  # of rounding, below 0 and above 1
_SHAPES = "(height, width), (height, width, 3) or (height, width, 4)"


def rgb(image: ImageLike, name: str = "the image") -> NDArray[Any]:
    """Red, green and blue ``(height, width, 3)``: uint8, or float32 from 0 to 1.

    Transparent pixels are laid on white. ``name`` is what an error calls the image.

    >>> rgb(np.zeros((20, 30), np.uint8)).shape
    (20, 30, 3)
    """
    if isinstance(image, str | os.PathLike):
        image = read_image(image, smallest=1, largest=2 * LARGEST)
    if isinstance(image, Image.Image):
        if 0 in image.size:
            raise ImageError(f"{name} is {image.width}×{image.height} pixels: it is empty")
        return np.asarray(eight_bits(image))
    values = np.asarray(_array(image) if isinstance(image, Tensor) else image)
    if values.ndim and not values.size:
        raise ImageError(f"{name} should have pixels, got an array of shape {values.shape}")
    channels = 1 if values.ndim == 2 else values.shape[-1] if values.ndim == 3 else 0
    if channels not in (1, 3, 4):
        colours_first = values.ndim == 3 and values.shape[0] in (1, 3, 4)
        tensor = isinstance(image, Tensor)
        last = "image.movedim(0, -1)" if tensor else "numpy.moveaxis(image, 0, -1)"
        advice = f"; put the colours last with {last}"
        got = values.shape if values.ndim else f"a {type(image).__name__}"
        raise ImageError(
            f"{name} should be a path, a Pillow image or an array of shape {_SHAPES}, got "
            f"{got}{advice if colours_first else ''}"
        )
    values = _in_range(values.reshape(*values.shape[:2], channels), name)
    if channels == 4:
        alpha = _floats(values[..., 3:])
        return 1 - alpha + alpha * _floats(values[..., :3])
    return np.broadcast_to(values, (*values.shape[:2], 3))


def _array(image: Tensor) -> NDArray[Any]:
    """A tensor of any device, which NumPy has no bfloat16 for."""
    image = image.detach().cpu()
    values: NDArray[Any] = (image.float() if image.is_floating_point() else image).numpy()
    return values


def _in_range(values: NDArray[Any], name: str) -> NDArray[Any]:
    kind = values.dtype.name
    if kind == "uint8":
        return values
    if kind in _WHOLE:
        return values.astype(np.float32) / np.float32(_WHOLE[kind])
    wanted = f"{name} should hold uint8, uint16, or floating point from 0 to 1"
    if values.dtype.kind not in "iuf":
        raise ImageError(f"{wanted}, got {kind}; convert it first")
    low, high = values.min(), values.max()
    if values.dtype.kind == "f" and low >= -_SLACK and high <= 1 + _SLACK:  # false of NaN
        return np.clip(values.astype(np.float32, copy=False), 0, 1)
    if np.isnan(high):
        advice = "replace the NaN in it"
    elif low >= 0 and high <= 255:
        advice = "if white is 255, use image.astype(numpy.uint8)"
    else:
        advice = "scale it first: black is 0, and white is 1"
    raise ImageError(f"{wanted}, got {kind} from {low} to {high}; {advice}")


def _floats(values: NDArray[Any]) -> Floats:
    return np.divide(values, 255 if values.dtype == np.uint8 else 1, dtype=np.float32)
