"""What layers ask of their arguments and inputs, said in one way."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from torch import Tensor

from hnets.streams import Stream, Streams, StreamsLike

__all__ = ["highest_order", "picture", "rank", "whole"]


def whole(value: SupportsIndex, name: str) -> int:
    """The value of an argument that counts pixels."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(f"{name} is a whole number from 1, got {value!r}")
    return number


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
