"""The edge detector: images of every kind in, edges and their orientation out."""

import functools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

import hnets
from drawings import apart, blobs
from hnets import models
from hnets.data.image_file import ImageError
from hnets.errors import InputError
from hnets.functional.pyramid import margin_to_halve
from hnets.metrics import suppression
from hnets.metrics.skeleton import skeletonise
from hnets.models import _weights as store
from hnets.predict import EdgeDetector, edge_detector, suppress_edges, tiles
from networks import edge_network, lively


@functools.cache
def detector() -> EdgeDetector:
    return EdgeDetector(edge_network())


# What goes in and comes out -----------------------------------------------------------------------


def test_the_output_is_that_of_the_network() -> None:
    x = torch.from_numpy(blobs()).permute(2, 0, 1)[None] / 255
    with torch.no_grad():
        expected = edge_network().eval()(x)[0, 0].numpy()
    edges = detector()(blobs())
    assert (edges.shape, edges.dtype) == ((40, 52), np.float32)
    np.testing.assert_allclose(edges, expected, atol=1e-5)
    assert 0 <= edges.min() < edges.max() <= 1


def test_images_of_every_kind_are_read_alike() -> None:
    pixels = blobs()
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
    for kind, image in kinds.items():
        np.testing.assert_allclose(detector()(image), expected, atol=1e-5, err_msg=kind)
    grey = np.asarray(Image.fromarray(pixels).convert("L"))
    as_grey = [grey, grey[..., None], grey[..., None].repeat(3, 2), Image.fromarray(grey)]
    for image in as_grey[1:]:
        np.testing.assert_array_equal(detector()(image), detector()(grey))


def test_the_path_of_a_file_will_do(tmp_path: Path) -> None:
    detector, image = EdgeDetector(edge_network()), Image.fromarray(blobs(24, 32))
    image.save(tmp_path / "photo.png")
    expected = detector(image)
    assert np.array_equal(detector(str(tmp_path / "photo.png")), expected)
    assert np.array_equal(detector([tmp_path / "photo.png"])[0], expected)
    with pytest.raises(ImageError, match=r"there is no file missing\.png"):
        detector("missing.png")


def test_what_is_transparent_is_laid_on_white() -> None:
    pixels = blobs()
    clear = np.concatenate([pixels, np.zeros((40, 52, 1), np.uint8)], 2)
    np.testing.assert_allclose(detector()(clear), detector()(np.ones((40, 52))), atol=1e-6)
    np.testing.assert_allclose(detector()(clear / 255), detector()(np.ones((40, 52))), atol=1e-6)
    half = np.concatenate([pixels / 255, np.full((40, 52, 1), 0.5)], 2)
    np.testing.assert_allclose(detector()(half), detector()(0.5 + pixels / 510), atol=1e-5)


def test_a_batch_gives_a_batch_and_a_list_gives_a_list() -> None:
    one, other = blobs(), blobs()[::-1]
    batch = np.stack([one, other])
    expected = [detector()(one), detector()(other)]
    np.testing.assert_array_equal(detector()(batch), np.stack(expected))
    np.testing.assert_array_equal(detector()([one, other]), expected)
    np.testing.assert_array_equal(detector().suppressed(batch)[1], detector().suppressed(other))
    oriented = detector().oriented(batch)
    assert oriented.strength.shape == oriented.angle.shape == (2, 40, 52)
    listed = detector().oriented([one, Image.fromarray(blobs(20, 30))])
    assert [each.angle.shape for each in listed] == [(40, 52), (20, 30)]
    assert detector()([]) == []


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (2, 3), (17, 1), (16, 16), (15, 33)])
def test_images_may_be_small(size: tuple[int, int]) -> None:
    pixels = np.full((*size, 3), 77, np.uint8)
    strength, angle = detector().oriented(pixels, scales=(0.5, 1, 2))
    assert strength.shape == angle.shape == size
    assert np.isfinite(strength).all()
    assert np.isfinite(angle).all()
    assert detector().suppressed(pixels).shape == size


