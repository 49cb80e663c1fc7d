"""The README's network on a rotated image."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from commands import Command
from hnets import nn as hnn
from hnets import plot, testing
from hnets.studies.rotated_image import (
    RotatedImage,
    RotatedMap,
    _input,
    _most_alike,
    example_network,
    measure_rotation,
    plain_network,
)


def test_the_example_is_equivariant_and_the_plain_network_is_not() -> None:
    testing.assert_equivariant(example_network())
    with pytest.raises(AssertionError, match="not equivariant"):
        testing.assert_equivariant(plain_network(), in_streams="3x0r", out_streams="64x0r")


def test_networks_are_reproducible_and_leave_the_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    first, second, other = example_network(1), example_network(1), example_network(2)
    assert torch.equal(torch.rand(3), expected)
    x = torch.randn(1, 3, 16, 16)
    assert torch.equal(first(x), second(x))
    assert not torch.equal(first(x), other(x))


def test_the_input_of_a_rotated_image_is_the_rotated_input() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (150, 200, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    upright, rotated = _input(image, 64, 0), _input(image, 64, 90)
    assert upright.shape == (1, 3, 64, 64)
    assert (rotated - torch.rot90(upright, 1, (2, 3))).abs().max() < 2 / 255  # eight bits
    assert upright[..., 0, 0].abs().max() < 1e-6, "the corners are grey"


def test_most_alike_ignores_nearly_empty_maps() -> None:
    model = np.zeros((10, 10))
    model[:5] = 1.0
    empty = np.zeros((10, 10))
    empty[0, 0] = 1.0
    assert _most_alike(np.stack([empty, 1 - model, 3 * model + 0.1]), model) == 2
    assert _most_alike(np.stack([empty, empty]), model) == 0


def rotated_map(order: int, degrees: float, claimed: int | None = None) -> RotatedMap:
    torch.manual_seed(0)
    conv = hnn.HConv2d("1x0r", f"1x{order}", kernel_size=5, padding="same", dtype=torch.float64)
    maps = []
    for theta in (0.0, math.radians(degrees)):
        with torch.no_grad():
            re, im = conv(testing.band_limited(conv.in_streams, 64, theta))[0].numpy()
        maps.append(re + 1j * im)
    return RotatedMap("", "", *maps, order if claimed is None else claimed, degrees)


@pytest.mark.parametrize("order", [-1, 0, 1, 2])
def test_nothing_is_left_of_an_equivariant_map(order: int) -> None:
    assert rotated_map(order, 90).error < 1e-12
    assert rotated_map(order, 30).error < 0.1  # the bound of 5×5 pixels and bicubic interpolation


def test_a_wrong_order_leaves_much() -> None:
    assert rotated_map(1, 90, claimed=0).error > 1
    assert rotated_map(1, 30, claimed=-1).error > 0.9


def test_the_figure_has_a_column_per_map() -> None:
    image = np.zeros((64, 64, 3), np.float32)
    real = RotatedMap("plain", "", np.ones((8, 8)), np.ones((8, 8)), 0, 30.0)
    study = RotatedImage(image, image, 30.0, (rotated_map(1, 30), real))
    figure = plot.rotation_figure(study)
    assert sum(len(axes.images) for axes in figure.axes) == 2 + 1 + 4 * 2
    assert "plain" in {text.get_text() for text in figure.texts}


@pytest.mark.parametrize("colour", ["black", "white", "red"])
def test_an_image_of_one_colour_can_be_drawn(tmp_path: Path, colour: str) -> None:
    image = Image.new("RGB", (40, 30), colour)
    study = measure_rotation(image, example_network(), plain_network(), 64)
    assert plot.save(plot.rotation_figure(study), tmp_path / "a.png", dpi=20).stat().st_size > 0


def test_the_command_prints_tables_and_writes_a_figure(
    hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "turn.png"
    done = hnets_command("turn", "--out", str(tmp_path), "--size", "96")
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith(f"wrote {path}")
    with Image.open(path) as image:
        image.load()
        assert min(image.size) > 800
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 100, "it is not blank"
    assert [file.name for file in tmp_path.iterdir()] == ["turn.png"]
    for expected in ("2,056", "53,824", "order 0", "order 1", "plain", "15°", "180°", "exact"):
        assert expected in done.out
    assert "…" not in done.out, "a column was cut off"
