"""Boundaries as pictures: colours that stand for directions, and a legend that says so."""

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from numpy.typing import NDArray

from hnets import plot as inspect


def maps(height: int = 120, width: int = 160) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(0)
    strength = random.random((height, width)).astype(np.float32)
    return strength, (np.pi * random.random((height, width))).astype(np.float32)


def test_half_a_turn_gives_the_same_colour_and_a_quarter_turn_the_opposite_one() -> None:
    angles = np.linspace(0, np.pi, 50, endpoint=False)
    colours = inspect.orientation_colours(np.ones(50), angles)
    turned = inspect.orientation_colours(np.ones(50), angles + np.pi)
    np.testing.assert_allclose(colours, turned, atol=1e-6)
    across = inspect.orientation_colours(np.ones(50), angles + np.pi / 2)
    assert np.abs(colours - across).max(1).min() > 0.3


def test_the_wheel_has_at_each_direction_the_colour_of_lines_in_it() -> None:
    wheel = inspect.orientation_wheel(201)
    assert wheel[100, 100, :3].max() < 0.1
    for degrees in range(0, 360, 15):
        at = np.exp(1j * np.radians(degrees))
        row, column = round(100 - 95 * at.imag), round(100 + 95 * at.real)
        expected = inspect.orientation_colours(1.0, np.radians(degrees))
        np.testing.assert_allclose(wheel[row, column, :3], expected, atol=0.1)
        assert wheel[row, column, 3] == 1
    assert wheel[0, 0, 3] == 0


def test_a_map_in_eight_bits() -> None:
    strength = np.array([[0, 0.5, 1], [0.1, 0.2, 1.0]], np.float32)
    image = inspect.edges_image(strength)
    assert (image.mode, image.size) == ("L", (3, 2))
    np.testing.assert_array_equal(np.asarray(image), np.rint(255 * strength))


def test_orientations_have_a_legend_where_there_is_room() -> None:
    strength, angle = maps()
    found = np.asarray(inspect.orientation_image(strength, angle))
    plain = np.rint(255 * inspect.orientation_colours(strength, angle))
    assert found.shape == (120, 160, 3)
    np.testing.assert_array_equal(found[:60], plain[:60])
    size = 48
    legend = found[-size - size // 8 : -size // 8, -size - size // 8 : -size // 8]
    wheel = inspect.orientation_wheel(size)
    inside = wheel[..., 3] == 1
    np.testing.assert_allclose(legend[inside], 255 * wheel[..., :3][inside], atol=1)
    small = np.asarray(inspect.orientation_image(strength[:90], angle[:90]))
    np.testing.assert_array_equal(small, plain[:90])


def test_an_overlay_is_pale_but_for_the_boundaries() -> None:
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    strength = np.zeros((20, 30), np.float32)
    strength[10] = 1
    found = np.asarray(inspect.overlay_image(image, strength)).astype(int)
    np.testing.assert_array_equal(found[10], np.broadcast_to([214, 0, 60], (30, 3)))
    np.testing.assert_allclose(found[:10], 0.6 * image[:10] + 102, atol=1)


def test_strips_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    strength, angle = maps()
    image = np.random.default_rng(0).integers(0, 255, (120, 160, 3), dtype=np.uint8)
    whole = [np.asarray(each) for each in (
        inspect.orientation_image(strength, angle), inspect.overlay_image(image, strength)
    )]  # fmt: skip
    monkeypatch.setattr("hnets.plot.edges_figure._STRIP", 1000)
    np.testing.assert_array_equal(inspect.orientation_image(strength, angle), whole[0])
    np.testing.assert_array_equal(inspect.overlay_image(image, strength), whole[1])


@pytest.mark.parametrize("size", [(400, 600), (300, 300), (600, 400), (100, 900)])
def test_no_text_of_the_figure_overlaps_another_or_leaves_the_sheet(size: tuple[int, int]) -> None:
    image = np.zeros((*size, 3), np.uint8)
    with inspect.style():
        figure = inspect.edges_figure(image, *maps(*size))
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
