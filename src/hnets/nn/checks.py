"""What layers ask of their arguments and inputs, said in one way."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from torch import Tensor

__all__ = ["picture", "rank", "whole"]


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
