"""A CSV table that gets its rows as they come, and goes on where a job was stopped."""

from __future__ import annotations

import csv
import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hnets.errors import InputError
from hnets.files import FOR_ALL, replacing

if sys.platform != "win32":
    import fcntl

_TEXT = {"encoding": "utf-8", "errors": "surrogateescape"}
"""A name of a file or a class that is not UTF-8 keeps its bytes."""


class GrowingTable:
    """A CSV file whose rows are on disk as soon as they are added, under its name when complete.

    Until the block ends well it is called ``NAME.csv.part``. A job that is killed leaves that, and
    at most half of its last row, which the next one removes.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with GrowingTable(folder / "x.csv", ["file", "class"]) as table:
    ...     table.add([["a.png", "oak"]])
    ...     [path.name for path in folder.iterdir()]
    ['x.csv.part']
    >>> with GrowingTable(folder / "x.csv", ["file", "class"], go_on=True) as table:
    ...     table.names
    {'a.png'}

    Args:
        path: of the table. If no row is added, it is not made.
        header: the names of the columns; the first is that of the names of rows.
        go_on: keep the rows of a job that was stopped, or else those that the table has. Without
            it the table is made anew; the rows of a job that was stopped are then an `InputError`.
    """

    def __init__(
        self, path: str | os.PathLike[str], header: Sequence[str], go_on: bool = False
    ) -> None:
        self.path, self.header, self.go_on = Path(path), [*header], go_on
        if self.path.is_symlink():  # which stays, and what it leads to is written
            self.path = self.path.resolve()
        self.part = self.path.with_name(f"{self.path.name}.part")
        self.names = set[str]()
        """The first column of the rows that were kept."""

    def __enter__(self) -> Self:
        try:
            if self.go_on:
                self._resume()
            self.part.parent.mkdir(parents=True, exist_ok=True)
            # Neither truncated, which only the owner of the lock may do, nor buffered, so that what
            # fails to be written is not tried again when the file is closed.
            part = os.open(self.part, os.O_RDWR | os.O_CREAT, 0o666)
            self._file = open(part, "r+b", buffering=0)
        except OSError as error:
            if error.errno in FOR_ALL:
                raise
            raise InputError(f"{error.filename} cannot be written ({error.strerror})") from None
        try:
            self._lock()
            self._keep()
        except BaseException:
            self._file.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._file as file:
            empty = not file.tell()
            if kind is None and not empty:
                os.fsync(file.fileno())  # a rename may reach the disk before the data does
        if empty:
            self.part.unlink()
        elif kind is None:
            self.part.replace(self.path)

    def add(self, rows: Iterable[Iterable[Any]]) -> None:
        """Write rows to the disk."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        if not self._file.tell():
            writer.writerow(self.header)
        writer.writerows(rows)
        content = memoryview(text.getvalue().encode(**_TEXT))
        try:
            while content:  # a disk that is nearly full takes a part, and fails at the next
                content = content[self._file.write(content) :]
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.part)) from error

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        try:  # the system releases it when the process ends, however it ends
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self.part} is being written by another process: wait for its end, or name "
                "another file"
            ) from None
        except OSError:
            pass  # a file system without locks

    def _resume(self) -> None:
        """See that the rows to go on with are of this table, in the file that will have more."""
        source = self.part if self.part.exists() else self.path
        if not source.exists():
            return
        content = source.read_bytes()
        begun = source == self.part or not content  # half of the first line, at least, is ours
        header, _ = next(_whole_rows(content), (self.header if begun else ["other text"], 0))
        if header != self.header:
            raise InputError(
                f"expected {source} to have the columns {', '.join(self.header)}, got "
                f"{', '.join(header)}; name another file"
            )
        if source == self.path:
            with replacing(self.part) as copy:  # half a copy would be taken for all that was done
                shutil.copyfile(source, copy)

    def _keep(self) -> None:
        """Keep the rows that are whole, and stand where the next one begins."""
        rows = list(_whole_rows(self._file.readall()))
        if rows and not self.go_on:
            raise InputError(
                f"{self.part} has the rows of a job that was stopped; add --skip-existing to go "
                "on, or remove it to begin anew"
            )
        self.names = {row[0] for row, _ in rows[1:]}
        self._file.seek(rows[-1][1] if rows else 0)
        self._file.truncate()


def _whole_rows(content: bytes) -> Iterator[tuple[list[str], int]]:
    """Rows as long as the first, up to one that was cut off, and the byte at which each ends."""
    lines, columns = io.BytesIO(content), 0
    # The reader takes no line before it needs it; names may have line breaks in them.
    for row in csv.reader(str(line, **_TEXT) for line in lines):
        columns, end = columns or len(row), lines.tell()
        if len(row) != columns or content[end - 1 : end] != b"\n":
            return
        yield row, end
