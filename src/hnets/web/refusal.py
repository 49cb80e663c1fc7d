"""What the server says when it does not do what it was asked."""

from __future__ import annotations

__all__ = ["Refused"]


class Refused(Exception):
    """An answer in place of the one that was asked for: a status, and one line for a person.

    >>> Refused(413, "this is too large").status
    413
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
