"""Magnitudes and means."""

import pytest
import torch

from hnets import Streams
from hnets import nn as hnn


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
        hnn.Magnitude("2x0", combine="mean")  # type: ignore[arg-type]


def test_global_mean_averages_the_image() -> None:
    x = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(hnn.GlobalMean()(x), x.flatten(2).mean(2))
