"""The example of the README on a picture."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

from hnets import testing
from hnets.studies.turn import (
    _input,
    _most_alike,
    example_network,
    load,
    plain_network,
    turn,
)


def console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width)


def text(of: Console) -> str:
    assert isinstance(of.file, io.StringIO)
    return of.file.getvalue()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = console()
    path = turn(load(None), tmp_path_factory.mktemp("quick"), 96, 1, out)
    return path, text(out)


def test_it_says_where_the_figure_is_and_the_figure_is_one(run: tuple[Path, str]) -> None:
    path, said = run
    assert said.rstrip().replace("\n", "").endswith(f"wrote {path}")
    with Image.open(path) as image:
        image.load()
        assert min(image.size) > 800
        assert len(image.convert("RGB").getcolors(1 << 24) or []) > 100, "it is not blank"
    assert [file.name for file in path.parent.iterdir()] == ["turn.png"]


def test_tables_show_cost_and_equivariance_beside_a_plain_network(run: tuple[Path, str]) -> None:
    _, said = run
    for expected in ("2,056", "53,824", "order 0", "order 1", "plain", "15°", "180°", "exact"):
        assert expected in said
    assert "…" not in said, "a column was cut off"


def test_example_turns_and_the_plain_network_does_not() -> None:
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


def test_turned_input_is_the_turned_input() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (150, 200, 3), dtype=np.uint8)
    picture = Image.fromarray(noise)
    upright, turned = _input(picture, 64, 0), _input(picture, 64, 90)
    assert upright.shape == (1, 3, 64, 64)
    assert (turned - torch.rot90(upright, 1, (2, 3))).abs().max() < 2 / 255  # eight bits
    assert upright[..., 0, 0].abs().max() < 1e-6, "the corners are grey"


def test_most_alike_ignores_nearly_empty_maps() -> None:
    model = np.zeros((10, 10))
    model[:5] = 1.0
    empty = np.zeros((10, 10))
    empty[0, 0] = 1.0
    assert _most_alike(np.stack([empty, 1 - model, 3 * model + 0.1]), model) == 2
    assert _most_alike(np.stack([empty, empty]), model) == 0


@pytest.mark.parametrize("colour", ["black", "white", "red"])
def test_a_picture_of_one_colour_is_no_trouble(tmp_path: Path, colour: str) -> None:
    path = turn(Image.new("RGB", (40, 30), colour), tmp_path, 64, 1, console())
    assert path.stat().st_size > 0
