"""Where a study lies: a database that Optuna opens, and what is said when it cannot."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from hnets.errors import InputError, MissingExtra

try:
    import sqlalchemy.exc
    from optuna.exceptions import StorageInternalError
    from optuna.storages import RDBStorage
except ModuleNotFoundError:
    raise MissingExtra("searches", "optuna", "search") from None

__all__ = ["failing", "file_url", "hidden", "open_storage"]

WAIT = 60.0
"""Seconds to wait for another process that writes to an SQLite file."""


def file_url(path: Path) -> str:
    """The URL of an SQLite file, whatever its name."""
    url = sqlalchemy.URL.create("sqlite", database=str(path.absolute())).render_as_string()
    return url.replace("{", "{{").replace("}", "}}")  # Optuna takes it for a format


def open_storage(url: str) -> RDBStorage:
    """The database of a URL, with Optuna's tables in it."""
    with failing(url):
        for pause in (0.1, 0.2, 0.4, 0.8, 1.6):
            try:
                return _open(url)
            except sqlalchemy.exc.DatabaseError as error:
                if not _crowded(error):
                    raise
                time.sleep(pause)
        return _open(url)


def _open(url: str) -> RDBStorage:
    lasting = url.startswith("sqlite:")
    try:
        return RDBStorage(url, {"connect_args": {"timeout": WAIT}} if lasting else None)
    except ImportError as error:  # the driver of the database
        reason = str(error.__cause__ or error)
    except (RuntimeError, ValueError, LookupError) as error:  # old tables; stray braces in the URL
        reason = str(error)
    raise _complaint(url, reason)


def _crowded(error: sqlalchemy.exc.DatabaseError) -> bool:
    """Whether another process is making the tables at this moment."""
    taken = isinstance(error, sqlalchemy.exc.IntegrityError)
    return taken or "already exists" in str(error) or "locked" in str(error)


@contextmanager
def failing(url: str) -> Iterator[None]:
    """Say in one line what is wrong with a storage."""
    try:
        yield
    except (sqlalchemy.exc.SQLAlchemyError, StorageInternalError) as error:
        cause = error.__cause__ if isinstance(error, StorageInternalError) else error
        raise _complaint(url, str(getattr(cause, "orig", None) or cause or error)) from None


def _complaint(url: str, reason: str) -> InputError:
    return InputError(
        f"the storage {hidden(url)} cannot be used ({reason}); expected the URL of a database that "
        "can be written, such as sqlite:///search.db or postgresql://user:password@host/name"
    )


def hidden(url: str) -> str:
    """A URL as it may be shown: without its password, and a file by its path.

    >>> hidden("postgresql://me:secret@host/name"), hidden("sqlite:////a%20b/search.db")
    ('postgresql://me:***@host/name', '/a b/search.db')
    """
    if url.startswith("sqlite:///"):
        return unquote(url.removeprefix("sqlite:///"))
    return re.sub(r"(//[^:/@]*):[^/]*@", r"\1:***@", url)
