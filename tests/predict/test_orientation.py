"""Orientations from phases: of edges in all directions, of all kinds, with any weights."""

import functools
import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import hnets
from hnets import models
from hnets.predict import EdgeDetector
from hnets.predict.orientation import OrientationReader
from networks import lively

SIDE = 33
DEGREES = np.arange(0, 360, 7.5)
"""Which way normals point."""
COLOURS = {
    "black and white": ((0, 0, 0), (1, 1, 1)),
    "greys": ((0.2, 0.2, 0.2), (0.8, 0.8, 0.8)),
    "faint": ((0.45, 0.45, 0.45), (0.55, 0.55, 0.55)),
    "red and green": ((0.8, 0.1, 0.1), (0.1, 0.7, 0.1)),
    "blue and yellow": ((0.1, 0.2, 0.8), (0.9, 0.8, 0.2)),
    "skin": ((0.9, 0.7, 0.6), (0.2, 0.15, 0.1)),
    "sky and grass": ((0.5, 0.7, 0.95), (0.2, 0.4, 0.1)),
    "orange and grey": ((0.9, 0.5, 0.1), (0.5, 0.5, 0.5)),
    "magenta and cyan": ((0.9, 0.1, 0.8), (0.1, 0.8, 0.9)),
}


def edge(
    degrees: float,
    colours: str = "greys",
    blur: float = 0.6,
    width: float = math.inf,
    side: int = SIDE,
) -> NDArray[np.float64]:
    """A straight edge through the middle whose normal points at an angle, or a bar."""
    away, erf = distance(degrees, side), np.vectorize(math.erf)
    if math.isfinite(width):
        away = width / 2 - np.abs(away)
    share = 0.5 + 0.5 * erf(away / (math.sqrt(2) * blur)) if blur else (away > 0).astype(float)
    one, other = (np.array(colour) for colour in COLOURS[colours])
    return one + (other - one) * share[..., None]


def distance(degrees: float, side: int = SIDE) -> NDArray[np.float64]:
    """How far pixels are from such an edge, to either side."""
    x, y = np.arange(side) - side // 2, side // 2 - np.arange(side)[:, None]
    return x * math.cos(math.radians(degrees)) + y * math.sin(math.radians(degrees))


def apart(angle: NDArray[np.floating], other: NDArray[np.floating]) -> NDArray[np.float64]:
    """How many degrees lie between two directions of lines, given in radians."""
    off = np.degrees(np.subtract(angle, other, dtype=np.float64))
    return np.abs(np.mod(off + 90, 180) - 90)


def errors(
    detector: EdgeDetector, degrees: float, side: int = SIDE, **options: float | str
) -> NDArray[np.float64]:
    """How many degrees the direction is off, at pixels along the edge or bar."""
    image = edge(degrees, side=side, **options)
    angles = detector.oriented(image).angle
    asked = (np.abs(distance(degrees, side)) <= 1) & (np.abs(distance(degrees + 90, side)) < 8)
    return apart(angles[asked], np.radians(degrees + 90))


@functools.cache
def trained() -> EdgeDetector:
    return EdgeDetector("hdsn")


@functools.cache
def random(seed: int) -> EdgeDetector:
    torch.manual_seed(seed)
    return EdgeDetector(lively(models.hdsn(), torch.rand(2, 3, 48, 48)))


