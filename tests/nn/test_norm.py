"""Batch norm on magnitudes."""

import copy

import pytest
import torch
from torch import nn

from hnets import functional as F
from hnets import nn as hnn

BOTH = "4x0 + 4x1"
MIXED = "3x0r + 2x1 + 2x-2"


def test_norm_gives_every_field_the_statistics_of_its_parameters() -> None:
    norm = hnn.HBatchNorm2d(MIXED, magnitude_eps=1e-12)
    nn.init.constant_(norm.weight, 0.5)
    nn.init.constant_(norm.bias, 5.0)  # far from zero, where the ReLU does not cut
    x = torch.randn(8, 11, 16, 16) * (1 + torch.rand(11, 1, 1))
    lengths = F.magnitude(norm(x), norm.out_streams)
    torch.testing.assert_close(lengths.mean((0, 2, 3)), torch.full((7,), 5.0), rtol=1e-3, atol=0)
    torch.testing.assert_close(lengths.std((0, 2, 3)), torch.full((7,), 0.5), rtol=1e-2, atol=0)


def test_norm_moves_running_statistics_in_training_alone() -> None:
    norm = hnn.HBatchNorm2d("2x1", momentum=0.25)
    x = torch.randn(3, 4, 6, 6)
    lengths = (F.magnitude(x, norm.in_streams) ** 2 + norm.magnitude_eps).sqrt()
    norm(x)
    torch.testing.assert_close(norm.running_mean, 0.25 * lengths.mean((0, 2, 3)))
    torch.testing.assert_close(norm.running_var, 0.75 + 0.25 * lengths.var((0, 2, 3)))
    before = copy.deepcopy(norm.state_dict())
    norm.eval()(x)
    torch.testing.assert_close(norm.state_dict(), before, rtol=0, atol=0)


def test_norm_in_evaluation_approaches_training() -> None:
    norm = hnn.HBatchNorm2d("2x0r + 2x1", momentum=0.5)
    x = torch.randn(16, 6, 16, 16)
    for _ in range(40):
        trained = norm(x)
    torch.testing.assert_close(norm.eval()(x), trained, rtol=1e-2, atol=1e-3)


def test_norm_in_evaluation_is_its_folded_form() -> None:
    norm = hnn.HBatchNorm2d(MIXED).eval()
    for values in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
        nn.init.uniform_(values, 0.5, 2.0)
    x = torch.randn(2, 11, 5, 5)
    scale, shift = F.fold_batch_norm(
        norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
    )
    folded = F.magnitude_relu(x, scale, shift, norm.in_streams, norm.magnitude_eps)
    torch.testing.assert_close(norm(x), folded)


def test_norm_of_one_value_a_channel_is_an_error_in_training_alone() -> None:
    norm, x = hnn.HBatchNorm2d("2x1"), torch.ones(1, 4, 1, 1)
    with pytest.raises(ValueError, match=r"more than one value for each channel.*\(1, 4, 1, 1\)"):
        norm(x)
    assert norm.eval()(x).shape == x.shape


def test_norm_keeps_four_values_a_field() -> None:
    norm = hnn.HBatchNorm2d(BOTH)
    shapes = {name: tuple(value.shape) for name, value in norm.state_dict().items()}
    names = ("weight", "bias", "running_mean", "running_var")
    assert shapes == dict.fromkeys(names, (8,))


def test_variances_survive_a_mean_a_hundred_times_their_root() -> None:
    x = torch.randn(32, 4, 16, 16) + 100
    exact = hnn.HBatchNorm2d("4x0r", dtype=torch.float64)(x.double())
    assert (hnn.HBatchNorm2d("4x0r")(x) - exact).abs().max() < 2e-3
