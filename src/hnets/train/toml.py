"""Recipes as TOML, which the standard library reads and does not write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from hnets.train.recipe import Recipe

__all__ = ["to_toml"]


def to_toml(recipe: Recipe) -> str:
    """The text of a recipe file: `hnets.train.read_recipe` makes the same recipe of it.

    >>> from hnets.train.recipe import Data, Model, Recipe
    >>> recipe = Recipe('A "small" one', Model("z2cnn"), Data("digits"))
    >>> to_toml(recipe).splitlines()[:4]
    ['title = "A \\\\"small\\\\" one"', '', '[model]', 'name = "z2cnn"']
    """
    return "\n".join(_table(recipe.to_dict(), "")).lstrip("\n") + "\n"


def _table(values: Mapping[str, Any], name: str) -> list[str]:
    """The lines of a table, and of those in it: in TOML, a table's own keys come first."""
    # Below the second level, as in search.space, a table is one entry and stands on one line.
    inner = [
        key for key, value in values.items() if isinstance(value, Mapping) and name.count(".") < 1
    ]
    lines = [f"{_key(key)} = {_value(value)}" for key, value in values.items() if key not in inner]
    if name and lines:
        lines = ["", f"[{name}]", *lines]
    for key in inner:
        lines += _table(values[key], f"{name}.{_key(key)}" if name else _key(key))
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    raise TypeError(f"expected numbers, texts, truth values, lists and tables, got {value!r}")


def _text(text: str) -> str:
    # JSON escapes what TOML does, in the same way, but for one character.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
