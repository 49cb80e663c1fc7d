"""Tables of text in a terminal."""

import io

import pytest
from rich.console import Console

from hnets.studies.numbers import Numbers

ROW = "H-Net [old]", "33,347", "1.37 ± 0.08"
NUMBERS = Numbers("[b]", ("method", "parameters", "error"), [ROW])


@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_narrow_terminal_cuts_neither_words_nor_numbers(width: int) -> None:
    text = io.StringIO()
    Console(file=text, width=width).print(NUMBERS.rich(), crop=False)
    words = text.getvalue().split()
    for part in (NUMBERS.title, *NUMBERS.header, *ROW):
        assert set(part.split()) <= set(words)
