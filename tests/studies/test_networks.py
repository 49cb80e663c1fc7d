"""Phases as colours, and figures."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from hnets import nn as hnn
from hnets import plot as inspect
from hnets.plot import style as figures

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
        light = lightness(inspect.phase_colours(size * phases, ceiling=1))
        assert np.ptp(light) < 0.04, "one hue looks brighter than another"
    sizes = np.linspace(0, 1, 50)
    light = lightness(inspect.phase_colours(sizes * np.exp(2j), ceiling=1))
    assert (np.diff(light) > 0).all()


def test_colours_differ_between_phases() -> None:
    phases = np.exp(2j * np.pi * np.arange(12) / 12)
    colours = inspect.phase_colours(phases, ceiling=1)
    distance = np.linalg.norm(colours[:, None] - colours[None], axis=-1) + np.eye(12)
    assert distance.min() > 0.1


def test_zero_is_black_and_large_values_do_not_overflow() -> None:
    colours = inspect.phase_colours([0, 1e30, -1e-30], ceiling=1)
    assert colours.shape == (3, 3)
    assert (colours[0] == 0).all()
    assert ((colours >= 0) & (colours <= 1)).all()
    assert (inspect.phase_colours(np.zeros((4, 4))) == 0).all()
    assert inspect.phase_colours(np.zeros((0, 4))).shape == (0, 4, 3)


def test_wheel_has_its_phases_counter_clockwise_with_y_up() -> None:
    wheel = inspect.colour_wheel(64)
    assert (wheel[0, 0, 3], wheel[32, 32, 3]) == (0, 1)
    for row, column, direction in ((32, 60, 0), (3, 32, 90), (32, 3, 180), (60, 32, 270)):
        expected = inspect.phase_colours(0.9 * np.exp(1j * math.radians(direction)), ceiling=1)
        assert np.abs(wheel[row, column, :3] - expected).max() < 0.05, direction


# The harmonics -------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [-2, -1, 0, 1, 2, 3])
def test_harmonic_turned_by_90_degrees_is_multiplied_by_its_phase(order: int) -> None:
    w = inspect.circular_harmonic(order, size=32)
    np.testing.assert_allclose(np.rot90(w), w * np.exp(-0.5j * np.pi * order), atol=1e-12)
    np.testing.assert_allclose(inspect.circular_harmonic(-order, size=32), w.conj(), atol=1e-12)


def test_harmonics_figure_shows_three_rows_for_every_order(tmp_path: Path) -> None:
    figure = inspect.harmonics_figure(orders=(-1, 0, 1), size=64)
    assert sum(len(axes.images) for axes in figure.axes) == 3 * 3 + 1
    path = inspect.save(figure, tmp_path / "new" / "harmonics.png")
    with Image.open(path) as image:
        image.load()
        assert image.size[0] > image.size[1] > 300


def test_figures_leave_the_settings_of_matplotlib_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    inspect.harmonics_figure(orders=(1,), size=16)
    assert dict(matplotlib.rcParams) == before


# Writing figures -----------------------------------------------------------------------------


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    path.write_text("old")
    figure = figures.new_figure(1, 1)

    def broken(target: Path, **_: object) -> None:
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    figure.savefig = broken  # type: ignore[method-assign, assignment]
    with pytest.raises(OSError, match="No space left"):
        inspect.save(figure, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_compact_png_keeps_white_and_black_and_is_smaller(tmp_path: Path) -> None:
    with inspect.style():
        figure = figures.new_figure(3, 3)
        axes = figure.add_axes((0.1, 0.1, 0.8, 0.8))
        axes.imshow(inspect.colour_wheel(300))
        figures.bare(axes)
    full = inspect.save(figure, tmp_path / "full.png")
    small = inspect.save(figure, tmp_path / "small.png", compact=True)
    assert small.stat().st_size < full.stat().st_size
    with Image.open(small) as image:
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        middle = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
        assert max(middle) < 20


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_figure_gives_the_same_file(tmp_path: Path, kind: str) -> None:
    first, second = (
        inspect.save(inspect.harmonics_figure((1,), 16), tmp_path / f"{name}.{kind}")
        for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()


def test_other_formats_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf, got .*figure\.jpg"):
        inspect.save(figures.new_figure(1, 1), tmp_path / "figure.jpg")


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "hnets\[plot\]"'):
        inspect.harmonics_figure()


# A turned feature map ------------------------------------------------------------------------


def turned_map(order: int, degrees: float, claimed: int | None = None) -> inspect.TurnedMap:
    from hnets.testing import band_limited

    torch.manual_seed(0)
    conv = hnn.HConv2d("1x0r", f"1x{order}", kernel_size=5, padding="same", dtype=torch.float64)
    maps = []
    for theta in (0.0, math.radians(degrees)):
        with torch.no_grad():
            re, im = conv(band_limited(conv.in_streams, 64, theta))[0].numpy()
        maps.append(re + 1j * im)
    return inspect.TurnedMap("", "", *maps, order if claimed is None else claimed, degrees)


@pytest.mark.parametrize("order", [-1, 0, 1, 2])
def test_nothing_is_left_of_an_equivariant_map(order: int) -> None:
    assert turned_map(order, 90).error < 1e-12
    assert turned_map(order, 30).error < 0.1  # the bound of 5×5 pixels and bicubic interpolation


def test_a_wrong_order_leaves_much() -> None:
    assert turned_map(1, 90, claimed=0).error > 1
    assert turned_map(1, 30, claimed=-1).error > 0.9


def test_turning_figure_has_a_column_for_every_map() -> None:
    picture = np.zeros((64, 64, 3))
    real = inspect.TurnedMap("plain", "", np.ones((8, 8)), np.ones((8, 8)), 0, 30.0)
    figure = inspect.turning_figure(picture, picture, [turned_map(1, 30), real], 30.0)
    assert sum(len(axes.images) for axes in figure.axes) == 2 + 1 + 4 * 2
    assert "plain" in {text.get_text() for text in figure.texts}
