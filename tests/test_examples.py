"""The examples run as they say: as scripts, in this process, which has imported torch already."""

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

EXAMPLES = Path(__file__).parents[1] / "examples"


Run = Callable[..., str]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs an example with arguments, and returns what it prints."""
    monkeypatch.setenv("MPLBACKEND", "Agg")

    def script(name: str, *arguments: object) -> str:
        path = str(EXAMPLES / name)
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out

    return script


def test_a_folder_is_classified_alike_at_every_angle(run: Run) -> None:
    printed = run("classify_folder.py", "--epochs", 6)
    right = [float(share) for share in re.findall(r"degrees: +([\d.]+) %", printed)]
    assert len(right) == 8
    assert min(right) > 60
    assert max(right[::2]) - min(right[::2]) == 0  # quarter turns


def test_a_segmentation_rotates_with_the_image(run: Run, tmp_path: Path) -> None:
    printed = run("segment.py", "--steps", 30, "--out", tmp_path / "drawn.png")
    overlaps = [float(value) for value in re.findall(r"overlap ([\d.]+)", printed)]
    assert len(overlaps) == 4
    assert min(overlaps) > 0.6
    assert abs(overlaps[0] - overlaps[3]) < 0.002  # a quarter turn
    assert (tmp_path / "drawn.png").stat().st_size > 10_000


def test_vessels_are_alike_in_rotated_images(run: Run, data_folder: Path, tmp_path: Path) -> None:
    if not (data_folder / "retina/DRIVE").is_dir():
        pytest.skip("needs retina/DRIVE in HNETS_DATA")
    out = tmp_path / "vessels.png"
    printed = run("segment_vessels.py", "--steps", 30, "--images", 1, "--out", out)
    upright, rotated = (float(value) for value in re.findall(r"AUC ([\d.]+)", printed))
    assert upright > 0.75
    assert abs(upright - rotated) < 2e-4  # of rounding
    with Image.open(out) as drawn:
        assert drawn.size == (565, 584)


def test_shapes_are_detected_at_every_angle(run: Run, tmp_path: Path) -> None:
    out = tmp_path / "found.png"
    printed = run("detector_features.py", "--steps", 8, "--images", 2, "--out", out)
    found = [float(share) for share in re.findall(r"degrees: +([\d.]+) %", printed)]
    assert len(found) == 6
    assert sum(found) / len(found) > 75
    with Image.open(out) as drawn:
        assert drawn.size == (384, 384)


def test_edges_become_lines(run: Run, tmp_path: Path) -> None:
    image = np.full((120, 160), 60, np.uint8)
    image[30:90, 40:120] = 200
    Image.fromarray(image).save(tmp_path / "square.png")
    printed = run("edges_to_svg.py", tmp_path / "square.png", tmp_path / "square.svg")
    assert "wrote" in printed
    drawn = ElementTree.parse(tmp_path / "square.svg").getroot()
    assert drawn.get("viewBox") == "0 0 160 120"
    lines = [line.get("points") for line in drawn]
    points = [tuple(map(float, pair.split(","))) for line in lines if line for pair in line.split()]
    near = [min(abs(x - 40), abs(x - 120), abs(y - 30), abs(y - 90)) for x, y in points]
    assert sum(distance < 3 for distance in near) > 0.6 * len(near) > 2
