"""The boundary detector: any picture in, and one answer, in tiles or at once."""

import functools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

import hnets
from hnets import models
from hnets.data.image_file import ImageError
from hnets.errors import InputError
from hnets.metrics import suppression
from hnets.models import _weights as store
from hnets.predict import EdgeDetector, OrientedEdges, suppress_edges
from hnets.predict import tiles as windows
from hnets.predict.tiles import View, predict_tiled, receptive_radius
from networks import lively


@functools.cache
def network() -> models.HDSN:
    torch.manual_seed(0)
    net = lively(models.hdsn(), torch.rand(2, 3, 48, 48))
    assert isinstance(net, models.HDSN)
    return net


@functools.cache
def detector() -> EdgeDetector:
    return EdgeDetector(network())


def picture(height: int = 40, width: int = 52) -> NDArray[np.uint8]:
    """Coloured blobs of all sizes."""
    random = np.random.default_rng(height * width)
    coarse = random.integers(0, 255, (height // 6 + 2, width // 6 + 2, 3), dtype=np.uint8)
    return np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def turns(angle: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """How far two directions of lines are apart, in radians."""
    return np.abs(np.mod(angle.astype(np.float64) - other + np.pi / 2, np.pi) - np.pi / 2)


# What goes in and comes out -----------------------------------------------------------------------


def test_the_answer_is_that_of_the_network() -> None:
    x = torch.from_numpy(picture()).permute(2, 0, 1)[None] / 255
    with torch.no_grad():
        expected = network().eval()(x)[0, 0].numpy()
    found = detector()(picture())
    assert (found.shape, found.dtype) == ((40, 52), np.float32)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert 0 <= found.min() < found.max() <= 1


def test_pictures_of_every_kind_are_read_alike() -> None:
    pixels = picture()
    expected = detector()(pixels)
    alpha = np.full((40, 52, 1), 255, np.uint8)
    kinds: dict[str, Image.Image | NDArray[np.generic]] = {
        "float32": pixels.astype(np.float32) / 255,
        "float64": pixels / 255,
        "uint16": pixels.astype(np.uint16) * 257,
        "alpha": np.concatenate([pixels, alpha], 2),
        "Pillow": Image.fromarray(pixels),
        "backwards": pixels[::-1, ::-1][::-1, ::-1],
    }
    for kind, given in kinds.items():
        np.testing.assert_allclose(detector()(given), expected, atol=1e-5, err_msg=kind)
    grey = np.asarray(Image.fromarray(pixels).convert("L"))
    as_grey = [grey, grey[..., None], grey[..., None].repeat(3, 2), Image.fromarray(grey)]
    for given in as_grey[1:]:
        np.testing.assert_array_equal(detector()(given), detector()(grey))


def test_what_is_transparent_is_laid_on_white() -> None:
    pixels = picture()
    clear = np.concatenate([pixels, np.zeros((40, 52, 1), np.uint8)], 2)
    np.testing.assert_allclose(detector()(clear), detector()(np.ones((40, 52))), atol=1e-6)
    np.testing.assert_allclose(detector()(clear / 255), detector()(np.ones((40, 52))), atol=1e-6)
    half = np.concatenate([pixels / 255, np.full((40, 52, 1), 0.5)], 2)
    np.testing.assert_allclose(detector()(half), detector()(0.5 + pixels / 510), atol=1e-5)


def test_a_batch_gives_a_batch_and_a_list_gives_a_list() -> None:
    one, other = picture(), picture()[::-1]
    batch = np.stack([one, other])
    expected = [detector()(one), detector()(other)]
    np.testing.assert_array_equal(detector()(batch), np.stack(expected))
    np.testing.assert_array_equal(detector()([one, other]), expected)
    np.testing.assert_array_equal(detector().suppressed(batch)[1], detector().suppressed(other))
    oriented = detector().oriented(batch)
    assert oriented.strength.shape == oriented.angle.shape == (2, 40, 52)
    listed = detector().oriented([one, Image.fromarray(picture(20, 30))])
    assert [each.angle.shape for each in listed] == [(40, 52), (20, 30)]
    assert detector()([]) == []


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 3), (17, 1), (16, 16), (15, 33)])
def test_pictures_may_be_small(size: tuple[int, int]) -> None:
    pixels = np.full((*size, 3), 77, np.uint8)
    strength, angle = detector().oriented(pixels, scales=(0.5, 1, 2))
    assert strength.shape == angle.shape == size
    assert np.isfinite(strength).all()
    assert np.isfinite(angle).all()
    assert detector().suppressed(pixels).shape == size


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros(9, np.uint8), r"array of shape \(height, width\), .*, got \(9,\)"),
        (np.zeros((3, 40, 52), np.uint8), r"got \(3, 40, 52\); put the colours last with numpy"),
        (np.zeros((40, 52, 2), np.uint8), r"got \(40, 52, 2\)$"),
        (np.zeros((1, 2, 3, 4, 3), np.uint8), r"got \(1, 2, 3, 4, 3\)$"),
        (np.zeros((0, 5), np.uint8), r"should have pixels, got an array of shape \(0, 5\)"),
        (np.zeros((0, 4, 5, 3)), r"got \(0, 4, 5, 3\)"),
        (np.full((4, 4), 200), r"got int64 from 200 to 200; if white is 255, use image\.astype"),
        (np.full((4, 4), 200.0), r"got float64 from 200\.0 to 200\.0; if white is 255"),
        (np.full((4, 4), -0.5), r"from 0 to 1, got float64 from -0\.5 to -0\.5; scale it first"),
        (np.full((4, 4), math.nan), "from nan to nan; replace the NaN in it"),
        (np.array([[0.5, math.inf]]), "from 0.5 to inf; scale it first"),
        (np.full((4, 4), 1j), "got complex128; convert it first"),
        (np.full((4, 4), "a"), "got str32; convert it first"),
    ],
)
def test_arrays_that_are_no_pictures_are_named(given: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ImageError, match=f"^the image .*{message}") as caught:
        detector()(given)
    assert "\n" not in str(caught.value)
    with pytest.raises(ImageError, match=r"^image 1 "):
        detector()([picture(), given])


