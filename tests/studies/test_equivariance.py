"""Errors of every layer of a network, and where they come from."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from commands import Command
from hnets import nn as hnn
from hnets import plot
from hnets.studies.equivariance import SOURCES, measure_equivariance
from hnets.studies.trace import trace

ANGLES = (45.0, 90.0)


def small(padding: int | str = 0, pool: int = 1) -> nn.Sequential:
    layers = nn.Sequential(
        hnn.HConv2d("3x0r", "4x0 + 4x1", 5, padding=padding, rings="gaussian"),
        hnn.ModReLU("4x0 + 4x1"),
    )
    if pool > 1:
        layers.append(hnn.HAvgPool2d(pool))
    layers.append(hnn.HConv2d("4x0 + 4x1", "4x0 + 4x1", 5, padding=padding, rings="gaussian"))
    return layers


@pytest.mark.parametrize("name", ["hnet_mnist", "hdsn"])
def test_multiples_of_90_degrees_are_exact_for_the_shipped_networks(name: str) -> None:
    study = measure_equivariance(name, (45.0, 90.0, 180.0, 270.0), size=32)
    for layer in study.layers:
        assert max(layer.errors[1:]) < 1e-9, layer.name
        assert layer.errors[0] > 1e-6, layer.name


def test_a_plain_network_has_no_rule_even_at_90_degrees() -> None:
    study = measure_equivariance("z2cnn", ANGLES)
    assert min(study.at(90.0)[:-1]) > 0.2


def test_steps_are_layers_after_their_nonlinearity_pooling_and_the_output() -> None:
    net = small(pool=2)
    x = torch.rand(1, 3, 32, 32)
    steps = trace(net, x)
    assert [s.name for s in steps] == ["layer 1", "pooling 1", "layer 2", "output"]
    torch.testing.assert_close(steps[0].values, net[:2](x))
    torch.testing.assert_close(steps[1].values, net[:3](x))
    assert [str(s.streams) for s in steps] == ["4x0 + 4x1"] * 4
    pooled = nn.Sequential(net, hnn.Magnitude("4x0 + 4x1"), hnn.GlobalMean())
    assert [str(s.streams) for s in trace(pooled, x)][2:] == ["4x0 + 4x1", "8x0r"]
    assert str(trace(pooled[:2], x)[-1].streams) == "8x0r"


def test_functional_pooling_and_overwritten_maps_are_seen() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 2, 3)
            self.act = nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Tensor:
            x = nn.functional.max_pool2d(self.act(self.one(x)), 2)
            return self.two(x).mul_(2).mean((2, 3))

    steps = trace(Net(), torch.rand(1, 1, 18, 18))
    assert [(s.name, tuple(s.values.shape[2:])) for s in steps] == [
        ("layer 1", (16, 16)), ("pooling 1", (8, 8)), ("layer 2", (6, 6)), ("output", ()),
    ]  # fmt: skip
    assert (steps[0].values >= 0).all()


def test_sources_add_up_and_what_is_not_there_is_no_source() -> None:
    for net, absent in ((small(), {"padding", "pooling"}), (small(pool=2), {"padding"})):
        study = measure_equivariance(net, ANGLES, size=48)
        for layer in study.layers:
            assert set(layer.sources) == set(SOURCES)
            assert math.hypot(*layer.sources.values()) == pytest.approx(layer.errors[0], rel=1e-6)
            for source in absent:
                assert layer.sources[source] < 1e-4, (layer.name, source)


def test_padding_is_found_where_a_border_is_padded() -> None:
    # Grey up to the border, which zeros beyond it make an edge of: a square one.
    padded = measure_equivariance(small("same"), ANGLES, size=32, background=1.0)
    assert padded.layers[1].sources["padding"] > 0.05
    black = measure_equivariance(small("same"), ANGLES, size=32, background=0.0)
    assert black.layers[1].sources["padding"] < 0.01


def test_a_network_of_one_size_is_measured_without_padding() -> None:
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2 * 30 * 30, 5))
    study = measure_equivariance(net, ANGLES, size=32)
    assert all(math.isnan(layer.sources["padding"]) for layer in study.layers)
    assert study.layers[0].total > 0


def test_the_figure_has_two_panels_per_network() -> None:
    studies = [measure_equivariance(net, ANGLES, size=32) for net in (small(), small(pool=2))]
    axes = plot.equivariance_figure(studies).axes
    assert len(axes) == 4
    assert len(axes[0].lines) == 2 + 1  # two layers and the output
    bars = axes[3].patches
    heights = np.array([bar.get_height() for bar in bars]).reshape(len(SOURCES), -1).sum(0)
    np.testing.assert_allclose(
        heights, [100 * layer.total for layer in studies[1].layers], rtol=1e-4
    )
    assert len(plot.equivariance_figure(studies[:1]).axes) == 2


# Commands ------------------------------------------------------------------------------------

MODULE = """
import torch
from hnets import nn as hnn
net = torch.nn.Sequential(hnn.HConv2d("1x0r", "2x0 + 2x1", 5), hnn.Magnitude("2x0 + 2x1"))
class Plain(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Conv2d(1, 4, 5), torch.nn.ReLU())
class Strange(torch.nn.Module):
    def forward(self, x):
        return {"output": x}
