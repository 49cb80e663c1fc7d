"""How figures are saved, and what stays as it was."""

import sys
from pathlib import Path

import pytest
from PIL import Image

from hnets import plot
from hnets.plot.style import Sheet
from hnets.predict.rendering import colour_wheel


def test_figures_leave_the_settings_of_matplotlib_alone() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    plot.harmonics_figure(orders=(1,), size=16)
    assert dict(matplotlib.rcParams) == before


def test_a_sheet_has_places_in_inches_from_the_upper_left_corner() -> None:
    sheet = Sheet(4, 2)
    box = sheet.panel(1, 0.5, 2, 1).get_position()
    assert (box.x0, box.y0, box.width, box.height) == (0.25, 0.25, 0.5, 0.5)
    sheet.heading(1, 0.5, "title with $", "note")
    assert [text.get_position() for text in sheet.figure.texts] == [(0.25, 0.75), (0.25, 0.64)]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "figure.png"
    path.write_text("old")
    figure = Sheet(1, 1).figure

    def broken(target: Path, **_: object) -> None:
        Path(target).write_text("half")
        raise OSError(28, "No space left on device")

    figure.savefig = broken
    with pytest.raises(OSError, match="No space left"):
        plot.save(figure, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_compact_png_keeps_white_and_black_and_is_smaller(tmp_path: Path) -> None:
    sheet = Sheet(3, 3)
    sheet.image(0.3, 0.3, 2.4, 2.4, colour_wheel(300))
    full = plot.save(sheet.figure, tmp_path / "full.png")
    small = plot.save(sheet.figure, tmp_path / "small.png", compact=True)
    assert small.stat().st_size < full.stat().st_size
    with Image.open(small) as image:
        assert image.convert("RGB").getpixel((0, 0)) == (255, 255, 255)
        middle = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
        assert max(middle) < 20


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_figure_gives_the_same_file(tmp_path: Path, kind: str) -> None:
    first, second = (
        plot.save(plot.harmonics_figure((1,), 16), tmp_path / f"{name}.{kind}") for name in "ab"
    )
    assert first.read_bytes() == second.read_bytes()


def test_other_formats_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.png, \.svg, \.pdf, got .*figure\.jpg"):
        plot.save(Sheet(1, 1).figure, tmp_path / "figure.jpg")


def test_without_matplotlib_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "hnets\[plot\]"'):
        plot.harmonics_figure()
