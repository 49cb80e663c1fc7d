"""Dataclasses from dictionaries: a wrong key or type is an error that suggests the right one."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from typing import Any, Literal

from hnets.errors import InputError, suggest


class Section:
    """A dataclass whose fields, if annotated with a condition and its name, are checked."""

    def __post_init__(self) -> None:
        for name, hint in typing.get_type_hints(type(self), include_extras=True).items():
            if typing.get_origin(hint) is typing.Annotated:
                _, met, wanted = typing.get_args(hint)
                value = getattr(self, name)
                expect(met(value), f"{type(self).__name__.lower()}.{name}", wanted, value)


def build(kind: Any, values: Any, where: str) -> Any:
    """A dataclass from a dictionary, checked key by key and type by type."""
    if not isinstance(values, Mapping):
        raise InputError(f"{where} is a table of keys, got {values!r}")
    hints, fields = typing.get_type_hints(kind), dataclasses.fields(kind)
    names = [part.name for part in fields]
    for key in values:
        if key not in names:
            place = f"[{where}]" if where else "a recipe"
            raise InputError(f"{place} has no key {key!r}{suggest(key, names)}")
    for part in fields:
        needed = part.default is dataclasses.MISSING
        needed = needed and part.default_factory is dataclasses.MISSING
        if needed and part.name not in values:
            raise InputError(f"{f'[{where}]' if where else 'a recipe'} needs a key {part.name!r}")
    converted = {
        key: _convert(hints[key], value, f"{where}.{key}" if where else key)
        for key, value in values.items()
    }
    return kind(**converted)


def _convert(hint: Any, value: Any, where: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return build(hint, value, where)
    if typing.get_origin(hint) is Literal:
        choices = typing.get_args(hint)
        near = suggest(str(value), choices)
        expect(value in choices, where, f"one of {', '.join(choices)}", value, near)
        return value
    if hint is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        expect(number and math.isfinite(value), where, "a number", value)
        return float(value)
    if hint is int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        expect(whole, where, "a whole number", value)
        return value
    if hint in (bool, str):
        name = "true or false" if hint is bool else "text"
        expect(isinstance(value, hint), where, name, value)
        return value
    expect(isinstance(value, Mapping), where, "a table of keys", value)
    return dict(value)


def expect(met: bool, where: str, wanted: str, value: object, advice: str = "") -> None:
    """Complain about the value of a key unless a condition is met."""
    if not met:
        raise InputError(f"{where}: expected {wanted}, got {value!r}{advice}")
