"""Magnitudes, and nonlinearities and dropout on them."""

import pytest
import torch
from torch import nn

from hnets import Streams
from hnets import nn as hnn

BOTH = "4x0 + 4x1"
MIXED = "3x0r + 2x1 + 2x-2"


def test_gated_names_bad_input_with_its_gates() -> None:
    with pytest.raises(ValueError, match=r"Gated expects 2x0 \+ 2x1 \+ 4x0r = 12 channels"):
        hnn.Gated("2x0 + 2x1")(torch.zeros(1, 8, 5, 5))


def test_modrelu_starts_as_the_identity() -> None:
    act = hnn.ModReLU(BOTH)
    x = torch.randn(2, 16, 5, 5)
    torch.testing.assert_close(act(x), x)
    assert act.bias.shape == (8,)


def test_modrelu_with_a_negative_bias_zeroes_small_fields() -> None:
    act = hnn.ModReLU("1x1")
    nn.init.constant_(act.bias, -1.0)
    x = torch.tensor([[0.3, 0.4], [3.0, 4.0]])
    expected = torch.tensor([[0.0, 0.0], [2.4, 3.2]])
    torch.testing.assert_close(act(x), expected, rtol=0, atol=1e-4)


def test_modact_learns_a_value_a_field() -> None:
    act = nn.PReLU(7)
    module = hnn.ModAct(MIXED, act)
    assert [name for name, _ in module.named_parameters()] == ["act.weight"]
    x = torch.randn(2, 11, 5, 5)
    torch.testing.assert_close(module(x), x)  # magnitudes are positive


def test_gates_open_and_close_whole_fields() -> None:
    gated = hnn.Gated("2x1")
    fields = torch.randn(1, 4, 3, 3)
    gates = torch.tensor([100.0, -100.0]).view(1, 2, 1, 1).expand(1, 2, 3, 3)
    y = gated(torch.cat([fields, gates], dim=1))
    expected = fields * torch.tensor([1.0, 0.0, 1.0, 0.0]).view(1, 4, 1, 1)
    torch.testing.assert_close(y, expected)


def test_dropout_drops_both_parts_of_a_field_in_training_alone() -> None:
    drop = hnn.HDropout2d("50x1", p=0.4)
    x = torch.randn(8, 100, 4, 4)
    y = drop(x)
    re, im = ((part != 0).all((2, 3)) for part in y.chunk(2, dim=1))
    assert torch.equal(re, im)
    assert 0.5 < re.float().mean() < 0.7
    kept = torch.cat([re, im], dim=1)[:, :, None, None]
    torch.testing.assert_close(y, x * kept / 0.6)
    assert drop.eval()(x) is x


@pytest.mark.parametrize("p", [-0.1, 1.0, 2])
def test_dropout_names_a_bad_probability(p: float) -> None:
    with pytest.raises(ValueError, match=f"p is a probability .* got {p}"):
        hnn.HDropout2d("2x1", p)


def test_magnitude_stacks_streams_or_sums_orders() -> None:
    x = torch.tensor([[3.0, 1.0, 4.0, 0.0, 6.0, 5.0, 8.0, 12.0]])  # 3+4i, 1; 6+8i, 5+12i
    assert torch.equal(hnn.Magnitude("2x0 + 2x1")(x), torch.tensor([[5.0, 1.0, 10.0, 13.0]]))
    summed = hnn.Magnitude("2x0 + 2x1", combine="sum")
    assert torch.equal(summed(x), torch.tensor([[15.0, 14.0]]))
    assert hnn.Magnitude("2x0 + 2x1").out_streams == Streams("4x0r")
    assert summed.out_streams == Streams("2x0r")


def test_magnitude_names_what_it_cannot_sum() -> None:
    with pytest.raises(ValueError, match=r"equal multiplicity, got 2x0 \+ 3x1"):
        hnn.Magnitude("2x0 + 3x1", combine="sum")
    with pytest.raises(ValueError, match='combine is "stack" or "sum", got \'mean\''):
        hnn.Magnitude("2x0", combine="mean")
