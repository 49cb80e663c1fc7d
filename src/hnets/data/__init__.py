"""Data sets by name, as tensors: ``images, labels = load("rotmnist-r", "train")``.

| name | train, val, test | what it is |
|---|---|---|
| `mnist` | 50,000, 10,000, 10,000 | handwritten digits, downloaded if need be |
| `rotmnist` | 10,000, 2,000, 50,000 | rotated MNIST, where the user has its files |
| `rotmnist-r` | 10,000, 2,000, 50,000 | rotated MNIST, regenerated from MNIST |
| `digits` | 1,000, 297, 500 | those of scikit-learn, enlarged to 28×28: no download |
| `digits-r` | 1,000, 297, 500 | the same, each turned by its own angle |

Photographs with boundaries are another kind: `load_edges` has those of BSDS500.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from hnets.data import mnist, rotmnist
from hnets.data import rotmnist_original as amat
from hnets.data import sklearn_digits as digits
from hnets.data.cache import Arrays, Progress
from hnets.data.dataset import Dataset, check_split, from_arrays
from hnets.data.edge_set import BSDS500, EdgeSet, load_edges
from hnets.data.image_folder import read_folder
from hnets.errors import InputError, suggest

__all__ = ["BSDS500", "Dataset", "EdgeSet", "available", "load", "load_edges"]


class _Source(NamedTuple):
    arrays: Callable[[str | os.PathLike[str] | None, Progress | None], Arrays]
    sizes: tuple[int, int, int]


_SOURCES = {
    "mnist": _Source(mnist.arrays, mnist.SIZES),
    "rotmnist": _Source(amat.arrays, amat.SIZES),
    "rotmnist-r": _Source(rotmnist.regenerated, rotmnist.SIZES),
    "digits": _Source(lambda root, progress: digits.upright(), digits.SIZES),
    "digits-r": _Source(lambda root, progress: digits.turned(), digits.SIZES),
}


def available() -> tuple[str, ...]:
    """The names that `load` knows.

    >>> available()
    ('mnist', 'rotmnist', 'rotmnist-r', 'digits', 'digits-r')
    """
    return tuple(_SOURCES)


def load(
    name: str | os.PathLike[str],
    split: str = "train",
    root: str | os.PathLike[str] | None = None,
    *,
    size: int = 28,
    channels: int = 1,
    progress: Progress | None = None,
) -> Dataset:
    """A split of a data set: ``train``, ``val``, ``train+val`` or ``test``.

    Files are looked for in ``root``, or in the folder that the environment variable ``HNETS_DATA``
    names, and then in the user's cache, which is also where downloaded and generated files go
    (``HNETS_CACHE`` names another). ``progress`` is called with what is done, how far, and out of
    how much.

    Instead of a name, give the path of a folder of your own pictures, with a sub-folder for each
    class (and these in ``train``, ``val`` and ``test``, to choose the splits yourself): they are
    made ``size`` × ``size``, grey or in three ``channels``.

    >>> load("digits", "val")
    Dataset('digits', 'val': 297 images of 1×28×28, 10 classes)
    """
    check_split(split)
    if name in _SOURCES:
        if (size, channels) != (28, 1):
            raise InputError(
                f"the images of {name} are 28×28 with 1 channel, got size={size} and "
                f"channels={channels}; only a folder of pictures is read at another size"
            )
        source = _SOURCES[str(name)]
        return from_arrays(
            source.arrays(root, progress), source.sizes, mnist.CLASSES, str(name), split
        )
    path = Path(name).expanduser()
    if isinstance(name, os.PathLike) or {"/", os.sep} & set(name) or path.is_dir():
        return read_folder(path, split, size, channels)
    raise InputError(f"there is no data set or folder {name!r}{suggest(name, _SOURCES)}")
