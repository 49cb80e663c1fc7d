"""What a search may choose from: a range or some choices for each dotted key of a recipe."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from hnets.errors import InputError, suggest
from hnets.train._strict import expect

__all__ = ["Choices", "Range", "Space", "read_space"]

FORM = "{ low = 0.001, high = 0.1, log = true } or { choices = [46, 128] }"


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included.

    Whole numbers if both ends are, unless the key takes any number; evenly spread in their
    logarithm if ``log``.
    """

    low: int | float
    high: int | float
    log: bool = False

    @property
    def ends(self) -> tuple[int | float, ...]:
        """If the recipe takes these, it takes all that lie between them."""
        return self.low, self.high


@dataclass(frozen=True)
class Choices:
    """One of several numbers, texts or truth values."""

    choices: tuple[int | float | str | bool, ...]

    @property
    def ends(self) -> tuple[int | float | str | bool, ...]:
        """All of them."""
        return self.choices


Space: TypeAlias = dict[str, Range | Choices]


def read_space(space: Mapping[str, Any]) -> Space:
    """The table ``[search.space]`` of a recipe, checked entry by entry.

    >>> read_space({"training.batch": {"choices": [46, 128]}})
    {'training.batch': Choices(choices=(46, 128))}
    """
    return {key: _read(values, f'search.space."{key}"') for key, values in space.items()}


def _read(values: Any, where: str) -> Range | Choices:
    expect(isinstance(values, Mapping), where, FORM, values)
    kind = Choices if "choices" in values else Range
    names = ("choices",) if kind is Choices else ("low", "high", "log")
    for name in values:
        if name not in names:
            near = suggest(name, names if kind is Choices else (*names, "choices"))
            raise InputError(f"{where} has no key {name!r}{near}")
    if kind is Choices:
        return _choices(values["choices"], where)
    for name in ("low", "high"):
        if name not in values:
            raise InputError(f"{where} needs a key {name!r}, as in {FORM}")
    return _range(values["low"], values["high"], values.get("log", False), where)


def _choices(given: Any, where: str) -> Choices:
    expect(isinstance(given, list) and bool(given), f"{where}.choices", "a list of values", given)
    for one in given:
        expect(
            isinstance(one, int | float | str),
            f"{where}.choices",
            "numbers, texts, true or false",
            one,
        )
    return Choices(tuple(given))


def _range(low: Any, high: Any, log: Any, where: str) -> Range:
    for name, value in (("low", low), ("high", high)):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        expect(number and math.isfinite(value), f"{where}.{name}", "a number", value)
    expect(isinstance(log, bool), f"{where}.log", "true or false", log)
    expect(low < high, f"{where}.low", f"less than its high of {high!r}", low)
    expect(not log or low > 0, f"{where}.low", "more than 0, since log = true", low)
    return Range(low, high, log)