@pytest.mark.parametrize("size", [(34, 50), (40, 52), (47, 33), (3, 70)])
def test_beyond_its_border_an_image_goes_on_as_its_mirror_image(size: tuple[int, int]) -> None:
    """Where a border is repeated instead, its pixels become stripes, which have edges."""
    pixels = blobs(*size)
    margins = [margin_to_halve(side, 4) for side in size]
    padded = np.pad(pixels, [*((n, n) for n in margins), (0, 0)], "reflect")
    top, left = margins
    expected = detector()(padded)[top : top + size[0], left : left + size[1]]
    np.testing.assert_allclose(detector()(pixels), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros(9, np.uint8), r"array of shape \(height, width\), .*, got \(9,\)"),
        (None, r"a path, a Pillow image or an array .*, got a NoneType$"),
        (np.zeros((3, 40, 52), np.uint8), r"got \(3, 40, 52\); put the colours last with numpy"),
        (np.zeros((40, 52, 2), np.uint8), r"got \(40, 52, 2\)$"),
        (np.zeros((1, 2, 3, 4, 3), np.uint8), r"got \(1, 2, 3, 4, 3\)$"),
        (np.zeros((0, 5), np.uint8), r"should have pixels, got an array of shape \(0, 5\)"),
        (np.zeros((0, 4, 5, 3)), r"should have pixels, got an array of shape \(0, 4, 5, 3\)"),
        (np.full((4, 4), 200), r"got int64 from 200 to 200; if white is 255, use image\.astype"),
        (np.full((4, 4), 200.0), r"got float64 from 200\.0 to 200\.0; if white is 255"),
        (np.full((4, 4), -0.5), r"from 0 to 1, got float64 from -0\.5 to -0\.5; scale it first"),
        (np.full((4, 4), math.nan), "from nan to nan; replace the NaN in it"),
        (np.array([[0.5, math.inf]]), "from 0.5 to inf; scale it first"),
        (np.full((4, 4), 1j), "got complex128; convert it first"),
        (np.full((4, 4), "a"), "got str32; convert it first"),
    ],
)
def test_arrays_that_are_no_images_are_named(values: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ImageError, match=f"^the image .*{message}") as caught:
        detector()(values)
    assert "\n" not in str(caught.value)
    with pytest.raises(ImageError, match=r"^image 1 "):
        detector()([blobs(), values])


def test_values_may_be_off_by_rounding() -> None:
    almost = np.clip(blobs() / 255, 0.1, 0.9)
    almost[0, 0], almost[1, 1] = 1 + 1e-8, -1e-8
    assert np.isfinite(detector()(almost)).all()


@pytest.mark.parametrize("scales", [(), (0,), (1, -1), (100,), (math.nan,), 0.5, "1", ("a",), None])
def test_scales_that_make_no_sense_are_named(scales: Any) -> None:
    message = r"scales are numbers from 0\.1 to 4, at least one, as in \(0\.5, 1, 1\.5\), got "
    with pytest.raises(InputError, match=message + re.escape(repr(scales))):
        detector()(blobs(), scales)


