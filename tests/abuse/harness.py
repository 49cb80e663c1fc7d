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

`tests/abuse` runs fault-injection and fuzzing tests against the commands, the file formats and the
demo page: hostile input, full disks, killed processes. An attack succeeds if it causes a traceback,
output of another library on stderr, a hang, a partially written file, weights that differ in any
bit, an exit code other than the documented one, or a delay of more than two seconds for a
well-behaved client of the page.

The exit code is 2 for bad input, 1 for a disk that is full or fails, and 130 for Ctrl-C. If some
files of a batch are bad, the others are processed.

The test suite always runs a fixed part of the attacks, less than a minute of CPU time. A longer run
draws new random numbers and updates the table:

```sh
pytest tests/abuse --minutes 240 --seed 2 --write-page
```

"""
TABLE = """| attack | how often | what happened | succeeded | seed | minutes |
|---|---|---|---|---|---|
"""
TAIL = """
"1,234 of 100,000" is the number reached and the target; `--minutes` sets how many are run. A
successful attack is reported with its seed and number, and `pytest tests/abuse -k TEST --seed S
--case N` repeats it.

- **Damaged image files** are derived from valid files in every mode of PNG, JPEG, TIFF, WebP, GIF
  and BMP, and some unsupported formats: with flipped bits, truncated, spliced, with bytes repeated,
  removed or overwritten, with false dimensions, or with the wrong extension. They are passed to the
  reader, to `hnets edges` in batches, and to the page.
- **Damaged recipes** have keys changed, removed, renamed and added: wrong types, huge numbers, NaN,
  deep nesting, unusual text.
- **Damaged checkpoints and weights** have bits flipped in the header length, the header, the
  metadata and the values, or a well-formed header with wrong contents.
- **Random layer arguments** are mostly valid. A layer must reject them with an hnets error or be
  exactly equivariant: in float64, an input rotated by 90 degrees gives the rotated output to within
  1e-9, and the frozen layer gives the same.
- **`kill -9`** is sent at random times during a training run of `hnet_mnist` with a checkpoint at
  every epoch, up to six times before the run may finish. Weights, optimiser state, log and result
  are then compared bit by bit with those of an uninterrupted run.
- **A full disk** is simulated by a random write that fails, possibly with all later ones: a file
  cannot be opened, a folder cannot be created, or files stop growing after some bytes. The training
  run is then resumed with free space and compared in the same way.
- **Clients that trickle** send endless requests a byte or a few at a time and reconnect when
  disconnected, while a well-behaved client requests the page and uploads an image.
"""


def write_page(parts: Sequence[Part]) -> None:
    """Write the rows of the parts that ran, and leave those of the others as they are."""
    rows = {part.name: part.row() for part in parts}
    if PAGE.exists():
        _, _, table = PAGE.read_text(encoding="utf-8").partition(TABLE)
        before = [row for row in table.splitlines() if row.startswith("| ")]
        rows = {row.split(" | ")[0].removeprefix("| "): row for row in before} | rows
    PAGE.write_text(HEAD + TABLE + "\n".join(rows.values()) + "\n" + TAIL, encoding="utf-8")