def test_values_may_be_off_by_rounding() -> None:
    almost = np.clip(picture() / 255, 0.1, 0.9)
    almost[0, 0], almost[1, 1] = 1 + 1e-8, -1e-8
    assert np.isfinite(detector()(almost)).all()


@pytest.mark.parametrize("scales", [(), (0,), (1, -1), (100,), (math.nan,)])
def test_scales_that_make_no_sense_are_named(scales: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match=r"scales are numbers from 0\.1 to 4, at least one, got"):
        detector()(picture(), scales)


# The network --------------------------------------------------------------------------------------


def test_the_default_is_the_pretrained_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = {"recipe": {}, "data": {}, "metrics": {}, "commit": ""}
    models.save(network(), tmp_path / "hdsn.safetensors", card=card)
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    np.testing.assert_array_equal(hnets.EdgeDetector()(picture()), detector()(picture()))


def test_the_model_given_is_left_as_it_is() -> None:
    net = models.hdsn().train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    EdgeDetector(net).oriented(picture())
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_an_hed_finds_boundaries_but_not_their_orientation() -> None:
    hed = EdgeDetector(models.hed_low())
    assert hed(picture()).shape == (40, 52)
    with pytest.raises(InputError, match="fields of order 1, and HED has none; use an H-DSN"):
        hed.oriented(picture())


