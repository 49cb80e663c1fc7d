"""The hnets command inside a test's own process."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command did: its exit code, and what it said where."""

    code: object
    out: str
    err: str


Command = Callable[..., Outcome]
