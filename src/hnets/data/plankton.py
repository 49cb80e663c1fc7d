"""Plankton of the National Data Science Bowl 2015: 30,336 grey images of 121 classes.

They are read from `plankton.zip`, which has one folder per class: the training part, since the
labels of the test part were never published. For research.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

import numpy as np
from numpy.typing import NDArray

from hnets.data.cache import cached, find_data
from hnets.data.dataset import Dataset, as_dataset, in_split
from hnets.data.image_file import read_image
from hnets.data.listing import FORM, fit
from hnets.errors import InputError, reason

ARCHIVE = "plankton.zip"
IMAGES, CLASSES = 30_336, 121
SIZE = 96
"""Pixels along a side, unless another size is asked for: three quarters of the images have no more
along their longer one."""
_AGAIN = "get it again from its source"

log = logging.getLogger(__name__)


def load_plankton(
    split: str, root: str | os.PathLike[str] | None = None, size: int = SIZE
) -> Dataset:
    """A split as tensors; what is decoded is cached.

    Which split an image is in depends on the names of the files alone. Images are brought to size
    by `hnets.data.listing.fit`, and inverted: the water is then black, as is what convolutions and
    augmentation put around an image.
    """
    path = find_data("plankton", root, ARCHIVE)
    try:
        with zipfile.ZipFile(path) as archive:
            members = sorted(
                (one for one in archive.infolist() if one.filename.endswith(".jpg")),
                key=lambda one: one.filename,
            )
            paths = [PurePosixPath(one.filename) for one in members]
            classes = sorted({each.parent.name for each in paths})
            if (len(paths), len(classes)) != (IMAGES, CLASSES):
                raise InputError(
                    f"{path} has {len(paths):,} JPEG images in {len(classes)} folders in place of "
                    f"{IMAGES:,} in {CLASSES}; {_AGAIN}"
                )
            number = {name: label for label, name in enumerate(classes)}
            labels = [number[each.parent.name] for each in paths]
            rows = in_split([each.name for each in paths], labels, split)
            chosen = [members[row] for row in rows]
            facts = FORM + "".join(f"{one.filename} {one.CRC:08x}\n" for one in chosen)
            images, numbers = cached(
                f"plankton-{split}-{size}",
                hashlib.sha256(facts.encode()).hexdigest(),
                lambda: (_decode(archive, chosen, size), np.array(labels, np.uint8)[rows]),
            )
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read ({reason(error)}); {_AGAIN}") from None
    return as_dataset(images, numbers, classes, "plankton", split)


def _decode(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], size: int
) -> NDArray[np.uint8]:
    log.info("decoding %s images of plankton, which is done once", f"{len(members):,}")

    def decode(member: zipfile.ZipInfo, content: bytes) -> NDArray[np.uint8]:
        name = f"{archive.filename}: {member.filename}"
        image = read_image(io.BytesIO(content), name=name, needed=2 * size)
        return 255 - fit(image, size, 1)[0]

    # Decoding and resizing do not hold Python's lock; the archive is read by this thread alone,
    # because from Python 3.12 on two threads that read one archive see overlapping members.
    with ThreadPoolExecutor() as threads:
        return np.stack(list(threads.map(decode, members, map(archive.read, members))))
