"""Data sets by name: ``images, labels = load("rotmnist-r", "train")``.

| name | train, val, test | what it holds |
|---|---|---|
| `mnist` | 50,000, 10,000, 10,000 | handwritten digits; downloaded if they are not on disk |
| `rotmnist` | 10,000, 2,000, 50,000 | rotated MNIST, from the published files on the user's disk |
| `rotmnist-r` | 10,000, 2,000, 50,000 | rotated MNIST, regenerated from MNIST |
| `digits` | 1,000, 297, 500 | the digits of scikit-learn, enlarged to 28×28: no download |
| `digits-r` | 1,000, 297, 500 | the same digits, each rotated by its own angle |
| `bsds500` | 200, 100, 200 | photographs and the edges that people drew in them |
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hnets.data import mnist, rotmnist, sklearn_digits
from hnets.data.bsds import load_edges
from hnets.data.dataset import Arrays, Dataset, EdgeSet, Sizes, check_split, from_arrays
from hnets.data.image_folder import read_folder
from hnets.errors import InputError, suggest

__all__ = ["Dataset", "EdgeSet", "available", "load"]

_BSDS500 = "bsds500"


_DIGITS: dict[str, tuple[Callable[[str | os.PathLike[str] | None], Arrays], Sizes]] = {
    "mnist": (mnist.arrays, mnist.SIZES),
    "rotmnist": (rotmnist.published, rotmnist.SIZES),
    "rotmnist-r": (rotmnist.regenerated, rotmnist.SIZES),
    "digits": (lambda root: sklearn_digits.upright(), sklearn_digits.SIZES),
    "digits-r": (lambda root: sklearn_digits.rotated(), sklearn_digits.SIZES),
}


def available() -> tuple[str, ...]:
    """The names that `load` knows.

    >>> available()
    ('mnist', 'rotmnist', 'rotmnist-r', 'digits', 'digits-r', 'bsds500')
    """
    return (*_DIGITS, _BSDS500)


def load(
    name: str | os.PathLike[str],
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    *,
    size: int | None = None,
    channels: int | None = None,
) -> Dataset | Any:
    """One split of a data set: ``train``, ``val``, ``train+val`` or ``test``.

    It is a `Dataset`, or for ``bsds500`` an `EdgeSet`. Files are looked for in ``root``, or in the
    folder named by the environment variable ``HNETS_DATA``, and then in the user's cache, where
    downloaded and generated files go too (``HNETS_CACHE`` names another folder).

    Instead of a name, give the path of a folder with one sub-folder of images per class (within
    ``train``, ``val`` and ``test`` to choose the splits yourself). Its images become ``size`` ×
    ``size``, by default 28, grey or with three ``channels``.

    >>> load("digits", "val")
    Dataset('digits', 'val': 297 images of 1×28×28, 10 classes)
    """
    check_split(split)
    if name in available():
        fixed = (None, None) if name == _BSDS500 else (28, 1)
        if size not in (None, fixed[0]) or channels not in (None, fixed[1]):
            raise InputError(
                f"the images of {name} have one size, got size={size} and channels={channels}; "
                "these are for a folder of images"
            )
        if name == _BSDS500:
            return load_edges(split, root)
        arrays, sizes = _DIGITS[str(name)]
        return from_arrays(arrays(root), sizes, mnist.CLASSES, str(name), split)
    path = Path(name).expanduser()
    if isinstance(name, os.PathLike) or {"/", os.sep} & set(name) or os.path.isdir(path):
        chosen = {"size": size, "channels": channels}
        return read_folder(path, split, **{k: v for k, v in chosen.items() if v is not None})
    raise InputError(f"there is no data set or folder {name!r}{suggest(name, available())}")
