"""Compile a function of loops for this machine, with Numba: it needs no compiler to be installed.

The machine code is kept beside the source or in the user's cache, and runs without Python's lock,
so that threads use all cores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from hnets.errors import MissingExtra

try:
    import numba
except ImportError:
    raise MissingExtra("scores of boundaries", "numba", "bench") from None

__all__ = ["compiled"]

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: the function in machine code, made when it is first called."""
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no folder can be written to: it is compiled each time
        return numba.njit(nogil=True)(function)
