"""A folder of images with masks, which mark the pixels that are looked for.

``images`` holds the images and ``masks`` an image of the same name for each, white where pixels are
marked: ``images/a.jpg`` and ``masks/a.png``, or ``masks/a_mask.png``.
"""

from __future__ import annotations

import itertools
import logging
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from hnets.data.dataset import OUTSIDE, SegmentationSet
from hnets.data.image_file import SUFFIXES, ImageError, is_deep, opaque, read_image
from hnets.data.listing import cut, fit, frame
from hnets.errors import InputError

log = logging.getLogger(__name__)

IMAGES, MASKS = "images", "masks"
_NOISE = 16
"""How much, out of 255, a JPEG may differ from black and from white in areas of these."""


def has_masks(folder: Path) -> bool:
    """Whether a folder, or ``train`` in it, holds images and masks rather than classes."""
    return _has_both(folder) or _has_both(folder / "train")


def _has_both(folder: Path) -> bool:
    # False for a name that is too long, where pathlib raises.
    return all(os.path.isdir(folder / name) for name in (IMAGES, MASKS))


def load_masks(folder: Path, split: str, size: int, channels: int) -> SegmentationSet:
    """One split: that of the folder of its name, or else a cut of all images, 80 : 10 : 10.

    Images become ``size`` × ``size`` as by `fit`. The margins that this adds are not learned from.
    Files that cannot be read are left out, with one warning.
    """
    pairs = list[tuple[Path, Path]]()
    for part in split.split("+"):
        own = folder / part
        if _has_both(own):
            pairs += _pairs(own)
        elif _has_both(folder):
            pairs += cut(_pairs(folder), part, folder / IMAGES, "add some")
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
    if not count:
        raise InputError(f"no image of {folder} {split} can be read: {errors[0]}")
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
    images, masks = (_by_stem(folder / name) for name in (IMAGES, MASKS))
    pairs = []
    for stem, image in images.items():
        mask = masks.get(stem, masks.get(f"{stem}_mask"))
        if mask is None:
            raise InputError(
                f"{image} has no mask; expected {folder / MASKS / stem}.png, or leave the image out"
            )
        pairs.append((image, mask))
    if not pairs:
        raise InputError(f"there is no image in {folder / IMAGES}; put some there")
    return pairs


def _by_stem(folder: Path) -> dict[str, Path]:
    """The images of a folder, in the order of their names, by these without their suffixes."""
    visible = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    files = [path for path in visible if path.suffix.lower() in SUFFIXES and path.is_file()]
    stem, count = Counter(path.stem for path in files).most_common(1)[0] if files else ("", 0)
    if count > 1:
        names = " and ".join(path.name for path in files if path.stem == stem)
        raise InputError(f"{folder} has {names}, and masks go by the name; keep one or rename them")
    return {path.stem: path for path in files}


def _read(image_file: Path, mask_file: Path) -> tuple[Image.Image, NDArray[np.bool_]]:
    """An image, and which of its pixels are marked."""
    image, mask = read_image(image_file), read_image(mask_file, convert=_grey)
    if image.size != mask.size:
        (width, height), (other, another) = image.size, mask.size
        raise InputError(
            f"{image_file} is {width}×{height} pixels and its mask {mask_file.name} is "
            f"{other}×{another}; make them the same size"
        )
    marked = _marked(mask)
    if marked is None:
        raise InputError(
            f"{mask_file} should be white where pixels are marked and black elsewhere, got several "
            "values, as if it had several classes; make a mask of one of them"
        )
    return image, marked


def _grey(mask: Image.Image) -> Image.Image:
    """A mask in grey with its own values: what is transparent is not marked."""
    return mask if is_deep(mask) else opaque(mask, "black").convert("L")


def _marked(mask: Image.Image) -> NDArray[np.bool_] | None:
    """Which pixels are marked; None if the mask has several classes."""
    values = np.asarray(mask)
    levels = np.unique(values) if is_deep(mask) else np.flatnonzero(mask.histogram())
    white = 255 if levels[-1] <= 255 else 65535
    if levels[-1] <= white // 2:  # such as 1 on 0, as programs write it
        return values > 0 if len(levels) == 1 or (len(levels) == 2 and levels[0] == 0) else None
    if len(levels) > 2 and _has_grey_area(values, white * _NOISE // 255):
        return None
    return values > white // 2


def _has_grey_area(values: NDArray[Any], noise: int) -> bool:
    """Whether somewhere 3×3 pixels have one grey, as none along the border of a white area do."""
    inner = values[1:-1, 1:-1]
    rows, columns = np.nonzero((inner > noise) & (inner < values.max() - noise))
    alike = np.ones(len(rows), bool)
    for down, right in itertools.product(range(3), repeat=2):
        alike &= values[rows + down, columns + right] == inner[rows, columns]
    return bool(alike.any())


def _fit_mask(marked: NDArray[np.bool_], size: int) -> NDArray[np.uint8]:
    """The labels of an image that `fit` brings to size."""
    height, width = marked.shape
    left, top, wide, high = frame((width, height), size)
    labels = np.full((size, size), OUTSIDE, np.uint8)
    # Means over what a pixel covers: the majority decides.
    shares = Image.fromarray(marked).convert("L").resize((wide, high), Image.Resampling.BILINEAR)
    labels[top : top + high, left : left + wide] = np.asarray(shares) > 127
    return labels
