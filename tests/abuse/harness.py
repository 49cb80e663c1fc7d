"""What is counted of an attack, and the page that says what happened."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "survives.md"
SHOWN = 8
"""Failures that are shown of one part."""
GIVE_UP = 25
"""Failures after which a part ends."""


@dataclass(frozen=True)
class Case:
    """One attack: its number, and a generator that is its alone."""

    number: int
    rng: random.Random


@dataclass
class Part:
    """One row of the page: a kind of attack, how often it was tried, and what happened."""

    name: str
    unit: str
    share: float
    """Of the minutes of a long run."""
    target: int = 0
    tried: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    seed: int = 0
    minutes: float = 0.0
    only: int | None = None
    began: float = field(default_factory=time.monotonic)
    seconds: float = 0.0

    def cases(self, count: int) -> Iterator[Case]:
        """So many cases, or in a long run as many as its share of the time allows."""
        deadline = time.monotonic() + 60 * self.minutes * self.share
        number = 0 if self.only is None else self.only
        while True:
            yield Case(number, random.Random(f"{self.seed}/{self.name}/{number}"))
            number += 1
            enough = time.monotonic() > deadline if self.minutes else number >= count
            if enough or self.only is not None or len(self.failures) >= GIVE_UP:
                return

    def count(self, what: str, times: int = 1) -> None:
        """Note what happened to an attack."""
        self.tried += times
        self.happened[what] += times

    def fail(self, case: Case, what: str) -> None:
        """Note an attack that succeeded."""
        self.tried += 1
        self.failures.append(f"--seed {self.seed} --case {case.number}: {what}")

    def check(self) -> None:
        """Fail the test if any attack succeeded."""
        self.seconds = time.monotonic() - self.began
        if self.failures:
            shown = "\n".join(self.failures[:SHOWN])
            pytest.fail(
                f"{self.name}: {len(self.failures)} of {self.tried} {self.unit}\n{shown}",
                pytrace=False,
            )

    def row(self) -> str:
        """The row of the page."""
        happened = "; ".join(f"{n:,} {what}" for what, n in self.happened.most_common())
        target = f" of {self.target:,}" if self.target else ""
        return (
            f"| {self.name} | {self.tried:,}{target} {self.unit} | {happened} | "
            f"{len(self.failures)} | {self.seed} | {self.seconds / 60:.1f} |"
        )


NewPart = Callable[..., Part]

HEAD = """# What it survives

`tests/abuse` attacks the commands, the files and the page as a hostile user, a full disk or a
failing machine would. An attack succeeds if it causes a traceback, a line of another library on
stderr, a process that hangs, a file that is half-written, weights that differ in a bit, an exit
code other than the documented one, or an honest client of the page that waits for more than two
seconds. Every `pytest` includes a fixed part of it, less than a minute of CPU time. A longer
attack, with other random numbers, which also writes this page:

```sh
pytest tests/abuse --minutes 30 --seed 1 --write-page
```

"1,234 of 100,000" is a number reached and the number aimed at. An attack that succeeds is named
with its seed and number, and repeated by `pytest tests/abuse -k TEST --seed S --case N`.

"""
TABLE = """| attack | how often | what happened | succeeded | seed | minutes |
|---|---|---|---|---|---|
"""


def write_page(parts: Sequence[Part]) -> None:
    """Write the rows of the parts that ran, and leave those of the others as they are."""
    rows = [part.row() for part in parts]
    names = {row.split(" | ")[0] for row in rows}
    if PAGE.exists():
        _, _, before = PAGE.read_text(encoding="utf-8").partition(TABLE)
        rows += [row for row in before.splitlines() if row.split(" | ")[0] not in names]
    PAGE.write_text(HEAD + TABLE + "\n".join(sorted(rows)) + "\n", encoding="utf-8")
