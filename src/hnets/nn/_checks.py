"""What layers ask of their arguments and inputs, said in one way."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from torch import Tensor

from hnets.streams import Stream, Streams, StreamsLike

__all__ = ["flag", "highest_order", "picture", "probability", "rank", "whole"]


def whole(value: SupportsIndex, name: str) -> int:
    """The value of an argument that counts something, such as pixels or classes."""
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} is a whole number from 1, got {value!r}")
    return number


def flag(value: object, name: str) -> bool:
    """The value of an argument that is on or off; a text, even "False", would count as on."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is True or False (in a recipe, true or false), got {value!r}")
    return value


def probability(value: object, name: str) -> float:
    """The value of an argument that says how often something is left out."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"{name} is a probability from 0 up to but not including 1, got {value!r}")
    return value


def rank(x: Tensor, who: str) -> None:
    """Raise unless ``x`` is ``(batch, channels, height, width)``."""
    if x.dim() != 4:
        raise ValueError(
            f"{who} expects an input of shape (batch, channels, height, width), "
            f"got {tuple(x.shape)}"
        )


def picture(x: Tensor, who: str) -> None:
    """Raise unless ``x`` is ``(batch, channels, height, width)`` in floating point."""
    rank(x, who)
    if not x.is_floating_point():
        raise TypeError(f"{who} expects a floating-point input, got {x.dtype}")


def highest_order(streams: StreamsLike, who: str) -> int:
    """K, if the streams are a real order 0 and orders 1 to K of one multiplicity."""
    given = Streams(streams)
    width = given[0].multiplicity
    orders = range(1, len(given))
    if given != Streams((Stream(0, width, real=True), *(Stream(k, width) for k in orders))):
        wanted = Streams((Stream(0, width, real=True), *(Stream(k, width) for k in (1, 2))))
        raise ValueError(
            f"{who} needs Fourier coefficients of real functions: a real order 0 and orders 1, 2, "
            f'... of the same multiplicity, such as "{wanted}", got "{given}"'
        )
    return len(given) - 1
