"""What is said to a user: one line with what was expected, what came and what to do."""

from __future__ import annotations

__all__ = ["InputError", "MissingExtra"]


class InputError(ValueError):
    """Something the user gave cannot be used; the commands print it and exit with code 2."""


class MissingExtra(InputError, ImportError):
    """A package that only some commands need is not installed.

    >>> raise MissingExtra("figures", "matplotlib", "plot")
    Traceback (most recent call last):
    hnets.errors.MissingExtra: figures need matplotlib: pip install "hnets[plot]"
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} need {package}: pip install "hnets[{extra}]"')