def test_other_networks_and_devices_are_refused() -> None:
    with pytest.raises(InputError, match=r"expects an H-DSN or an HED of .*, got a Linear"):
        EdgeDetector(nn.Linear(3, 4))
    with pytest.raises(InputError, match="such as cpu or cuda, got 'nowhere'"):
        EdgeDetector(network(), device="nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match=r"cannot compute on 'cuda' \(.*\); use cpu"):
            EdgeDetector(network(), device="cuda")


# A quarter turn -----------------------------------------------------------------------------------


@pytest.mark.parametrize("quarters", [1, 2, 3])
@pytest.mark.parametrize("size", [(40, 52), (41, 52), (40, 51), (33, 47)])
@pytest.mark.parametrize("scales", [(1.0,), (0.5, 1.5)])
def test_a_quarter_turn_turns_the_boundaries_exactly(
    quarters: int, size: tuple[int, int], scales: tuple[float, ...]
) -> None:
    pixels = picture(*size)
    strength, angle = detector().oriented(pixels, scales)
    turned = detector().oriented(np.rot90(pixels, quarters), scales)
    np.testing.assert_allclose(turned.strength, np.rot90(strength, quarters), atol=2e-6)
    off = turns(turned.angle, np.rot90(angle, quarters) + quarters * np.pi / 2)
    assert np.quantile(off, 0.99) < 1e-4  # where there is no direction at all, rounding decides
    assert 0 <= turned.angle.min() <= turned.angle.max() < np.pi


# Tiles --------------------------------------------------------------------------------------------


def test_the_network_looks_as_far_as_is_said() -> None:
    assert receptive_radius(detector().model) == 93
    assert receptive_radius(EdgeDetector(models.hed_low()).model) == 93


@pytest.mark.parametrize("size", [321, 320])
def test_nothing_beyond_its_reach_changes_the_answer(size: int) -> None:
    net = detector().model
    x = torch.rand(1, 3, 16 + size % 2, size, requires_grad=True)
    middle = size // 2
    net(x)[0, 0, 8, middle].backward()
    assert x.grad is not None
    seen = x.grad.abs().sum((0, 1, 2)).nonzero()[:, 0]
    assert 60 < middle - int(seen.min()) <= 93
    assert 60 < int(seen.max()) - middle <= 93


def cut(height: int, width: int, *_: float) -> list[tuple[range, range]]:
    """A long picture in three tiles."""
    long = max(height, width)
    parts = [range(0, 140), range(140, 277), range(277, long)]
    if height < width:
        return [(range(height), part) for part in parts]
    return [(part, range(width)) for part in parts]


@pytest.mark.parametrize("size", [(20, 420), (21, 421), (20, 421), (420, 21), (433, 20)])
@pytest.mark.parametrize("scales", [(1.0,), (0.7, 1.3)])
def test_tiles_give_the_answer_of_the_whole(
    size: tuple[int, int], scales: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = picture(*size)
    strength, angle = detector().oriented(pixels, scales)
    monkeypatch.setattr(windows, "split", cut)
    tiled = detector().oriented(pixels, scales)
    np.testing.assert_allclose(tiled.strength, strength, atol=1e-6)
    assert np.quantile(turns(tiled.angle, angle), 0.99) < 1e-4
    np.testing.assert_allclose(detector()(pixels, scales), strength, atol=1e-6)


def test_tiles_without_margins_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = picture(20, 420)
    whole = detector()(pixels)
    monkeypatch.setattr(windows, "split", cut)
    blind = EdgeDetector(network())
    blind._view = View(margin=48, halvings=4, device=torch.device("cpu"))
    assert np.abs(blind(pixels) - whole).max() > 1e-5


@pytest.mark.parametrize("size", [(1, 5000), (3000, 2), (1500, 1400), (1449, 1449)])
def test_tiles_cover_every_pixel_once_and_are_small(size: tuple[int, int]) -> None:
    for margin, scale in ((0, 1.0), (111, 1.0), (111, 4.0)):
        times = np.zeros(size, int)
        for rows, columns in windows.split(*size, margin, scale):
            times[rows.start : rows.stop, columns.start : columns.stop] += 1
            sides = [len(part) * scale + 2 * margin for part in (rows, columns)]
            assert len(rows) * len(columns) == times.size or math.prod(sides) <= windows.AT_ONCE
        assert (times == 1).all()


def test_what_is_shown_is_never_more_than_fits_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "AT_ONCE", 300**2)
    shown = []

    def watch(x: Tensor) -> Tensor:
        shown.append(x.shape[2] * x.shape[3])
        return x[:, :1]

    image = np.zeros((310, 400), np.uint8)[..., None].repeat(3, 2)
    for scales in ([0.1], [1.0], [0.5, 1.0, 1.5]):
        predict_tiled(watch, lambda maps: maps, image, scales, detector()._view)
    assert max(shown) <= 300**2
    assert len(shown) > 20


# Scales -------------------------------------------------------------------------------------------


def test_scales_are_averaged() -> None:
    each = [detector()(picture(), [scale]) for scale in (0.5, 1, 1.5)]
    np.testing.assert_allclose(
        detector()(picture(), (0.5, 1, 1.5)), np.mean(each, axis=0), atol=1e-6
    )
    assert np.abs(each[0] - each[1]).max() > 0.01


@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 1.5, 3.7])
def test_a_smooth_picture_survives_the_way_there_and_back(scale: float) -> None:
    y, x = np.mgrid[:90, :121] / 40
    wave = (0.5 + 0.5 * np.sin(x + y)).astype(np.float32)
    image = np.stack([wave, 1 - wave, 0.3 + 0 * wave], 2)
    back = predict_tiled(lambda shown: shown, lambda maps: maps, image, [scale], detector()._view)
    np.testing.assert_allclose(back[2], 0.3, atol=1e-6)
    inside = np.s_[:, 8:-8, 8:-8]  # at the border there is less to interpolate between
    np.testing.assert_allclose(back[inside], image.transpose(2, 0, 1)[inside], atol=0.01)


