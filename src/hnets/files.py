"""Files that appear only when they are complete."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
