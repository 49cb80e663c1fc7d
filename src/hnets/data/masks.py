"""A folder of images with masks, which mark the pixels that are looked for.

``images`` holds the images and ``masks`` an image of the same name for each, white where pixels are
marked: ``images/a.jpg`` and ``masks/a.png``, or ``masks/a_mask.png``.
"""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.dataset import OUTSIDE, SegmentationSet
from hnets.data.image_file import SUFFIXES, ImageError, read_image
from hnets.data.listing import cut, fit, frame
from hnets.errors import InputError

log = logging.getLogger(__name__)

IMAGES, MASKS = "images", "masks"


def has_masks(folder: Path) -> bool:
    """Whether a folder, or ``train`` in it, holds images and masks rather than classes."""
    places = (folder, folder / "train")
    return any((place / IMAGES).is_dir() and (place / MASKS).is_dir() for place in places)


def load_masks(folder: Path, split: str, size: int, channels: int) -> SegmentationSet:
    """One split: that of the folder of its name, or else a cut of all images, 80 : 10 : 10.

    Images become ``size`` × ``size`` as by `fit`. The margins that this adds are not learned from.
    Files that cannot be read are left out, with one warning.
    """
    pairs = list[tuple[Path, Path]]()
    for part in split.split("+"):
        own = folder / part
        if has_masks(own):
            pairs += _pairs(own)
        elif (folder / IMAGES).is_dir():
            pairs += cut(_pairs(folder), part, folder / IMAGES)
        else:
            raise InputError(f"{folder} has no {part}/{IMAGES} and {part}/{MASKS}; add them")
    images = np.empty((len(pairs), channels, size, size), np.uint8)
    labels = np.empty((len(pairs), size, size), np.uint8)
    count, errors = 0, list[str]()
    for pair in pairs:
        try:
            image, marked = _read(*pair)
        except ImageError as error:
            errors.append(str(error))
            continue
        images[count] = fit(image, size, channels)
        labels[count] = _fit_mask(marked, size)
        count += 1
    if errors:
        log.warning("%d of %d images are left out: %s", len(errors), len(pairs), errors[0])
    labels = labels[:count]
    if not (labels == 1).any() or not (labels == 0).any():
        kind = "every" if (labels == 1).any() else "no"
        raise InputError(
            f"the masks of {folder} {split} mark {kind} pixel; white marks a pixel, black does not"
        )
    chosen = torch.from_numpy(images[:count]), torch.from_numpy(labels)
    return SegmentationSet(*chosen, folder.name, split)


def _pairs(folder: Path) -> list[tuple[Path, Path]]:
    """The images of a folder, by name, each with its mask."""
    images, masks = (_image_files(folder / name) for name in (IMAGES, MASKS))
    by_stem = {path.stem: path for path in masks}
    pairs = []
    for image in images:
        mask = by_stem.get(image.stem, by_stem.get(f"{image.stem}_mask"))
        if mask is None:
            raise InputError(
                f"{image} has no mask; expected {folder / MASKS / image.stem}.png, or leave the "
                "image out"
            )
        pairs.append((image, mask))
    if not pairs:
        raise InputError(f"there is no image in {folder / IMAGES}; put some there")
    return pairs


def _image_files(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if not path.name.startswith("."))
    return sorted(path for path in files if path.suffix.lower() in SUFFIXES and path.is_file())


def _read(image_file: Path, mask_file: Path) -> tuple[Image.Image, NDArray[np.bool_]]:
    """An image, and which of its pixels are marked."""
    image, mask = read_image(image_file), read_image(mask_file).convert("L")
    if image.size != mask.size:
        (width, height), (other, another) = image.size, mask.size
        raise InputError(
            f"{image_file} is {width}×{height} pixels and its mask {mask_file.name} is "
            f"{other}×{another}; make them the same size"
        )
    values = np.asarray(mask)
    if values.max() > 127:  # white on black, perhaps with greys along its borders
        return image, values > 127
    if len(np.unique(values)) > 2:
        raise InputError(
            f"{mask_file} should be white where pixels are marked and black elsewhere, got several "
            "values, as if it had several classes; make a mask of one of them"
        )
    return image, values > 0  # 1 on 0, as programs write it


def _fit_mask(marked: NDArray[np.bool_], size: int) -> NDArray[np.uint8]:
    """The labels of an image that `fit` brings to size."""
    height, width = marked.shape
    left, top, wide, high = frame((width, height), size)
    labels = np.full((size, size), OUTSIDE, np.uint8)
    # Means over what a pixel covers: the majority decides.
    shares = Image.fromarray(marked).convert("L").resize((wide, high), Image.Resampling.BILINEAR)
    labels[top : top + high, left : left + wide] = np.asarray(shares) > 127
    return labels