# Lines --------------------------------------------------------------------------------------------


def test_lines_are_where_the_strength_is_highest_across_them() -> None:
    strength = np.zeros((40, 40), np.float32)
    strength[:, 18:23] = 0.2, 0.5, 0.9, 0.5, 0.2
    upright = suppress_edges(strength, np.full((40, 40), np.pi / 2, np.float32))
    np.testing.assert_allclose(upright[6:-6, 20], 0.7)  # smoothed with [1 2 1]/4, as the literature
    assert not upright[:, np.arange(40) != 20].any()
    lying = suppress_edges(strength.T, np.zeros((40, 40), np.float32))
    np.testing.assert_array_equal(lying, upright.T)
    sharp = suppress_edges(strength, np.full((40, 40), np.pi / 2, np.float32), "unsmoothed")
    np.testing.assert_allclose(sharp[6:-6, 20], 0.9)
    along = suppress_edges(strength, np.zeros((40, 40), np.float32), "unsmoothed")
    np.testing.assert_array_equal(along[6:-6], strength[6:-6])  # nothing is stronger along it


@pytest.mark.parametrize("rise", [-2, -1, -0.5, 0.5, 1, 2])
def test_lines_follow_a_slanted_boundary(rise: float) -> None:
    y, x = 20 - np.arange(41)[:, None], np.arange(41) - 20
    away = np.abs(y - rise * x) / math.hypot(1, rise)
    strength = np.exp(-((away / 2) ** 2)).astype(np.float32)
    right = np.full(strength.shape, math.atan(rise) % np.pi)
    assert (suppress_edges(strength, right) > 0)[away > 1].sum() == 0
    assert (suppress_edges(strength, right + np.pi / 2) > 0)[away > 1].any()


def test_thinned_is_suppress_edges_of_oriented() -> None:
    oriented = detector().oriented(picture())
    assert isinstance(oriented, OrientedEdges)
    thinned = detector().suppressed(picture(), variant="unsmoothed")
    np.testing.assert_array_equal(thinned, suppress_edges(*oriented, "unsmoothed"))
    kept = thinned > 0
    assert 0.02 < kept.mean() < 0.6
    inside = np.s_[6:-6, 6:-6]
    expected = np.where(kept, oriented.strength, 0)
    np.testing.assert_array_equal(thinned[inside], expected[inside])
    with pytest.raises(InputError, match="there is no suppression 'thick': it is one of none, "):
        detector().suppressed(picture(), variant="thick")


def test_lines_do_not_depend_on_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    strength = random.random((130, 97)).astype(np.float32)
    angle = (np.pi * random.random((130, 97))).astype(np.float32)
    names = [name for name in suppression.VARIANTS if name != "none"]
    whole = [suppress_edges(strength, angle, name) for name in names]
    monkeypatch.setattr(windows, "AT_ONCE", 40**2)
    assert len(list(windows.split(130, 97))) == 12
    for name, expected in zip(names, whole, strict=True):
        np.testing.assert_array_equal(suppress_edges(strength, angle, name), expected)
