"""The hnets command inside a test's own process."""

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """The exit code of a command, and what it printed to stdout and stderr."""

    code: object
    out: str
    err: str


Command = Callable[..., Outcome]
