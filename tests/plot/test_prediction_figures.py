"""Figures of edges and of digits read at every angle."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from drawings import Corner, drawn
from hnets import plot
from hnets.predict import DigitClassifier
from hnets.studies.quickstart import ReadDigit


def maps(height: int = 120, width: int = 160) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(0)
    strength = random.random((height, width)).astype(np.float32)
    return strength, (np.pi * random.random((height, width))).astype(np.float32)


@pytest.mark.parametrize("size", [(400, 600), (300, 300), (600, 400), (100, 900)])
def test_no_text_of_edges_overlaps_another_or_leaves_the_sheet(size: tuple[int, int]) -> None:
    image = np.zeros((*size, 3), np.uint8)
    with plot.figure_style():
        figure = plot.edges_figure(image, *maps(*size))
        FigureCanvasAgg(figure).draw()
    assert len(figure.axes) == 4
    texts = [*figure.texts, *(text for axes in figure.axes for text in axes.texts)]
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts if text.get_text()]
    assert len(boxes) == 5 + 8 + 1
    for number, (name, box) in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, name
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, name
        for other, second in boxes[number + 1 :]:
            assert not box.overlaps(second), (name, other)


def accuracy(low: float, high: float) -> Figure:
    blank = np.zeros((28, 28))
    digits = [ReadDigit(blank, angle, "8", ("8", "0")) for angle in range(0, 361, 45)]
    curves = {"H-Net": [high] * 24, "plain CNN": [low, high] * 12}
    return plot.accuracy_figure("A title", range(0, 360, 15), curves, digits, 10.0)


@pytest.mark.parametrize(("low", "high"), [(0, 100), (10, 10), (50, 98.6)])
def test_no_text_of_accuracies_overlaps_another_or_leaves_the_sheet(low: int, high: int) -> None:
    with plot.figure_style():
        drawn = accuracy(low, high)
        canvas = FigureCanvasAgg(drawn)
        canvas.draw()
    parts = list(drawn.texts)
    for axes in drawn.axes:
        parts += [*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels(), axes.yaxis.label]
    boxes = [(part.get_text(), part.get_window_extent()) for part in parts if part.get_text()]
    assert len(boxes) > 50
    for number, (name, box) in enumerate(boxes):
        assert drawn.bbox.x0 <= box.x0 < box.x1 <= drawn.bbox.x1, name
        assert drawn.bbox.y0 <= box.y0 < box.y1 <= drawn.bbox.y1, name
        for other, second in boxes[number + 1 :]:
            assert not box.overlaps(second), (name, other)


def test_right_and_wrong_predictions_differ_in_mark_and_colour() -> None:
    marks = [part for part in accuracy(10, 90).texts if part.get_text() in "✓✗"]
    assert [mark.get_text() for mark in marks] == ["✓", "✗"] * 9
    assert len({(mark.get_text(), mark.get_color()) for mark in marks}) == 2


def test_the_figure_compares_two() -> None:
    with pytest.raises(ValueError, match="compares two networks, got 1"):
        plot.accuracy_figure("", [0], {"one": [1.0]}, [], 10.0)


# Digits ----------------------------------------------------------------------------------------


def rotated_digit(name: str = "seven.png") -> plot.RotatedDigit:
    return plot.RotatedDigit(name, drawn(), DigitClassifier(Corner()).rotated(drawn()))


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_figure_has_three_panels_for_every_image(count: int) -> None:
    figure = plot.digits_figure([rotated_digit()] * count)
    assert len(figure.axes) == 3 * count
    boxes = [axes.get_position() for axes in figure.axes]
    for i, one in enumerate(boxes):
        assert one.xmin >= 0
        assert one.ymin >= 0
        assert max(one.xmax, one.ymax) <= 1
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_figure_names_other_digits_at_their_angles() -> None:
    digit = rotated_digit("$a_b$ a long name of a file that has to be cut.png")
    figure = plot.digits_figure([digit])
    others = digit.predictions.digits[~digit.predictions.same]
    assert [text.get_text() for text in figure.axes[2].texts] == [str(d) for d in others]
    original = digit.predictions.original
    titles = [text.get_text() for text in figure.texts]
    assert titles[0] == "$a_b$ a long…to be cut.png"
    assert titles[2] == f"{original.digit}, {100 * original.confidence:.1f} %"