def broken():
    raise RuntimeError("no weights")
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("users_net_of_a_test.py").write_text(MODULE)
    Path("raises.py").write_text("1 / 0")
    return tmp_path


@pytest.mark.parametrize("where", ["users_net_of_a_test.py", "users_net_of_a_test"])
def test_users_modules_side_by_side(hnets_command: Command, folder: Path, where: str) -> None:
    done = hnets_command(
        "inspect", "equivariance", f"{where}:net", "--against", f"{where}:Plain", "--size", "32"
    )
    assert done.code == 0, done.err
    assert done.out.count("layer 1") == 2
    assert "exact" in done.out  # the first at 90 degrees
    assert (folder / "equivariance.png").is_file()


def test_brackets_in_a_name_are_no_markup(hnets_command: Command, folder: Path) -> None:
    place = folder / "runs["
    place.mkdir()
    Path("users_net_of_a_test.py").rename(place / "b].py")
    done = hnets_command("inspect", "equivariance", "runs[/b].py:net", "--size", "32")
    assert (done.code, done.err) == (0, "")
    assert "runs[/b].py:net" in "".join(done.out.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "Missing argument .*; see hnets inspect equivariance --help"),
        (
            "hnet_minst",
            "no model is called 'hnet_minst', nor is there such a file; did you mean 'hnet_mnist",
        ),
        ("hnet_mnist --size 8", "expected a whole number from 16 to 256, got '8'"),
        ("z2cnn --size 16", r"z2cnn does not take an input of shape \(1, 1, 16, 16\)"),
        ("hnet_mnist --in-streams 3y", "cannot read streams"),
        ("missing.py:net", "there is no file missing.py"),
        ("no_such_package_of_a_test:net", "could not be imported .*no_such_package_of_a_test"),
        ("raises.py:net", "raises.py:net could not be imported .ZeroDivisionError"),
        ("users_net_of_a_test.py:nothing", "there is no nothing in users_net_of_a_test.py"),
        ("users_net_of_a_test.py:number", "to be a torch.nn.Module or to make one, got a int"),
        ("users_net_of_a_test.py:broken", r"could not be called without arguments \(no weights\)"),
        ("users_net_of_a_test.py:Strange", "cannot tell how many channels"),
        ("users_net_of_a_test.py:Strange --in-streams 1x0r", "return a tensor .* got dict"),
        (":net", "expected package.module:attribute or file.py:attribute, got ':net'"),
    ],
)
def test_bad_input(hnets_command: Command, folder: Path, arguments: str, message: str) -> None:
    done = hnets_command("inspect", "equivariance", *arguments.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert not (folder / "equivariance.png").exists()
