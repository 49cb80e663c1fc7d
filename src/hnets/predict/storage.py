"""Folders that many machines see: local paths, and URLs such as ``s3://bucket/photos``.

Needs pyarrow, which comes with Ray, and fsspec for what pyarrow does not know.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import uuid
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from hnets.errors import InputError, Unwritable, reason
from hnets.files import FOR_ALL, PARTS, is_stale, remove_stale, replacing

_WHOLE = ("s3", "gcs", "abfs")
"""File systems where a file appears when it is complete, without another name first."""
_URL = re.compile(r"[a-z][a-z0-9+.-]*://")


def is_url(text: str) -> bool:
    """Whether a text is a URL, and not a path.

    >>> is_url("s3://bucket/photos"), is_url("photos/new"), is_url("C:/photos")
    (True, False, False)
    """
    return _URL.match(text) is not None


def _size(path: str) -> int:
    """The bytes of a file; 0 if there is none."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


class Place(NamedTuple):
    """A folder of a file system, or one file."""

    filesystem: Any
    path: str
    url: str
    """As people write it, without options."""

    @classmethod
    def of(cls, text: str) -> Place:
        """The place that a path or a URL names."""
        from pyarrow import ArrowInvalid, fs

        if not is_url(text):
            return cls(fs.LocalFileSystem(), os.path.abspath(text), text.rstrip("/") or "/")
        try:
            try:
                filesystem, path = fs.FileSystem.from_uri(text)
            except ArrowInvalid as error:
                if not str(error).startswith("Unrecognized filesystem"):
                    raise
                import fsspec

                other, path = fsspec.url_to_fs(text)
                filesystem = fs.PyFileSystem(fs.FSSpecHandler(other))
        except (OSError, ValueError, ImportError) as error:
            raise InputError(f"cannot use {text} ({reason(error)})") from None
        return cls(filesystem, path.rstrip("/"), text.split("?")[0].rstrip("/"))

    def at(self, name: str) -> str:
        """The URL of a file in the folder."""
        return f"{self.url}/{name}"

    def files(self, empty: bool = True, errors: dict[str, str] | None = None) -> list[str]:
        """The files in a folder and those below it, by their names relative to it, in order.

        There are none if there is no such folder. A file has itself, by the empty name.

        Args:
            empty: whether to list files without content: writers that are told to stop may leave
                such a one behind.
            errors: takes what is wrong with folders below this one that cannot be listed, by their
                names; without it that is an `InputError`.
        """
        from pyarrow import fs

        if self.filesystem.type_name == "local":
            return self._local_files(empty, errors)
        with self.errors("read"):
            if self.filesystem.get_file_info(self.path).type == fs.FileType.File:
                return [""]
            selector = fs.FileSelector(self.path, recursive=True, allow_not_found=True)
            entries = self.filesystem.get_file_info(selector)
        start = len(self.path) + 1
        files = [entry for entry in entries if entry.type == fs.FileType.File]
        return sorted(entry.path[start:] for entry in files if empty or entry.size)

    def _local_files(self, empty: bool, errors: dict[str, str] | None) -> list[str]:
        """`files` of this machine, as ``hnets edges`` without a cluster finds them.

        Pyarrow follows links to folders, without end if they lead to where they are, and raises an
        error on names that are not UTF-8.
        """
        if os.path.isfile(self.path):
            return [""]

        start = len(os.path.join(self.path, ""))

        def relative(path: str) -> str:
            return path[start:].replace(os.sep, "/")

        def unreadable(error: OSError) -> None:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):  # none, or gone in the meantime
                return
            name = relative(error.filename)
            if not name or errors is None:
                where = self.at(name) if name else self.url
                raise InputError(f"{where} cannot be read ({error.strerror})") from None
            errors[name] = error.strerror or reason(error)

        paths = (
            os.path.join(folder, name)
            for folder, _, names in os.walk(self.path, onerror=unreadable)
            for name in names
        )
        return sorted(relative(path) for path in paths if empty or _size(path))

    def parent(self) -> tuple[Place, str]:
        """The folder that a file is in, and its name there."""
        folder, _, name = self.path.rpartition("/")
        url = self.url[: -len(name)].rstrip("/") or "."
        return Place(self.filesystem, folder, url), name

    def open(self, name: str) -> Any:
        """A file in the folder, of which parts can be read."""
        return self.filesystem.open_input_file(f"{self.path}/{name}")

    def read(self, name: str) -> bytes:
        """The content of a file in the folder."""
        if self.filesystem.type_name == "local":
            path = Path(self.path, name)
            if path.exists() and not path.is_file():  # to open a pipe may wait for ever
                raise OSError(errno.EINVAL, "it is not a regular file")
            return path.read_bytes()
        with self.filesystem.open_input_stream(f"{self.path}/{name}") as file:
            content: bytes = file.read()
        return content

    def write(self, name: str, content: bytes) -> None:
        """Make a file in the folder; it appears when it is complete."""
        path = f"{self.path}/{name}"
        if self.filesystem.type_name == "local":
            with replacing(path) as part:
                part.write_bytes(content)
            return
        temporary = path
        if self.filesystem.type_name not in _WHOLE:
            folder = path.rpartition("/")[0]
            self.filesystem.create_dir(folder, recursive=True)
            temporary = f"{folder}/.hnets-{uuid.uuid4().hex}.part"
        with self.filesystem.open_output_stream(temporary) as file:
            file.write(content)
        if temporary != path:
            self.filesystem.move(temporary, path)

    def remove_stale(self, folders: Iterable[str]) -> None:
        """Remove what killed writers left in folders of this one a day ago or earlier."""
        from pyarrow import fs

        if self.filesystem.type_name == "local":
            remove_stale(os.path.join(self.path, folder) for folder in folders)
            return
        if self.filesystem.type_name in _WHOLE:
            return
        for folder in folders:
            place = f"{self.path}/{folder}".rstrip("/")
            with contextlib.suppress(OSError):  # gone in the meantime
                selector = fs.FileSelector(place, allow_not_found=True)
                for entry in self.filesystem.get_file_info(selector):
                    # Some file systems do not know when a file was changed.
                    old = entry.mtime is not None and is_stale(entry.mtime.timestamp())
                    if old and fnmatch(entry.base_name, PARTS):
                        self.filesystem.delete_file(entry.path)

    @contextlib.contextmanager
    def errors(self, verb: str) -> Iterator[None]:
        """What goes wrong with the place is one line that names it."""
        try:
            yield
        except OSError as error:
            message = error.strerror or reason(error)
            kind = Unwritable if verb == "written" and error.errno in FOR_ALL else InputError
            raise kind(f"{self.url} cannot be {verb} ({message})") from None
