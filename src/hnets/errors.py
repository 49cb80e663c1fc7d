"""Errors for users: one line with what was expected, what came and what to do."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Iterable

_LONGEST = 800
"""Characters of the known words that a message lists."""


class InputError(ValueError):
    """Something the user gave cannot be used; the commands print it and exit with code 2."""


class Unwritable(InputError):
    """The disk is full or fails, whatever the user gave; the commands exit with code 1."""


class MissingExtra(InputError, ImportError):
    """A package that only some commands need is not installed.

    >>> raise MissingExtra("figures", "matplotlib", "plot")
    Traceback (most recent call last):
    hnets.errors.MissingExtra: figures need matplotlib: pip install "hnets[plot]"
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} need {package}: pip install "hnets[{extra}]"')


def reason(error: BaseException) -> str:
    """The message of an exception in one line, or its type if it has none.

    >>> reason(OSError("file is\\ntruncated")), reason(EOFError())
    ('file is truncated', 'EOFError')
    """
    return " ".join(str(error).split()) or type(error).__name__


def suggest(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: the known one that is nearest, or all of them.

    >>> suggest("tran", ["train", "test"]), suggest("zebra", ["train", "test"])
    ("; did you mean 'train'?", '; choose from train, test')
    >>> suggest("epochs", ["training.epochs"])
    "; did you mean 'training.epochs'?"
    """
    known = list(known)
    near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.55)
    near = [name for name in known if name.endswith(f".{word}")] or near
    words = textwrap.shorten(", ".join(known), _LONGEST, placeholder=" …")
    choices = f"choose from {words}" if known else "there are none"
    return f"; did you mean {near[0]!r}?" if near else f"; {choices}"
