"""Files that appear only when they are complete."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FOR_ALL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""Failed writes after which it is useless to go on with other files."""
PARTS = ".hnets-*.part"
"""The hidden names under which files are written."""
_STALE = 24 * 3600
"""Seconds after which nobody writes to them any more, by clocks that may differ by hours."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A file of the same name to write to, which replaces ``path`` when the block ends well.

    Readers never see half a file, and a failed or killed writer leaves the old one. The folder is
    made if need be. The new file has the modes of any new file, and errors name ``path``.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = ""
    try:
        with tempfile.TemporaryDirectory(".part", ".hnets-", path.parent) as hidden:
            part = Path(hidden, path.name)
            part.touch()
            mode = part.stat().st_mode  # what the umask allows; some writers allow less
            part.unlink()
            yield part
            part.chmod(mode)
            with part.open("rb") as file:
                os.fsync(file.fileno())  # a rename may reach the disk before the data does
            part.replace(path)
    except OSError as error:
        unnamed = error.filename is None and error.errno is not None  # such as a full disk
        if not hidden or unnamed or str(error.filename).startswith(hidden):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def is_stale(changed: float) -> bool:
    """Whether one of `PARTS`, last changed at that time, is of a writer that was killed.

    Its age alone can say so: the writer may be on another machine that shares the folder.
    """
    return time.time() - changed > _STALE


def remove_stale(folders: Iterable[str | os.PathLike[str]]) -> None:
    """Remove the `PARTS` that killed writers of `replacing` left in folders a day ago."""
    for folder in folders:
        for part in Path(folder).glob(PARTS):
            with suppress(OSError):  # gone in the meantime
                if is_stale(part.stat().st_mtime):
                    shutil.rmtree(part, ignore_errors=True)
