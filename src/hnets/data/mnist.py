"""MNIST: 70,000 handwritten digits, from the four files that their authors published."""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import socket
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch.hub import download_url_to_file

from hnets.data.cache import cache_folder, data_folders
from hnets.data.dataset import Arrays
from hnets.errors import InputError, reason

SIZES = (50_000, 10_000, 10_000)
"""Images of train, val and test: the training file is cut in two, the test file is the test set."""
CLASSES = tuple("0123456789")
FILES = {
    f"{name}-ubyte.gz": checksum
    for name, checksum in {
        "train-images-idx3": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    }.items()
}
"""The published files and their SHA-256."""
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_TIMEOUT = 20.0  # seconds that a mirror may be silent

log = logging.getLogger(__name__)


def arrays(root: str | os.PathLike[str] | None = None) -> Arrays:
    """All images and labels, those of the training file first; missing files are downloaded."""
    train_images, train_labels, test_images, test_labels = map(_read, find(root))
    images = np.concatenate([train_images, test_images]).reshape(-1, 28, 28)
    return images, np.concatenate([train_labels, test_labels])


def find(
    root: str | os.PathLike[str] | None = None, mirrors: Sequence[str] = MIRRORS
) -> list[Path]:
    """The four files on disk; those that are missing are downloaded to the cache."""
    folders = [folder / "mnist" for folder in data_folders(root)]
    paths = {
        name: next((f / name for f in folders if os.path.exists(f / name)), folders[-1] / name)
        for name in FILES
    }
    missing = [name for name, path in paths.items() if not os.path.exists(path)]
    for name in missing:
        if failures := _download(paths[name], mirrors):
            raise InputError(
                f"MNIST is not here and could not be downloaded ({'; '.join(failures)}); get "
                f"{', '.join(missing)} from {mirrors[0]} into {cache_folder() / 'mnist'}, or set "
                "HNETS_DATA to a folder that has them in mnist/"
            )
    return list(paths.values())


def _download(path: Path, mirrors: Sequence[str]) -> list[str]:
    """Try the mirrors in turn; return why each failed if none served the published file."""
    failures = []
    timeout = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_TIMEOUT)  # which `download_url_to_file` gives no argument for
    try:
        for mirror in mirrors:
            log.info("downloading %s%s", mirror, path.name)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                download_url_to_file(mirror + path.name, str(path), FILES[path.name], False)
            except RuntimeError:  # another checksum
                failures.append(f"{mirror} sent other bytes than the published ones")
            except (OSError, HTTPException) as error:
                failures.append(f"{mirror} failed: {reason(error)}")
            else:
                return []
    finally:
        socket.setdefaulttimeout(timeout)
    return failures


def _read(path: Path) -> NDArray[np.uint8]:
    """The values of a gzipped IDX file, once its checksum shows that it is the published one."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror})") from None
    checksum = hashlib.sha256(packed).hexdigest()
    if checksum != FILES[path.name]:
        raise InputError(
            f"{path} is damaged or another file: its SHA-256 is {checksum} in place of "
            f"{FILES[path.name]}; delete it, and it is downloaded again"
        )
    header = 16 if "idx3" in path.name else 8
    return np.frombuffer(gzip.decompress(packed), np.uint8, offset=header)
