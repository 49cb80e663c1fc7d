"""Loops compiled to machine code with Numba, which needs no compiler to be installed.

The code is cached beside the source or in the user's cache, and runs without Python's lock, so
that threads use all cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from hnets.errors import MissingExtra

try:
    import numba
except ImportError:
    raise MissingExtra("scores of edges", "numba", "bench") from None

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: the function as machine code, compiled at its first call."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder can be written to: compiled in every process
        return numba.njit(nogil=True)(function)
