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
        """So many cases; in a long run, until the target or the share of the time is reached."""
        deadline = time.monotonic() + 60 * self.minutes * self.share
        number = 0 if self.only is None else self.only
        while True:
            yield Case(number, random.Random(f"{self.seed}/{self.name}/{number}"))
            number += 1
            enough = number >= count
            if self.minutes:
                reached = self.target and self.tried >= self.target
                enough = bool(reached) or time.monotonic() > deadline
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
seconds.

Every run of the tests includes a fixed part of it, less than a minute of CPU time. A longer attack
draws other random numbers and writes this table:

```sh
pytest tests/abuse --minutes 240 --seed 2 --write-page
```

"""
TABLE = """| attack | how often | what happened | succeeded | seed | minutes |
|---|---|---|---|---|---|
"""
TAIL = """
"1,234 of 100,000" is a number reached and the number aimed at; `--minutes` decides how many. An
attack that succeeds is named with its seed and number, and `pytest tests/abuse -k TEST --seed S
--case N` repeats it.

- **Damaged image files** are whole ones in every mode of PNG, JPEG, TIFF, WebP, GIF, BMP and some
  formats that are not read, with flipped bits, cut short, spliced, with bytes repeated, removed or
  overwritten, with sizes that they do not have, and under another name. They go to the reader, to
  `hnets edges` in batches, and to the page.
- **Damaged recipes** have keys changed, removed, renamed and added: other types, huge numbers, NaN,
  deep nesting, odd text.
- **Damaged checkpoints and weights** have bits flipped in the length of the header, the header,
  the metadata and the values, or a header that is whole and says something else.
- **Random layer arguments** are mostly right. A layer must refuse them with an error of hnets or be
  exactly equivariant: in float64, an input rotated by 90 degrees gives the rotated output to 1e-9,
  and the frozen layer gives the same.
- **`kill -9`** comes at random moments of a training of `hnet_mnist` with a checkpoint at every
  epoch, up to six times before it may finish. Weights, optimiser state, log and result are then
  compared bit by bit with those of an undisturbed training.
- **A full disk** is one where a random write fails, and perhaps all later ones: a file cannot be
  opened or a folder made, or files stop growing after some bytes. The training is then resumed with
  room, and compared in the same way.
- **Clients that trickle** send a byte or a few at a time of requests that never end, and connect
  again when they are cut off, while an honest client asks for the page and uploads an image.
"""


def write_page(parts: Sequence[Part]) -> None:
    """Write the rows of the parts that ran, and leave those of the others as they are."""
    rows = {part.name: part.row() for part in parts}
    if PAGE.exists():
        _, _, table = PAGE.read_text(encoding="utf-8").partition(TABLE)
        before = [row for row in table.splitlines() if row.startswith("| ")]
        rows = {row.split(" | ")[0].removeprefix("| "): row for row in before} | rows
    PAGE.write_text(HEAD + TABLE + "\n".join(rows.values()) + "\n" + TAIL, encoding="utf-8")
