"""Feature maps with arrows, and orientation maps with colours."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from commands import Command
from hnets import plot as inspect
from hnets.studies.report import draw_digit


def disc(size: int = 128) -> Image.Image:
    """Bright in the middle of dark: in every direction there is an edge."""
    at = np.arange(size) - (size - 1) / 2
    inside = np.clip(0.3 * size - np.hypot(at, at[:, None]), 0, 1)
    return Image.fromarray((40 + 180 * inside).astype(np.uint8)).convert("RGB")


# Feature maps --------------------------------------------------------------------------------


def test_turned_by_90_degrees_fields_turn_and_advance_by_their_order() -> None:
    half = np.asarray(disc(64)).copy()
    half[:, 32:] //= 2
    before = inspect.features(Image.fromarray(half), "hdsn", layer=4, most=32)
    after = inspect.features(Image.fromarray(np.rot90(half).copy()), "hdsn", layer=4, most=32)
    assert {field.order for field in before.fields} == {0, 1}
    turned = {(field.order, field.number): field.values for field in after.fields}
    for field in before.fields:
        expected = np.rot90(field.values) * np.exp(0.5j * math.pi * field.order)
        found = turned[field.order, field.number]
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max() + 1e-5)
    assert before.picture.shape == (64, 64, 3)


def test_any_layer_and_any_stream() -> None:
    for layer, width in ((1, 8), (3, 16), (6, 35)):
        for order in (0, 1):
            study = inspect.features(draw_digit(), layer=layer, order=order, most=64)
            assert {field.order for field in study.fields} == {order}
            assert len(study.fields) + study.empty == width
            energies = [field.energy for field in study.fields]
            assert energies == sorted(energies, reverse=True)
    assert len(inspect.features(draw_digit(), layer=6, most=6).fields) == 6


def test_arrows_are_the_phases() -> None:
    from matplotlib.quiver import Quiver

    z = np.full((6, 6), 1j, dtype=np.complex64)
    z[0, 0] = 0  # has no phase, and no arrow
    study = inspect.FeatureMaps("net", "layer 1", np.zeros((6, 6), np.float32),
                                (inspect.Field(1, 1, z),), 0, 0)  # fmt: skip
    arrows = [q for axes in study.figure().axes for q in axes.collections if isinstance(q, Quiver)]
    assert sum(quiver.N for quiver in arrows) == 35
    for quiver in arrows:
        np.testing.assert_allclose(quiver.U, 0, atol=1e-6)
        np.testing.assert_allclose(quiver.V, 1, atol=1e-6)


# Orientation maps ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flow() -> inspect.Flow:
    return inspect.flow(disc(), size=128)


def test_flow_points_from_dark_to_bright_in_all_directions(flow: inspect.Flow) -> None:
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


def test_flow_of_a_quarter_turn_is_exact() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    before = inspect.flow(Image.fromarray(picture))
    after = inspect.flow(Image.fromarray(np.rot90(picture).copy()))
    for one, other in zip(before.maps, after.maps, strict=True):
        expected = 1j * np.rot90(one.values)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(other.values, expected, atol=2e-3 * scale)


def test_flow_figure_has_the_picture_five_maps_and_the_wheel(flow: inspect.Flow) -> None:
    axes = flow.figure().axes
    assert [len(each.images) for each in axes] == [1] * 7
    assert [each.get_title() for each in axes][:2] == ["picture", "layer 2: 128×128 pixels"]


# Commands ------------------------------------------------------------------------------------


@pytest.fixture
def pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    disc().save("disc.png")
    draw_digit().save("three.png")
    Image.new("RGB", (40, 40)).save("blank.png")
    Path("broken.png").write_bytes(b"no picture")
    return tmp_path


def test_commands(hnets_command: Command, pictures: Path) -> None:
    assert hnets_command("inspect", "features", "three.png").code == 0
    done = hnets_command("inspect", "features", "disc.png", "--model", "hdsn", "--layer", "10",
                         "--stream", "1", "--most", "3", "--out", "deep.pdf")  # fmt: skip
    assert (done.code, done.out.strip()) == (0, "wrote deep.pdf"), done.err
    assert hnets_command("inspect", "flow", "disc.png").code == 0
    for name in ("features.png", "deep.pdf", "flow.png"):
        assert (pictures / name).stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("features", "Missing argument .*; see hnets inspect features --help"),
        ("features missing.png", "there is no file missing.png"),
        ("features broken.png", "is not an image that can be read"),
        ("features blank.png", "no digit is to be seen in blank.png"),
        ("features three.png --layer 8", "hnet_mnist has layers 1 to 7, got 8"),
        ("features three.png --layer 0", "expected a whole number from 1 to 999, got '0'"),
        ("features three.png --stream 2", r"\(0 and 1\), got 2"),
        ("features three.png --model z2cnn", "expected a network with harmonic convolutions"),
        (
            "features three.png --model nope",
            "no model is called 'nope'; .*package.module:attribute",
        ),
        ("features three.png --out a.jpg", "expected a file that ends in .png, .svg, .pdf"),
        ("flow missing.png", "there is no file missing.png"),
        ("flow three.png --model hnet_mnist", "expected a network of colour pictures such as hdsn"),
    ],
)
def test_bad_input(hnets_command: Command, pictures: Path, arguments: str, message: str) -> None:
    done = hnets_command("inspect", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert not list(pictures.glob("f*.png")), "a command that failed left a figure behind"