# The meaning of the angle -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("normal", "angle"), [(90, 0), (270, 0), (0, 90), (180, 90), (135, 45), (-45, 45), (45, 135)]
)
def test_the_angle_is_that_of_the_line_with_y_up(normal: float, angle: float) -> None:
    angles = trained().oriented(edge(normal)).angle
    assert apart(angles[SIDE // 2, SIDE // 2], np.radians(angle)) < 2
    assert 0 <= angles.min() <= angles.max() < np.pi


@pytest.mark.parametrize("name", ["tiny", "small", "base"])
def test_fields_of_order_2_know_the_direction(name: str) -> None:
    """In larger images, since these networks see the border from further than the H-DSN."""
    detector = EdgeDetector(name)
    off = [errors(detector, degrees, side=97).mean() for degrees in (0, 30, 75, 135)]
    assert np.mean(off) < 4


# Accuracy -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("colours", COLOURS)
@pytest.mark.parametrize("blur", [0.5, 1, 2])
def test_edges_in_all_directions_are_off_by_less_than_5_degrees(colours: str, blur: float) -> None:
    off = [errors(trained(), a, colours=colours, blur=blur).mean() for a in DEGREES[::4]]
    assert max(off) < 5


@pytest.mark.parametrize("colours", COLOURS)
def test_staircases_are_off_by_less_than_7_degrees(colours: str) -> None:
    """An edge whose pixels are of the one or the other colour has corners all along."""
    off = [errors(trained(), a, colours=colours, blur=0).mean() for a in DEGREES[::4]]
    assert max(off) < 7
    assert np.mean(off) < 5


@pytest.mark.parametrize("degrees", DEGREES)
def test_a_sharp_edge_is_off_by_less_than_3_degrees_at_every_pixel(degrees: float) -> None:
    assert errors(trained(), degrees).max() < 3


@pytest.mark.parametrize("width", [2, 4])
@pytest.mark.parametrize("colours", ["black and white", "greys", "skin"])
def test_bars_in_all_directions_are_off_by_less_than_5_degrees(colours: str, width: float) -> None:
    off = [errors(trained(), a, colours=colours, width=width).mean() for a in DEGREES[::4]]
    assert max(off) < 5


@pytest.mark.parametrize("seed", range(3))
def test_random_weights_know_the_direction_too(seed: int) -> None:
    off = np.concatenate([errors(random(seed), a) for a in DEGREES[::3]])
    assert off.mean() < 5
    assert np.quantile(off, 0.9) < 8


def test_weights_matter_to_what_is_read() -> None:
    """A reader that was calibrated for other weights is wrong."""
    net, other = hnets.freeze(models.hdsn()), hnets.freeze(models.hdsn())
    assert isinstance(net, models.HDSN)
    assert isinstance(other, models.HDSN)
    x = torch.from_numpy(np.stack([edge(a) for a in DEGREES])).float().permute(0, 3, 1, 2)
    with torch.inference_mode():
        maps = net.stages[0]((x - net.mean) / net.std)
    middle = (slice(None), slice(None), SIDE // 2, SIDE // 2)
    off = []
    for reader in (OrientationReader(net), OrientationReader(other)):
        re, im = reader([maps], SIDE, SIDE)[middle].T.numpy()
        off.append(apart(np.arctan2(im, re) / 2, np.radians(DEGREES)).mean())
    assert off[0] < 5
    assert off[1] > 15


def test_directions_hold_up_to_the_border_of_a_image() -> None:
    for degrees in (0, 90):
        angles = trained().oriented(edge(degrees)).angle
        along = np.abs(distance(degrees)) <= 1
        assert apart(angles, np.radians(degrees + 90))[along].max() < 5


# Rotation -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["trained", "random"])
def test_rotation_by_90_degrees_adds_exactly_90_degrees(which: str) -> None:
    detector = trained() if which == "trained" else random(0)
    image = edge(20, "skin") * 0.5 + edge(75, "blue and yellow") * 0.5
    near = (np.abs(distance(20)) < 3) | (
        np.abs(distance(75)) < 3
    )  # elsewhere there is no direction
    before = detector.oriented(image)
    for quarters in (1, 2, 3):
        after = detector.oriented(np.rot90(image, quarters))
        np.testing.assert_allclose(after.strength, np.rot90(before.strength, quarters), atol=5e-5)
        off = apart(after.angle, np.rot90(before.angle, quarters) + quarters * np.pi / 2)
        assert off[np.rot90(near, quarters)].max() < 0.01


def test_light_and_dark_may_change_places() -> None:
    for degrees in (0, 33, 140):
        one, other = (trained().oriented(edge(degrees + half)).angle for half in (0, 180))
        near = np.abs(distance(degrees)) < 2
        assert np.quantile(apart(one, other)[near], 0.9) < 5
