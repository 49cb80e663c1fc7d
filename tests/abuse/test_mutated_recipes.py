"""Damaged and absurd recipes: refused in one line, or trained to their end."""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
from pathlib import Path
from typing import Any

from abuse.harness import NewPart
from abuse.training import Tiny, refusal

NUMBERS: tuple[Any, ...] = (
    0, 1, -1, 2, 7, 20_000, 10**9, 2**31, 2**63 - 1, 2**64, 10**30, -(10**30), 0.0, -0.0, 0.5,
    1e-300, 1e300, -1e300, 5e-324, math.nan, math.inf, -math.inf,
)  # fmt: skip
OTHERS: tuple[Any, ...] = (
    True, False, "", " ", "0", "nan", "train", "../..", "/dev/zero", "/", "x" * 10_000, "\0",
    "\n\n",
    "\u202ereversed", "\U0001f4a5", "ünïcödé", "[/]", "%s{0}", [], [[]], [1, "a"], {}, {"a": {}},
    {"": 0}, {"low": 1, "high": 0}, {"choices": []}, ["x"] * 3000,
)  # fmt: skip
DEEP = 60


def nasty(rng: random.Random) -> Any:
    """A value that no key expects."""
    if rng.random() < 0.03:
        value: Any = 0
        for _ in range(DEEP):
            value = [value] if rng.random() < 0.5 else {"a": value}
        return value
    return rng.choice(NUMBERS if rng.random() < 0.6 else OTHERS)


def leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all keys, of tables too."""
    paths = []
    for key, value in table.items():
        paths.append((*path, key))
        if isinstance(value, dict):
            paths += leaves(value, (*path, key))
    return paths


def mutated(recipe: dict[str, Any], rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A recipe with a few keys changed, removed, renamed or added, and a word about which."""
    recipe, done = copy.deepcopy(recipe), []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        *parents, key = rng.choice(leaves(recipe))
        place = recipe
        for parent in parents:
            place = place[parent]
        how = rng.choice(("change", "change", "change", "change", "remove", "rename", "add"))
        if how == "change":
            place[key] = nasty(rng)
            done.append(f"{'.'.join((*parents, key))} = {place[key]!r}"[:200])
        elif how == "add":
            place[rng.choice(("", "ä", "epochs", "__class__", "x" * 300, "a.b"))] = nasty(rng)
            done.append(f"a key beside {key}")
        else:
            value = place.pop(key)
            if how == "rename":
                place[key[:-1] + key[-1:] * 2] = value
            done.append(f"{how} {key}")
    return ", ".join(done), recipe


def to_toml(value: Any) -> str:
    """Any value in TOML, with tables inline; control characters are escaped."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list):
        return f"[{', '.join(map(to_toml, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{to_toml(k)} = {to_toml(v)}' for k, v in value.items())} }}"
    return repr(value)


def damaged(text: str, rng: random.Random) -> bytes:
    """The text of a recipe with some bytes changed, or cut short."""
    content = bytearray(text.encode())
    for _ in range(rng.choice((1, 2, 5))):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content[: rng.randrange(len(content))] if rng.random() < 0.2 else content)


def endless(recipe: dict[str, Any]) -> bool:
    """Whether a recipe is right to take long."""

    def many(table: str, key: str) -> bool:
        values = recipe.get(table)
        value = values.get(key) if isinstance(values, dict) else None
        return isinstance(value, int | float) and value > 6

    return many("training", "epochs") or many("evaluation", "views")


def test_a_recipe_is_refused_in_one_line_or_trained(
    part: NewPart, tiny: Tiny, tmp_path: Path
) -> None:
    attacked = part("Damaged recipes, `hnets train`", "recipes", share=0.08)
    whole = json.loads((tiny.folder / "result.json").read_text())["recipe"]
    whole["training"] |= {"epochs": 1}
    for case in attacked.cases(25):
        work = tmp_path / f"case-{case.number}"
        work.mkdir()
        done, recipe = mutated(whole, case.rng)
        text = "\n".join(f"{to_toml(key)} = {to_toml(value)}" for key, value in recipe.items())
        if case.rng.random() < 0.2:
            done, recipe = "bytes of the text", {"training": {"epochs": 7}}
            (work / "odd.toml").write_bytes(damaged(text, case.rng))
        else:
            (work / "odd.toml").write_text(text)
        limit = 10 if endless(recipe) else 60
        outcome = tiny.launcher.hnets("train", "odd.toml", "--out", "run", folder=work, limit=limit)
        if outcome.hung and endless(recipe):
            attacked.count("still training when it was stopped, as asked")
        elif outcome.code == 0 and not outcome.err:
            attacked.count("trained to the end")
        elif wrong := refusal(outcome, 2):
            attacked.fail(case, f"{done}: {wrong}; left in {work}")
            continue
        else:
            attacked.count("refused in one line")
        shutil.rmtree(work)
    attacked.check()
