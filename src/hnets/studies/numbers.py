"""Tables of text, for a terminal or a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

_WIDE = 1000
"""Characters that every table fits in."""


class _Whole(Table):
    """A table that is never narrower than its words and numbers, however narrow the terminal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = Measurement.get(console, options.update_width(_WIDE), self).minimum
        width = max(least, options.max_width)
        yield from super().__rich_console__(console, options.update_width(width))


@dataclass(frozen=True)
class Numbers:
    """A table of text."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    bold: frozenset[int] = frozenset()
    """Rows that stand out, counted from 0."""

    def rich(self, **look: Any) -> Table:
        """The table for a terminal, its numbers at the right; ``look`` is that of rich's Table.

        It may be wider than the terminal: print it with ``crop=False``, so that nothing is cut.
        """
        # As texts: square brackets in the names of networks are no markup.
        table = _Whole(title=Text(self.title, "table.title") if self.title else None, **look)
        for name, *cells in zip(self.header, *self.rows, strict=True):
            number = all(cell[:1] in "0123456789." or cell.startswith("exact") for cell in cells)
            justify: Any = "right" if number else "left"
            least = max(map(len, [*name.splitlines(), *cells])) if number else None
            table.add_column(
                name, justify=justify, no_wrap=number, overflow="fold", min_width=least
            )
        for place, row in enumerate(self.rows):
            table.add_row(*map(Text, row), style="bold" if place in self.bold else None)
        return table

    def markdown(self) -> str:
        """The table for a page, without its title."""
        lines = ["| " + " | ".join(row) + " |" for row in (self.header, *self.rows)]
        return "\n".join([lines[0], "|" + "---|" * len(self.header), *lines[1:]])


def percent(share: float) -> str:
    """Two digits of a percentage; nothing for NaN, and "exact" for rounding.

    >>> percent(0.123), percent(0.0123), percent(0.00123), percent(1e-15), percent(0)
    ('12 %', '1.2 %', '0.12 %', 'exact', '0 %')
    """
    if math.isnan(share):
        return ""
    if 0 < share < 1e-9:
        return "exact"
    return f"{100 * share:.{0 if share >= 0.1 or not share else 1 if share >= 0.01 else 2}f} %"
