"""Images of digits: located in any guise and rotated without blur."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from drawings import STROKES, drawn
from hnets.data.image_file import ImageError
from hnets.predict import as_digit, ink

BLANK = r"no digit is visible in {}: give an image of one digit, dark on light or light on dark"


def difference(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """The sum of differences, as a part of the ink."""
    return float(np.abs(a - b).sum() / b.sum())


@pytest.mark.parametrize("digit", STROKES)
def test_a_digit_is_centred_and_scaled_as_in_mnist(digit: str) -> None:
    seen = as_digit(drawn(digit))
    assert (seen.shape, seen.dtype) == ((28, 28), np.float32)
    assert seen.min() == 0
    assert 0.99 < seen.max() <= 1
    y, x = np.nonzero(seen > 0.5)
    angles = np.radians(np.arange(0, 180, 5))
    along = np.outer(np.cos(angles), x) + np.outer(np.sin(angles), y)
    assert np.ptp(along, axis=1).max() + 0.9 == pytest.approx(21.7, abs=1)
    for axis in (0, 1):
        assert (seen.sum(axis) * np.arange(28)).sum() / seen.sum() == pytest.approx(13.5, abs=0.1)
    assert seen[[0, 0, -1, -1], [0, -1, 0, -1]].max() == 0


@pytest.mark.parametrize(
    ("guise", "bound"),
    [
        ({"paper": 0.1, "ink": 0.9}, 0.02),
        ({"paper": 0.0, "ink": 1.0}, 0.02),
        ({"paper": 0.7, "ink": 0.6}, 0.05),
        ({"light": 0.6}, 0.05),
        ({"light": 0.6, "noise": 0.04}, 0.15),
        ({"light": 0.5, "paper": 0.25, "ink": 0.9}, 0.15),
        ({"noise": 0.1}, 0.2),
        ({"at": (0.3, 0.42)}, 0.1),
        ({"size": (2000, 1500), "height": 1000}, 0.1),
        ({"size": (2000, 1500), "height": 260, "at": (0.8, 0.2), "noise": 0.03}, 0.2),
        ({"size": (40, 30), "height": 26}, 0.2),
        ({"size": (60, 160), "height": 60}, 0.1),
        ({"size": (116, 148), "light": 0.3}, 0.15),  # touches the edge
    ],
    ids=str,
)
@pytest.mark.parametrize("digit", ["7", "5"])
def test_the_digit_is_the_same_in_any_guise(
    digit: str, guise: dict[str, float], bound: float
) -> None:
    assert difference(as_digit(drawn(digit, **guise)), as_digit(drawn(digit))) < bound


@pytest.mark.parametrize("digit", STROKES)
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_rotations_by_90_degrees_are_exact(digit: str, degrees: int) -> None:
    image = drawn(digit, size=(240, 240))
    expected = np.rot90(as_digit(image), degrees // 90)
    assert difference(as_digit(image, degrees), expected) < 1e-6
    assert difference(as_digit(image.rotate(degrees)), expected) < 0.02


@pytest.mark.parametrize("degrees", [17, 37, 45, 200])
def test_a_rotated_image_gives_the_rotated_digit(degrees: int) -> None:
    image = drawn(size=(300, 300))
    rotated = image.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=round(0.9 * 255))
    assert difference(as_digit(rotated), as_digit(image, degrees)) < 0.08


def test_rotation_does_not_blur() -> None:
    image = drawn("2")
    sharpness = [float((as_digit(image, a) ** 2).sum()) for a in range(0, 360, 15)]
    assert np.ptp(sharpness) / np.mean(sharpness) < 0.03


@pytest.mark.parametrize("width", [0.015, 0.03, 0.06, 0.3])
def test_strokes_of_any_width_are_brought_to_an_ordinary_one(width: float) -> None:
    pixels = [
        float(as_digit(drawn(width=w, size=(640, 480), height=320)).sum()) for w in (width, 0.11)
    ]
    assert 0.6 < pixels[0] / pixels[1] < 1.6


def test_specks_and_what_looks_in_at_the_edge_are_left_out() -> None:
    clean = drawn("5", noise=0.01)
    dirty = clean.copy()
    draw = ImageDraw.Draw(dirty)
    draw.rectangle((0, 0, 14, 240), fill=20)  # the table
    draw.ellipse((280, 200, 288, 208), fill=10)
    draw.line((40, 20, 60, 30), fill=30, width=2)
    assert difference(as_digit(dirty), as_digit(clean)) < 0.05


def test_both_parts_of_a_digit_are_kept() -> None:
    image = drawn("5")
    whole, lower = as_digit(image), image.copy()
    lower.paste(round(0.9 * 255), (0, 0, 320, 72))  # without its bar
    assert difference(as_digit(lower), whole) > 0.3


def test_parts_are_those_of_scipy() -> None:
    label = pytest.importorskip("scipy.ndimage").label
    random = np.random.default_rng(0)
    for share in (0.05, 0.3, 0.5, 0.6, 1.0):
        mask = random.random((40, 61)) < share
        expected, count = label(mask, np.ones((3, 3)))
        labels = ink._labels(mask)
        pairs = set(zip(expected.ravel().tolist(), labels.ravel().tolist(), strict=True))
        assert len(pairs) == len(set(expected.ravel())) == len(set(labels.ravel()))
        assert labels.max() == count


@pytest.mark.parametrize(
    "blank",
    [
        Image.new("L", (64, 48)),
        Image.new("RGB", (64, 48), "white"),
        Image.new("L", (900, 700), 128),
        drawn(width=0, height=0.01, light=0.7),
        drawn(width=0, height=0.01, noise=0.05, light=0.3),
        drawn(width=0, height=0.01, paper=0.1, noise=0.05),
        drawn(width=0.8, height=2),
        Image.new("RGBA", (64, 64), (0, 0, 0, 0)),
    ],
    ids=["black", "white", "grey", "light", "grain", "dark grain", "speck", "transparent"],
)
def test_a_blank_image_is_refused(blank: Image.Image) -> None:
    with pytest.raises(ImageError, match=BLANK.format(r"page\.png")):
        as_digit(blank, name="page.png")


def test_arrays_and_modes_are_read_alike() -> None:
    image = drawn()
    values = np.asarray(image)
    expected = as_digit(image)
    others: list[Image.Image | NDArray[np.generic]] = [
        values,
        values[:, :, None].repeat(3, 2),
        values.astype(np.float32) / 255,
        values.astype(np.float64) / 255,
        image.convert("RGB"),
        image.convert("P"),
        Image.fromarray(values.astype(np.uint16) * 200),
    ]
    for other in others:
        assert difference(as_digit(other), expected) < 0.02
    clear = Image.new("RGBA", image.size, (0, 0, 0, 0))
    clear.putalpha(image.point(lambda v: 255 if v < 128 else 0))
    assert difference(as_digit(clear), expected) < 0.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 32, 32), np.uint8), r"got \(3, 32, 32\); put the colours last"),
        (np.zeros(9, np.uint8), r"got \(9,\)"),
        (np.zeros((8, 32)), "is 32×8 pixels, and at least 16×16 are needed"),
        (np.zeros((0, 5), np.uint8), r"should have pixels, got an array of shape \(0, 5\)"),
        (np.full((32, 32), 255), "got int64 from 255 to 255; if white is 255"),
        (np.full((32, 32), 3.5), r"got float64 from 3\.5 to 3\.5"),
        (np.full((32, 32), math.nan), "got float64 from nan"),
    ],
)
def test_arrays_that_are_no_images_are_named(values: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ImageError, match=f"it .*{message}") as caught:
        as_digit(values, name="it")
    assert "\n" not in str(caught.value)
