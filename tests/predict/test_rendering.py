"""Colours of phases and orientations, and 8-bit images of edges."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hnets.predict import rendering

# Phases as colours ---------------------------------------------------------------------------


def lightness(rgb: np.ndarray) -> np.ndarray:
    """OKLab lightness of sRGB colours."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    cones = linear @ np.array(
        [
            [0.4122214708, 0.2119034982, 0.0883024619],
            [0.5363325363, 0.6806995451, 0.2817188376],
            [0.0514459929, 0.1073969566, 0.6299787005],
        ]
    )
    return np.cbrt(cones) @ np.array([0.2104542553, 0.7936177850, -0.0040720468])


def test_brightness_is_magnitude_and_nothing_else() -> None:
    phases = np.exp(1j * np.linspace(0, 2 * np.pi, 360))
    for size in (0.25, 0.5, 1.0):
        light = lightness(rendering.phase_colours(size * phases, ceiling=1))
        assert np.ptp(light) < 0.04, "one hue looks brighter than another"
    sizes = np.linspace(0, 1, 50)
    light = lightness(rendering.phase_colours(sizes * np.exp(2j), ceiling=1))
    assert (np.diff(light) > 0).all()


def test_colours_differ_between_phases() -> None:
    phases = np.exp(2j * np.pi * np.arange(12) / 12)
    colours = rendering.phase_colours(phases, ceiling=1)
    distance = np.linalg.norm(colours[:, None] - colours[None], axis=-1) + np.eye(12)
    assert distance.min() > 0.1


def test_zero_is_black_and_large_values_do_not_overflow() -> None:
    colours = rendering.phase_colours([0, 1e30, -1e-30], ceiling=1)
    assert colours.shape == (3, 3)
    assert (colours[0] == 0).all()
    assert ((colours >= 0) & (colours <= 1)).all()
    assert (rendering.phase_colours(np.zeros((4, 4))) == 0).all()
    assert rendering.phase_colours(np.zeros((0, 4))).shape == (0, 4, 3)


def test_wheel_has_its_phases_counter_clockwise_with_y_up() -> None:
    wheel = rendering.colour_wheel(64)
    assert (wheel[0, 0, 3], wheel[32, 32, 3]) == (0, 1)
    for row, column, direction in ((32, 60, 0), (3, 32, 90), (32, 3, 180), (60, 32, 270)):
        expected = rendering.phase_colours(0.9 * np.exp(1j * math.radians(direction)), ceiling=1)
        assert np.abs(wheel[row, column, :3] - expected).max() < 0.05, direction


# Edges as images ------------------------------------------------------------------------------


def maps(height: int = 120, width: int = 160) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    random = np.random.default_rng(0)
    strength = random.random((height, width)).astype(np.float32)
    return strength, (np.pi * random.random((height, width))).astype(np.float32)


def test_half_a_rotation_gives_the_same_colour_and_a_quarter_the_opposite_one() -> None:
    angles = np.linspace(0, np.pi, 50, endpoint=False)
    colours = rendering.orientation_colours(np.ones(50), angles)
    opposite = rendering.orientation_colours(np.ones(50), angles + np.pi)
    np.testing.assert_allclose(colours, opposite, atol=1e-6)
    across = rendering.orientation_colours(np.ones(50), angles + np.pi / 2)
    assert np.abs(colours - across).max(1).min() > 0.3


def test_the_wheel_has_at_each_direction_the_colour_of_lines_in_it() -> None:
    wheel = rendering.orientation_wheel(201)
    assert wheel[100, 100, :3].max() < 0.1
    for degrees in range(0, 360, 15):
        at = np.exp(1j * np.radians(degrees))
        row, column = round(100 - 95 * at.imag), round(100 + 95 * at.real)
        expected = rendering.orientation_colours(1.0, np.radians(degrees))
        np.testing.assert_allclose(wheel[row, column, :3], expected, atol=0.1)
        assert wheel[row, column, 3] == 1
    assert wheel[0, 0, 3] == 0


def test_a_map_in_eight_bits() -> None:
    strength = np.array([[0, 0.5, 1], [0.1, 0.2, 1.0]], np.float32)
    image = rendering.edges_image(strength)
    assert (image.mode, image.size) == ("L", (3, 2))
    np.testing.assert_array_equal(np.asarray(image), np.rint(255 * strength))


def test_orientations_have_a_legend_where_there_is_room() -> None:
    strength, angle = maps()
    pixels = np.asarray(rendering.orientation_image(strength, angle))
    plain = np.rint(255 * rendering.orientation_colours(strength, angle))
    assert pixels.shape == (120, 160, 3)
    np.testing.assert_array_equal(pixels[:60], plain[:60])
    size = 48
    legend = pixels[-size - size // 8 : -size // 8, -size - size // 8 : -size // 8]
    wheel = rendering.orientation_wheel(size)
    inside = wheel[..., 3] == 1
    np.testing.assert_allclose(legend[inside], 255 * wheel[..., :3][inside], atol=1)
    small = np.asarray(rendering.orientation_image(strength[:90], angle[:90]))
    np.testing.assert_array_equal(small, plain[:90])


def test_an_overlay_is_pale_but_for_the_edges() -> None:
    image = np.random.default_rng(0).integers(0, 255, (20, 30, 3), dtype=np.uint8)
    strength = np.zeros((20, 30), np.float32)
    strength[10] = 1
    pixels = np.asarray(rendering.overlay_image(image, strength)).astype(int)
    np.testing.assert_array_equal(pixels[10], np.broadcast_to([214, 0, 60], (30, 3)))
    np.testing.assert_allclose(pixels[:10], 0.6 * image[:10] + 102, atol=1)


def test_strips_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    strength, angle = maps()
    image = np.random.default_rng(0).integers(0, 255, (120, 160, 3), dtype=np.uint8)
    whole = [np.asarray(each) for each in (
        rendering.orientation_image(strength, angle), rendering.overlay_image(image, strength)
    )]  # fmt: skip
    monkeypatch.setattr("hnets.predict.rendering._STRIP", 1000)
    np.testing.assert_array_equal(rendering.orientation_image(strength, angle), whole[0])
    np.testing.assert_array_equal(rendering.overlay_image(image, strength), whole[1])
