"""Fetch a published file: from any of its mirrors, in as many pieces as it takes, checked."""

from __future__ import annotations

import hashlib
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from hnets.data.cache import Progress
from hnets.errors import InputError

__all__ = ["DownloadError", "File", "fetch", "md5"]

log = logging.getLogger(__name__)

_ATTEMPTS = 5  # at one mirror, as long as each brings the file forward
_PIECE = 1 << 18


class DownloadError(InputError):
    """No mirror gave the file; the message names each and its reason."""


@dataclass(frozen=True)
class File:
    """A file as it was published."""

    name: str
    size: int
    md5: str


def md5(path: Path) -> str:
    """The MD5 of a file, which is what the publishers of data sets give."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def fetch(
    file: File,
    folder: Path,
    mirrors: Iterable[str],
    progress: Progress | None = None,
    timeout: float = 20,
) -> Path:
    """Download a file into a folder, and return its path once its checksum is right.

    Until then it is called ``NAME.part``. An interrupted download goes on from there, at the next
    mirror or on the next day; a part that turns out to be wrong is dropped. ``timeout`` is how many
    seconds a mirror may be silent.
    """
    path = folder / file.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _claimed(folder / f"{file.name}.part") as part:
            failures = []
            for mirror in mirrors:
                problem = _try(mirror + file.name, part, file, progress, timeout)
                if problem is None:
                    part.replace(path)
                    return path
                failures.append(f"{mirror} {problem}")
    except OSError as error:
        raise InputError(
            f"{folder} cannot be written ({error.strerror}), so {file.name} cannot be downloaded; "
            "set HNETS_CACHE to a folder that can be written"
        ) from None
    raise DownloadError("; ".join(failures))


@contextmanager
def _claimed(part: Path) -> Iterator[Path]:
    """A part under a name of this process, so that no two write to one file; then given back."""
    own = part.with_name(f".{part.name}.{os.getpid()}")
    try:
        part.replace(own)
    except FileNotFoundError:
        own.write_bytes(b"")
    try:
        yield own
    finally:
        if own.exists() and own.stat().st_size:
            own.replace(part)
        own.unlink(missing_ok=True)


def _try(
    url: str, part: Path, file: File, progress: Progress | None, timeout: float
) -> str | None:  # fmt: skip
    """Complete a part from one mirror; return why that failed, or None if the part is right."""
    problem = None
    for _ in range(_ATTEMPTS):
        before = part.stat().st_size
        problem = _go_on(url, part, file, progress, timeout)
        if problem is None:
            if md5(part) == file.md5:
                return None
            part.write_bytes(b"")
            problem = "sent other bytes than were published"
            again = before > 0  # the wrong bytes may be those kept from before
        else:
            again = part.stat().st_size > before
        log.info("%s %s", url, problem)
        if not again:
            break
    return problem


def _go_on(
    url: str, part: Path, file: File, progress: Progress | None, timeout: float
) -> str | None:  # fmt: skip
    """Receive what a part lacks; return what went wrong, or None if it has all its bytes."""
    have = part.stat().st_size
    if have >= file.size:
        return None
    headers = {"User-Agent": "hnets", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            _receive(response, part, file, progress)
    except urllib.error.HTTPError as error:
        error.close()
        return f"answered {error.code} {error.reason}"
    except (OSError, HTTPException) as error:  # no network, no such host, silence, a cut line
        reason = getattr(error, "reason", None) or error
        return f"failed ({' '.join(str(reason).split()) or type(error).__name__})"
    have = part.stat().st_size
    return None if have >= file.size else f"stopped after {have:,} of {file.size:,} bytes"


def _receive(response: HTTPResponse, part: Path, file: File, progress: Progress | None) -> None:
    have = part.stat().st_size
    # A server may ignore the wish for the rest, and send all of it.
    goes_on = response.status == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {have}-"
    )
    have = have if goes_on else 0
    log.info("downloading %s from byte %d of %d", response.url, have, file.size)
    with part.open("ab" if goes_on else "wb") as out:
        while have < file.size and (piece := response.read(min(_PIECE, file.size - have))):
            out.write(piece)
            have += len(piece)
            if progress:
                progress(file.name, have, file.size)
