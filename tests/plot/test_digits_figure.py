"""Figures of digits."""

import pytest

from drawings import Corner, drawn
from hnets import plot as inspect
from hnets.predict import DigitClassifier


def turned_digit(name: str = "seven.png") -> inspect.TurnedDigit:
    return inspect.TurnedDigit(name, drawn(), DigitClassifier(Corner()).rotated(drawn()))


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_figure_has_three_panels_for_every_image(count: int) -> None:
    figure = inspect.digits_figure([turned_digit()] * count)
    assert len(figure.axes) == 3 * count
    boxes = [axes.get_position() for axes in figure.axes]
    for i, one in enumerate(boxes):
        assert one.xmin >= 0
        assert one.ymin >= 0
        assert max(one.xmax, one.ymax) <= 1
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_figure_names_other_digits_at_their_angles() -> None:
    digit = turned_digit("$a_b$ a long name of a file that has to be cut.png")
    figure = inspect.digits_figure([digit])
    others = digit.turning.digits[~digit.turning.same]
    assert [text.get_text() for text in figure.axes[2].texts] == [str(d) for d in others]
    original = digit.turning.original
    titles = [text.get_text() for text in figure.texts]
    assert titles[0] == "$a_b$ a long…to be cut.png"
    assert titles[2] == f"{original.digit}, {100 * original.confidence:.1f} %"
