"""Tiles: the output of the whole image, in bounded memory, at every scale."""

import functools
import math

import numpy as np
import pytest
import torch
from torch import Tensor

from drawings import apart, blobs
from hnets import models
from hnets.functional import trim
from hnets.predict import EdgeDetector, tiles
from hnets.predict.tiles import Cut, View, predict_tiled
from networks import edge_network, lively


@functools.cache
def detector() -> EdgeDetector:
    return EdgeDetector(edge_network())


def test_the_network_looks_as_far_as_is_said() -> None:
    assert detector().model.receptive_radius() == 93
    assert EdgeDetector(models.hed_low()).model.receptive_radius() == 93


@pytest.mark.parametrize("size", [321, 320])
def test_nothing_beyond_its_radius_changes_the_output(size: int) -> None:
    net = detector().model
    x = torch.rand(1, 3, 16 + size % 2, size, requires_grad=True)
    middle = size // 2
    net(x)[0, 0, 8, middle].backward()
    assert x.grad is not None
    seen = x.grad.abs().sum((0, 1, 2)).nonzero()[:, 0]
    assert 60 < middle - int(seen.min()) <= 93
    assert 60 < int(seen.max()) - middle <= 93


def cut(height: int, width: int, *_: float) -> list[tuple[range, range]]:
    """A long image in three tiles."""
    long = max(height, width)
    parts = [range(0, 140), range(140, 277), range(277, long)]
    if height < width:
        return [(range(height), part) for part in parts]
    return [(part, range(width)) for part in parts]


@pytest.mark.parametrize("size", [(20, 420), (21, 421), (20, 421), (420, 21), (433, 20)])
@pytest.mark.parametrize("scales", [(1.0,), (0.7, 1.3)])
def test_tiles_give_the_output_of_the_whole(
    size: tuple[int, int], scales: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = blobs(*size)
    strength, angle = detector().oriented(pixels, scales)
    monkeypatch.setattr(tiles, "split", cut)
    tiled = detector().oriented(pixels, scales)
    np.testing.assert_allclose(tiled.strength, strength, atol=1e-6)
    assert np.quantile(apart(tiled.angle, angle), 0.99) < 1e-4
    np.testing.assert_allclose(detector()(pixels, scales), strength, atol=1e-6)


def test_a_decoder_of_less_than_a_window_gives_the_output_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(0)
    net = EdgeDetector(lively(models.hedge_tiny(), torch.rand(2, 3, 48, 48)))
    pixels = blobs(21, 701)
    strength, angle = net.oriented(pixels)
    monkeypatch.setattr(tiles, "split", lambda *_: [(range(21), part) for part in thirds])
    thirds = [range(0, 240), range(240, 461), range(461, 701)]
    tiled = net.oriented(pixels)
    np.testing.assert_allclose(tiled.strength, strength, atol=1e-6)
    assert np.quantile(apart(tiled.angle, angle), 0.99) < 1e-4
    assert net._view.inner < net._view.margin - 2 * net._view.step


def test_tiles_share_little() -> None:
    """A margin only where there is a neighbour, and as few neighbours as can be."""
    assert len(list(tiles.split(1400, 2000, margin=200))) == 2
    assert len(list(tiles.split(700, 5000, margin=200))) == 2


def test_tiles_without_margins_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = blobs(20, 420)
    whole = detector()(pixels)
    monkeypatch.setattr(tiles, "split", cut)
    blind = EdgeDetector(edge_network())
    blind._view = View(margin=48, inner=24, halvings=4, device=torch.device("cpu"))
    assert np.abs(blind(pixels) - whole).max() > 1e-5


@pytest.mark.parametrize("size", [(1, 5000), (3000, 2), (1500, 1400), (1449, 1449)])
def test_tiles_cover_every_pixel_once_and_are_small(size: tuple[int, int]) -> None:
    for margin, scale in ((0, 1.0), (111, 1.0), (111, 4.0)):
        times = np.zeros(size, int)
        for rows, columns in tiles.split(*size, margin, scale):
            times[rows.start : rows.stop, columns.start : columns.stop] += 1
            sides = [
                len(part) * scale + margin * ((part.start > 0) + (part.stop < length))
                for part, length in zip((rows, columns), size, strict=True)
            ]
            assert len(rows) * len(columns) == times.size or math.prod(sides) <= tiles.AT_ONCE
        assert (times == 1).all()


def test_what_is_shown_is_never_more_than_fits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "AT_ONCE", 300**2)
    shown = []

    def watch(x: Tensor, cut: Cut) -> Tensor:
        shown.append(x.shape[2] * x.shape[3])
        return trim(x[:, :1], cut, 0)

    image = np.zeros((310, 400), np.uint8)[..., None].repeat(3, 2)
    for scales in ([0.1], [1.0], [0.5, 1.0, 1.5]):
        predict_tiled(watch, lambda maps: maps, image[None], scales, detector()._view)
    assert max(shown) <= 300**2
    assert len(shown) > 20


# Scales -------------------------------------------------------------------------------------------


def test_scales_are_averaged() -> None:
    each = [detector()(blobs(), [scale]) for scale in (0.5, 1, 1.5)]
    np.testing.assert_allclose(detector()(blobs(), (0.5, 1, 1.5)), np.mean(each, axis=0), atol=1e-6)
    assert np.abs(each[0] - each[1]).max() > 0.01


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 1.5, 3.7])
def test_a_smooth_image_survives_the_way_there_and_back(scale: float) -> None:
    y, x = np.mgrid[:90, :121] / 40
    wave = (0.5 + 0.5 * np.sin(x + y)).astype(np.float32)
    image = np.stack([wave, 1 - wave, 0.3 + 0 * wave], 2)
    view = detector()._view
    back = predict_tiled(
        lambda x, cut: trim(x, cut, 0), lambda maps: maps, image[None], [scale], view
    )[:, 0]
    np.testing.assert_allclose(back[2], 0.3, atol=1e-6)
    inside = np.s_[:, 8:-8, 8:-8]  # at the border there is less to interpolate between
    np.testing.assert_allclose(back[inside], image.transpose(2, 0, 1)[inside], atol=0.01)
