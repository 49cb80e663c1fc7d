"""Feature maps with arrows, and orientation maps with colours."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import Command
from hnets.plot.figures_page import draw_digit
from hnets.studies import Flow, measure_features, measure_flow


def disc(size: int = 128) -> Image.Image:
    """Bright in the middle of dark: in every direction there is an edge."""
    at = np.arange(size) - (size - 1) / 2
    inside = np.clip(0.3 * size - np.hypot(at, at[:, None]), 0, 1)
    return Image.fromarray((40 + 180 * inside).astype(np.uint8)).convert("RGB")


# Feature maps --------------------------------------------------------------------------------


def test_rotated_by_90_degrees_fields_rotate_and_advance_by_their_order() -> None:
    half = np.asarray(disc(64)).copy()
    half[:, 32:] //= 2
    before = measure_features(Image.fromarray(half), "hdsn", layer=4, most=32)
    after = measure_features(Image.fromarray(np.rot90(half).copy()), "hdsn", layer=4, most=32)
    assert {field.order for field in before.fields} == {0, 1}
    rotated = {(field.order, field.number): field.values for field in after.fields}
    for field in before.fields:
        expected = np.rot90(field.values) * np.exp(0.5j * math.pi * field.order)
        values = rotated[field.order, field.number]
        np.testing.assert_allclose(values, expected, atol=1e-3 * np.abs(expected).max() + 1e-5)
    assert before.image.shape == (64, 64, 3)


def test_any_layer_and_any_stream() -> None:
    for layer, width in ((1, 8), (3, 16), (6, 35)):
        for order in (0, 1):
            study = measure_features(draw_digit(), layer=layer, order=order, most=64)
            assert {field.order for field in study.fields} == {order}
            assert len(study.fields) + study.empty == width
            energies = [field.energy for field in study.fields]
            assert energies == sorted(energies, reverse=True)
    assert len(measure_features(draw_digit(), layer=6, most=6).fields) == 6


@pytest.mark.parametrize("name", ["hedge_tiny", "hunet"])
def test_networks_whose_first_part_is_not_their_first_layer(name: str) -> None:
    assert measure_features(disc(32), name, layer=1, size=32).image.shape == (32, 32, 3)


# Orientation maps ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flow() -> Flow:
    return measure_flow(disc(), size=128)


def test_flow_points_from_dark_to_bright_in_all_directions(flow: Flow) -> None:
    assert [each.layer for each in flow.maps] == [2, 4, 6, 8, 10]
    for each in flow.maps[:3]:  # deeper ones have too few pixels for such a disc
        size = len(each.values)
        at = np.arange(size) - (size - 1) / 2
        x, y = np.meshgrid(at, -at)
        rim = np.abs(np.hypot(x, y) - 0.3 * size) < 0.05 * size
        inwards = -(x + 1j * y)[rim]
        off = np.angle(each.values[rim] / inwards)
        weight = np.abs(each.values[rim])
        mean = np.degrees(np.sqrt((weight * off**2).sum() / weight.sum()))
        assert mean < 40, f"layer {each.layer} is off by {mean:.0f} degrees"


def test_flow_of_a_rotation_by_90_degrees_is_exact() -> None:
    image = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    before = measure_flow(Image.fromarray(image))
    after = measure_flow(Image.fromarray(np.rot90(image).copy()))
    for one, other in zip(before.maps, after.maps, strict=True):
        expected = 1j * np.rot90(one.values)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(other.values, expected, atol=2e-3 * scale)


# Commands ------------------------------------------------------------------------------------


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    disc().save("disc.png")
    draw_digit().save("three.png")
    Image.new("RGB", (40, 40)).save("blank.png")
    Path("broken.png").write_bytes(b"no image")
    return tmp_path


def test_commands(hnets_command: Command, images: Path) -> None:
    assert hnets_command("inspect", "features", "three.png").code == 0
    done = hnets_command("inspect", "features", "disc.png", "--model", "hdsn", "--layer", "10",
                         "--stream", "1", "--most", "3", "--out", "deep.pdf")  # fmt: skip
    assert (done.code, done.out.strip()) == (0, "wrote deep.pdf"), done.err
    assert hnets_command("inspect", "flow", "disc.png").code == 0
    for name in ("features.png", "deep.pdf", "flow.png"):
        assert (images / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("features", "Missing argument .*; see hnets inspect features --help"),
        ("features missing.png", "there is no file missing.png"),
        ("features broken.png", "is not an image that can be read"),
        ("features blank.png", "no digit is visible in blank.png"),
        ("features three.png --layer 8", "hnet_mnist has layers 1 to 7, got 8"),
        ("features three.png --layer 0", "expected a whole number from 1 to 999, got '0'"),
        ("features three.png --stream 2", r"\(0 and 1\), got 2"),
        ("features three.png --model z2cnn", "expected a network with harmonic convolutions"),
        (
            "features three.png --model nope",
            "no model is called 'nope', nor is there such a file; .* hdsn",
        ),
        ("features three.png --out a.jpg", "expected a file that ends in .png, .svg, .pdf"),
        ("flow missing.png", "there is no file missing.png"),
        ("flow three.png --model hnet_mnist", "expected a network of colour images such as hdsn"),
    ],
)
def test_bad_input(hnets_command: Command, images: Path, arguments: str, message: str) -> None:
    done = hnets_command("inspect", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert not list(images.glob("f*.png")), "a command that failed left a figure behind"