def test_scales_may_be_an_array() -> None:
    expected = detector()(blobs(), (0.5, 1))
    np.testing.assert_array_equal(detector()(blobs(), np.array([0.5, 1])), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_tensors_are_taken_like_arrays(dtype: torch.dtype) -> None:
    levels = torch.from_numpy(blobs()) // 128 * 255  # black and white: exact in all of these
    values = levels if dtype == torch.uint8 else (levels / 255).to(dtype).requires_grad_()
    expected = detector()(levels.numpy())
    np.testing.assert_allclose(detector()(values), expected, atol=1e-6)
    np.testing.assert_allclose(detector()(torch.stack([values] * 2))[1], expected, atol=1e-6)
    with pytest.raises(InputError, match=r"got \(3, 40, 52\); .* with image\.movedim\(0, -1\)"):
        detector()(values.movedim(-1, 0))


# The network --------------------------------------------------------------------------------------


def test_the_default_is_the_pretrained_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = {"recipe": {}, "data": {}, "metrics": {}, "commit": ""}
    net = lively(models.hedge_small(), torch.rand(1, 3, 48, 48))
    models.save(net, tmp_path / "hedge_small.safetensors", card=card)
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    np.testing.assert_array_equal(hnets.EdgeDetector()(blobs()), EdgeDetector(net)(blobs()))


def test_weights_may_be_a_file_or_the_folder_of_a_run(tmp_path: Path) -> None:
    path = models.save(edge_network(), tmp_path / "seed-0" / "model.safetensors")
    for source in (path, str(path), path.parent):
        np.testing.assert_array_equal(EdgeDetector(source)(blobs()), detector()(blobs()))
    with pytest.raises(InputError, match=r"there is no file or folder .*other\.safetensors"):
        EdgeDetector(tmp_path / "other.safetensors")
    with pytest.raises(InputError, match=r"a network that finds edges, .*, got a HNetMNIST"):
        EdgeDetector("hnet_mnist")


def test_the_model_itself_is_left_as_it_is() -> None:
    net = models.hdsn().train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    EdgeDetector(net).oriented(blobs())
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_an_hed_finds_edges_but_not_their_orientation() -> None:
    hed = EdgeDetector(models.hed_low())
    assert hed(blobs()).shape == (40, 52)
    with pytest.raises(
        InputError, match="phases of fields, and HED has none; use a harmonic network"
    ):
        hed.oriented(blobs())


def test_other_networks_and_devices_are_refused() -> None:
    for weights, kind in ((nn.Linear(3, 4), "Linear"), (None, "NoneType"), (3, "int")):
        with pytest.raises(InputError, match=rf"a network that finds edges, .*, got a {kind}"):
            EdgeDetector(weights)  # type: ignore[arg-type] # what a caller may pass
    with pytest.raises(InputError, match="such as cpu or cuda, got 'nowhere'"):
        EdgeDetector(edge_network(), device="nowhere")
    if not torch.cuda.is_available():
        with pytest.raises(InputError, match=r"cannot compute on 'cuda' \(.*\); use cpu"):
            EdgeDetector(edge_network(), device="cuda")


# Rotation by 90 degrees --------------------------------------------------------------------------


@pytest.mark.parametrize("quarters", [1, 2, 3])
@pytest.mark.parametrize("size", [(40, 52), (41, 52), (40, 51), (33, 47)])
@pytest.mark.parametrize("scales", [(1.0,), (0.5, 1.5)])
def test_rotation_by_90_degrees_rotates_the_edges_exactly(
    quarters: int, size: tuple[int, int], scales: tuple[float, ...]
) -> None:
    pixels = blobs(*size)
    strength, angle = detector().oriented(pixels, scales)
    rotated = detector().oriented(np.rot90(pixels, quarters), scales)
    np.testing.assert_allclose(rotated.strength, np.rot90(strength, quarters), atol=2e-6)
    off = apart(rotated.angle, np.rot90(angle, quarters) + quarters * np.pi / 2)
    assert np.quantile(off, 0.99) < 1e-4  # where there is no direction at all, rounding decides
    assert 0 <= rotated.angle.min() <= rotated.angle.max() < np.pi


# Lines --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tiny", "hdsn"])
def test_bfloat16_changes_strengths_by_little_and_other_cpus_compute_as_before(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = blobs(96, 128)
    exact = EdgeDetector(name).oriented(image)
    monkeypatch.setattr(edge_detector, "cpu_has_bfloat16", lambda: True)
    fast = EdgeDetector(name, fast=True).oriented(image)
    difference = np.abs(fast.strength - exact.strength)
    assert 0 < difference.max() < 0.1
    assert difference.mean() < 0.005
    sure = exact.strength > 0.5
    off = np.abs((fast.angle - exact.angle + np.pi / 2) % np.pi - np.pi / 2)[sure]
    assert np.degrees(np.median(off)) < 1
    monkeypatch.setattr(edge_detector, "cpu_has_bfloat16", lambda: False)
    assert np.array_equal(EdgeDetector(name, fast=True)(image), exact.strength)


def test_lines_are_where_the_strength_is_highest_across_them() -> None:
    strength = np.zeros((40, 40), np.float32)
    strength[:, 18:23] = 0.2, 0.5, 0.9, 0.5, 0.2
    upright = suppress_edges(strength, np.full((40, 40), np.pi / 2, np.float32))
    np.testing.assert_allclose(upright[6:-6, 20], 0.7)  # smoothed with [1 2 1]/4, as the literature
    assert not upright[:, np.arange(40) != 20].any()
    lying = suppress_edges(strength.T, np.zeros((40, 40), np.float32))
    np.testing.assert_array_equal(lying, upright.T)
    np.testing.assert_array_equal(suppress_edges(strength), upright)
    np.testing.assert_array_equal(suppress_edges(strength.T), upright.T)
    sharp = suppress_edges(strength, np.full((40, 40), np.pi / 2, np.float32), "unsmoothed")
    np.testing.assert_allclose(sharp[6:-6, 20], 0.9)
    along = suppress_edges(strength, np.zeros((40, 40), np.float32), "unsmoothed")
    assert ((along[8:-8] > 0).sum(1) == 1).all()  # nothing is stronger along it: its skeleton


@pytest.mark.parametrize("which", ["slanted", "saturated", "image"])
def test_lines_are_one_pixel_wide(which: str) -> None:
    y, x = 20 - np.arange(41)[:, None], np.arange(41) - 20
    away = np.abs(y - 0.7 * x) / math.hypot(1, 0.7)
    strength, angle = np.exp(-((away / 2) ** 2)), np.full((41, 41), math.atan(0.7))
    if which == "saturated":
        strength = np.clip(3 * strength, 0, 1)  # a band of equal strength, many pixels wide
    elif which == "image":
        strength, angle = detector().oriented(blobs())
    for lines in (suppress_edges(strength, angle), suppress_edges(strength)):
        assert (lines > 0).any()
        np.testing.assert_array_equal(skeletonise(lines > 0), lines > 0)


@pytest.mark.parametrize("rise", [-2, -1, -0.5, 0.5, 1, 2])
def test_lines_follow_a_slanted_edge(rise: float) -> None:
    y, x = 20 - np.arange(41)[:, None], np.arange(41) - 20
    away = (y - rise * x) / math.hypot(1, rise)
    # Steep on one side, so that its strongest pixels are not in the middle of it.
    strength = np.exp(-((away / np.where(away < 0, 2, 6)) ** 2)).astype(np.float32)
    away = np.abs(away)
    right = np.full(strength.shape, math.atan(rise) % np.pi)
    for angle in (right, None):
        assert (suppress_edges(strength, angle, "unsmoothed") > 0)[away > 1].sum() == 0
    assert (suppress_edges(strength, right + np.pi / 2, "unsmoothed") > 0)[away > 1].any()


def test_suppressed_is_suppress_edges_of_the_strength() -> None:
    strength = detector()(blobs())
    lines = detector().suppressed(blobs(), variant="unsmoothed")
    np.testing.assert_array_equal(lines, suppress_edges(strength, variant="unsmoothed"))
    remain = lines > 0
    assert 0.02 < remain.mean() < 0.6
    inside = np.s_[6:-6, 6:-6]
    expected = np.where(remain, strength, 0)
    np.testing.assert_array_equal(lines[inside], expected[inside])
    with pytest.raises(InputError, match="there is no suppression 'thick'; choose from none, "):
        detector().suppressed(blobs(), variant="thick")


def test_lines_do_not_depend_on_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    strength = random.random((130, 97)).astype(np.float32)
    angle = (np.pi * random.random((130, 97))).astype(np.float32)
    names = [name for name in suppression.VARIANTS if name != "none"]
    cases = [(lines, name) for lines in (angle, None) for name in names]
    whole = [suppress_edges(strength, *case) for case in cases]
    monkeypatch.setattr(tiles, "AT_ONCE", 40**2)
    assert len(list(tiles.split(130, 97, margin=8))) > 12
    for case, expected in zip(cases, whole, strict=True):
        np.testing.assert_array_equal(suppress_edges(strength, *case), expected)


# Images -------------------------------------------------------------------------------------------


def test_images_come_in_and_go_out(tmp_path: Path) -> None:
    pixels = blobs()
    strength = detector()(pixels)
    for source in (pixels, Image.fromarray(pixels), tmp_path / "blobs.png"):
        Image.fromarray(pixels).save(tmp_path / "blobs.png")
        edges = detector().draw(source)
        assert (edges.size, edges.mode) == ((52, 40), "L")
        np.testing.assert_allclose(np.asarray(edges) / 255, strength, atol=0.5 / 255 + 1e-6)
    lines = np.asarray(detector().draw(pixels, "thin")) / 255
    np.testing.assert_allclose(lines, suppress_edges(strength), atol=0.5 / 255 + 1e-6)
    for kind in ("orientation", "overlay"):
        drawn = detector().draw(pixels, kind)
        assert drawn.mode == "RGB"
        for same in (pixels / 255, pixels.astype(np.uint16) * 257):  # one image in other numbers
            again = np.asarray(detector().draw(same, kind)).astype(int)
            np.testing.assert_allclose(again, np.asarray(drawn), atol=1)
    with pytest.raises(InputError, match="there is no kind 'thick' of edges; did you mean 'thin'"):
        detector().draw(pixels, "thick")
    with pytest.raises(InputError, match="there is no kind None of edges; choose from edges, "):
        detector().draw(pixels, None)  # type: ignore[arg-type] # what a caller may pass
    EdgeDetector(models.hed_low()).draw(pixels)
