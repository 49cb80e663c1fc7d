"""Sets of images that stay in their files, and that other processes decode ahead of their use."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils import data as torch_data

from hnets.data.cache import PixelCache
from hnets.data.dataset import Dataset, Examples, sha256
from hnets.data.image_file import ImageError, format_names
from hnets.data.listing import FORM, Listing
from hnets.devices import cores
from hnets.errors import InputError, reason

log = logging.getLogger(__name__)

WORKERS = 16
"""Processes that decode images, at most."""
AHEAD = 4
"""Batches that each of them prepares in advance, at most."""
_PORTION = 64  # images that are checked at a time
_Batch = tuple[Tensor, str]  # and what is wrong with one of its images
_ENDED = re.compile(r"DataLoader worker \(pid|Pin memory thread exited")
_NO_SUFFIX = "does not have the suffix of an image"
_TRIES = 20  # other images that are tried in place of one that cannot be read any more


def default_workers() -> int:
    """One process less than there are cores, shared by the processes that train on this machine."""
    trainings = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(1, min(WORKERS, cores() // trainings - 1))


class Files(torch_data.Dataset[_Batch]):
    """The images of a listing, brought to one form: from the cache, or decoded and put there."""

    def __init__(self, listing: Listing, split: str, size: int, channels: int) -> None:
        self.listing, self.split, self.shape = listing, split, (channels, size, size)

    @cached_property
    def cache(self) -> PixelCache:
        """The decoded images of this split and form, on disk."""
        place = f"{self.listing.folder.absolute()} {self.split} {self.shape} {FORM}"
        name = hashlib.sha256(place.encode(errors="surrogateescape")).hexdigest()[:16]
        size = int(np.prod(self.shape))
        return PixelCache(name, self.listing.digest, len(self.listing), size)

    def image(self, row: int) -> NDArray[np.uint8]:
        """One image; an `ImageError` if it cannot be read."""
        pixels = self.cache.read(row)
        if pixels is not None:
            return np.frombuffer(pixels, np.uint8).reshape(self.shape)
        decoded = self.listing.decode(row, self.shape[1], self.shape[0])
        self.cache.write(row, decoded.tobytes())
        return decoded

    def __getitem__(self, rows: Sequence[int]) -> _Batch:
        """Images as one uint8 tensor, and what is wrong with one of them.

        In place of one that cannot be read comes another of its class; if there is none, nothing.
        """
        images = torch.empty(len(rows), *self.shape, dtype=torch.uint8)
        message = ""
        for place, row in zip(images.numpy(), rows, strict=True):
            for one in (row, *self._alike(row)):
                try:
                    place[:] = self.image(one)
                    break
                except ImageError as error:
                    message = message or str(error)
            else:
                return images[:0], message
        return images, message

    def _alike(self, row: int) -> Iterator[int]:
        alike = np.flatnonzero(self.listing.labels == self.listing.labels[row])
        start = int(np.searchsorted(alike, row)) + 1
        yield from np.roll(alike, -start)[:_TRIES].tolist()


class _Checksums(torch_data.Dataset[_Batch]):
    """The SHA-256 of images, which are decoded for it; zeros for those that cannot be read."""

    def __init__(self, files: Files) -> None:
        self.files = files

    def __getitem__(self, rows: Sequence[int]) -> _Batch:
        sums = np.zeros((len(rows), 32), np.uint8)
        for place, row in zip(sums, rows, strict=True):
            try:
                image = self.files.image(row)
            except ImageError:
                continue
            place[:] = np.frombuffer(hashlib.sha256(image.tobytes()).digest(), np.uint8)
        return torch.from_numpy(sums), ""


@dataclass(frozen=True, eq=False)
class Streamed(Examples):
    """Images that stay in their files, with their labels, as `hnets.data.stream` makes them."""

    rows: Tensor
    """(n,), int64: which of the files."""
    labels: Tensor
    """(n,), int64: the index of each image's class in `classes`."""
    checksums: Tensor
    """(n, 32), uint8: the SHA-256 of each image's pixels; zeros before `check`."""
    files: Files
    classes: tuple[str, ...]
    name: str
    split: str
    workers: int = 0
    """Processes that decode images; 0 is `default_workers`."""

    @classmethod
    def of(cls, listing: Listing, split: str, size: int, channels: int) -> Self:
        """All images of a listing, before it is known which of them can be read."""
        count = len(listing)
        rows, labels = torch.arange(count), torch.from_numpy(listing.labels)
        sums = torch.zeros(count, 32, dtype=torch.uint8)
        files = Files(listing, split, size, channels)
        return cls(rows, labels, sums, files, listing.classes, listing.folder.name, split)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """That of the tensor that would hold all images."""
        return (len(self), *self.files.shape)

    def to(self, device: torch.device | str) -> Self:
        """The same set with its labels on a device, for which batches are made."""
        return replace(self, labels=self.labels.to(device))

    @cached_property
    def digest(self) -> str:
        """A SHA-256 of the checksums of all images, and of their labels."""
        return sha256([self.checksums.numpy(), self.labels.cpu().numpy()])

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape[1:]))
        count = f"{len(self)} images of {shape}, {len(self.classes)} classes"
        return f"Streamed({self.name!r}, {self.split!r}: {count})"

    def check(self, part: slice) -> Tensor:
        """The SHA-256 of each image in a part of the set, ``(n, 32)``; zeros elsewhere.

        An image that cannot be read has zeros too. Those that the cache does not know are decoded
        and put there, in the order of the files.
        """
        sums = torch.zeros_like(self.checksums)
        sums[part] = torch.from_numpy(self.files.cache.checksums())[self.rows[part]]
        unknown = (sums[part] == 0).all(1).nonzero()[:, 0] + (part.start or 0)
        if not len(unknown):
            return sums
        portions = unknown.split(_PORTION)
        orders = [self.rows[places].tolist() for places in portions]
        decoded = self._load(_Checksums(self.files), orders, _PORTION * 32)
        for places, batch in zip(portions, decoded, strict=True):
            sums[places] = batch
        return sums

    def checked(self, sums: Tensor, warn: bool = True) -> Self:
        """The images that can be read, given what `check` says of all of them."""
        good = (sums != 0).any(1)
        checked = replace(self, checksums=sums).subset(good)
        left_out = list(self.files.listing.others)
        _complain(self, checked.labels, left_out, self.rows[~good].tolist(), warn)
        return checked

    def read(self) -> Dataset:
        """All images that can be read, in memory."""
        listing, (channels, size, _) = self.files.listing, self.files.shape

        def decode(row: int) -> NDArray[np.uint8] | None:
            try:
                return listing.decode(row, size, channels)
            except ImageError:
                return None

        rows = self.rows.tolist()
        with ThreadPoolExecutor(cores()) as threads:  # Pillow decodes without Python's lock
            decoded = list(threads.map(decode, rows))
        images = [image for image in decoded if image is not None]
        good = [place for place, image in enumerate(decoded) if image is not None]
        left_out = [row for row, image in zip(rows, decoded, strict=True) if image is None]
        labels = self.labels[good]
        _complain(self, labels, list(listing.others), left_out, warn=True)
        values = np.divide(np.stack(images), 255, dtype=np.float32)
        return Dataset(torch.from_numpy(values), labels, self.classes, self.name, self.split)

    def batches(self, orders: Iterable[Tensor], most: int) -> Iterator[Tensor]:
        """Batches of images as uint8, those at the places that each of ``orders`` names.

        Other processes decode them in advance; where the labels are on a GPU, batches lie in
        memory that it can copy from while it computes. ``most`` is the size of the largest.
        """
        rows: Iterable[list[int]] = (self.rows[order].tolist() for order in orders)
        rows = list(rows) if isinstance(orders, Sequence) else rows
        yield from self._load(self.files, rows, most * int(np.prod(self.files.shape)))

    def _load(
        self, source: Files | _Checksums, orders: Iterable[list[int]], size: int
    ) -> Iterator[Tensor]:
        """What a source has at each list of rows, in their order; ``size`` is in bytes."""
        if not orders:  # as of a process whose share of a small split is empty
            return
        room = shutil.disk_usage("/dev/shm").free // 2 if os.path.isdir("/dev/shm") else 2**30
        workers = self.workers or default_workers()
        ahead = max(1, min(AHEAD * workers, room // max(1, size)))  # batches lie in shared memory
        workers = min(workers, ahead, len(orders) if isinstance(orders, list) else ahead)
        loader: torch_data.DataLoader[_Batch] = torch_data.DataLoader(
            source,
            sampler=orders,  # lists of rows: each is a batch
            batch_size=None,
            num_workers=workers,
            prefetch_factor=max(1, ahead // workers),
            pin_memory=self.labels.is_cuda,
            generator=torch.Generator(),  # so that the random numbers of others stay as they are
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*fork", DeprecationWarning)
            batches = iter(loader)
        _forget(batches)
        for batch, message in _received(batches):
            if message and not len(batch):
                raise InputError(
                    f"{message}, nor can other images of its class be read: see to them, then go "
                    "on with --resume"
                )
            if message:
                _warn(f"{message}; other images of their class take the place of such files")
            yield batch


def _forget(batches: Any) -> None:
    """Keep torch from raising an error wherever this process then is when a decoder is killed.

    It looks at the decoders every few seconds while it waits for them, and that is enough.
    """
    if batches._worker_pids_set:
        torch._C._remove_worker_pids(id(batches))
        batches._worker_pids_set = False


def _received(batches: Iterator[_Batch]) -> Iterator[_Batch]:
    """Batches as other processes hand them on; an `InputError` if one of those has ended."""
    try:
        yield from batches
    except (RuntimeError, ConnectionError, EOFError) as error:
        if isinstance(error, RuntimeError) and not _ENDED.match(str(error)):
            raise
        raise InputError(
            f"a process that decodes images ended ({reason(error)}); if the memory is too small, "
            "set data.workers to fewer, then go on with --resume"
        ) from None


def _complain(
    data: Streamed, labels: Tensor, others: Sequence[str], bad: Sequence[int], warn: bool
) -> None:
    """Refuse a set without images of each class; warn of damaged images and of other files."""
    listing, (channels, size, _) = data.files.listing, data.files.shape

    def why(rows: Sequence[int]) -> str:
        """What is wrong with the first of some files, in brackets."""
        try:
            for row in rows[:1]:
                listing.decode(row, size, channels)
        except ImageError as error:
            return f" ({error})"
        return ""

    if not len(labels):
        shown = why(bad) or (f" ({others[0]} {_NO_SUFFIX})" if others else "")
        raise InputError(f"{listing.folder} has no images{shown}; give {format_names()} files")
    if absent := sorted(set(range(len(data.classes))) - set(labels.tolist())):
        of_class = [row for row in bad if listing.labels[row] == absent[0]]
        see = "replace or remove such files" if of_class else "add some"
        raise InputError(
            f"{listing.folder} has no image of {data.classes[absent[0]]!r} that can be read for "
            f"{data.split}{why(of_class)}; {see}, or remove the class"
        )
    if warn and bad:
        _warn(f"left out {_count(bad, 'image')} of {listing.folder} for {data.split}{why(bad)}")
    if warn and others:
        _warn(f"left out {_count(others, 'file')} of {listing.folder} ({others[0]} {_NO_SUFFIX})")


def _count(things: Sequence[object], name: str) -> str:
    return f"{len(things)} {name}" + "s" * (len(things) > 1)


@cache
def _warn(message: str) -> None:
    """Warn once, though a folder is read for every split and an image in every epoch."""
    log.warning(message)
