"""Filters, their phases, and counts of what is wasted."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from commands import Command
from hnets import functional as F
from hnets import nn as hnn
from hnets.studies import LayerFilters, Network, measure_filters
from hnets.studies.filters import filter_totals


def network(*parts: nn.Module) -> Network:
    return Network("mine", nn.Sequential(*parts), trained=True)


PLAIN = network(nn.Conv2d(1, 4, 5))


def test_phases_are_those_of_the_weights() -> None:
    net = network(hnn.HConv2d("1x0r", "3x0 + 3x1", 5), hnn.HConv2d("3x0 + 3x1", "2x0 + 2x1", 5))
    convs = [part for part in net.module.modules() if isinstance(part, hnn.HConv2d)]
    with torch.no_grad():
        convs[0].filters.phase["0"].add_(100)  # training does not keep them within 2π
    study = measure_filters(net, PLAIN)
    for conv, layer in zip(convs, study.layers, strict=True):
        learned = np.concatenate([b.detach().numpy().ravel() for b in conv.filters.phase.values()])
        assert layer.phases.size == learned.size
        assert ((layer.phases >= 0) & (layer.phases < 2 * math.pi)).all()
        np.testing.assert_allclose(np.exp(1j * layer.phases), np.exp(1j * learned), atol=1e-4)


def test_aligned_filters_rotated_by_their_phase_are_the_kernel() -> None:
    conv = hnn.HConv2d("1x0r", "3x0 + 3x1", 5).double()
    kernel = conv.filters().detach().numpy()  # real and imaginary blocks of orders 0 and 1
    first = measure_filters(network(conv), PLAIN).first
    assert [each.order for each in first] == [0] * 3 + [1] * 3
    for number, each in enumerate(first):
        order, field = divmod(number, 3)
        learned = kernel[6 * order + field, 0] + 1j * kernel[6 * order + 3 + field, 0]
        aligned = learned * np.exp(-1j * each.phases[0])
        np.testing.assert_allclose(aligned.real, each.aligned[0], atol=1e-9)


def test_rotated_copies_and_blank_filters_are_counted() -> None:
    conv = hnn.HConv2d("1x0r", "5x1", 5)
    with torch.no_grad():
        radial, phase = conv.filters.radial["0"], conv.filters.phase["0"]
        radial[1], phase[1] = 2 * radial[0], phase[0] + 1.234  # rotated by 1.234 and stronger
        radial[2] = 1e-3 * radial[2]
    layer = measure_filters(network(conv), PLAIN).layers[0]
    assert (layer.count, layer.blank, layer.copies) == (5, 1, 1)
    assert filter_totals([layer]) == (5, 0.2, 0.2)


@pytest.mark.parametrize("degrees", [0, 45, 90, 210])
def test_rotated_copies_of_plain_filters_are_counted(degrees: float) -> None:
    conv = nn.Conv2d(2, 4, 9)
    offset = torch.arange(9.0) - 4
    bump = torch.exp(-(offset[:, None] ** 2 + offset**2) / 8)
    wave = torch.sin(offset + 0.5 * offset[:, None]) + 0.3 * offset[:, None]
    with torch.no_grad():
        conv.weight.normal_()
        conv.weight[0] = bump * wave
        conv.weight[3] = 3 * F.rotate_pixels(conv.weight[:1], math.radians(degrees))[0]
        conv.weight[2] = 0
    layer = measure_filters("hnet_mnist", network(conv)).plain_layers[0]
    assert (layer.count, layer.blank, layer.copies) == (4, 1, 1)


def test_evenness() -> None:
    round_the_circle = np.linspace(0, 2 * np.pi, 100, endpoint=False)
    assert LayerFilters("", 1, 0, 0, round_the_circle).evenness == pytest.approx(1)
    assert LayerFilters("", 1, 0, 0, np.full(9, 2.0)).evenness == pytest.approx(0)
    assert math.isnan(LayerFilters("", 1, 0, 0, np.zeros(0)).evenness)


def test_command(hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = hnets_command("inspect", "filters", "hnet_mnist", "--against", "z2cnn")
    assert done.code == 0, done.err
    assert "hnet_mnist, layer 6" in done.out
    assert "z2cnn, all layers" in done.out
    assert (tmp_path / "filters.png").is_file()
    refused = hnets_command("inspect", "filters", "z2cnn")
    assert (refused.code, refused.out) == (2, "")
    assert "expected a network with harmonic convolutions, and z2cnn has none" in refused.err
