"""A data set and a recipe that a harmonic network learns in half a second."""

from __future__ import annotations

import random
from pathlib import Path

from PIL import Image


def data_folder(folder: Path) -> Path:
    """Twelve images of noise in two classes, as `hnets train` reads them."""
    rng = random.Random(0)
    for split, count in (("train", 4), ("val", 2)):
        for kind in ("light", "dark"):
            place = folder / split / kind
            place.mkdir(parents=True)
            for number in range(count):
                pixels = bytes(rng.randrange(256) for _ in range(256))
                Image.frombytes("L", (16, 16), pixels).save(place / f"{number}.png")
    return folder


def recipe(data: Path, epochs: int = 4) -> str:
    """The text of a recipe: a checkpoint at every epoch, random augmentation, a running mean."""
    return f"""
title = "a tiny one"
[model]
name = "hnet_mnist"
[data]
name = "{data.absolute()}"
size = 16
channels = 1
[augment]
rotate = 30.0
[training]
epochs = {epochs}
batch = 4
save_every = 0
ema = 0.9
"""


def photograph(path: Path) -> Path:
    """A small image of noise in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = random.Random(str(path.name)).randbytes(3 * 24 * 20)
    Image.frombytes("RGB", (24, 20), pixels).save(path)
    return path
