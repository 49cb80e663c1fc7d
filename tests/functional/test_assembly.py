"""Convolution with an assembled kernel."""

import pytest
import torch

from hnets import functional as F
from hnets.functional.assembly import cpu
from hnets.nn import HConv2d


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (5, {"padding": 2}),
        (5, {"padding": (0, 1)}),
        (4, {"padding": (3, 4)}),
        (3, {"padding": 3, "dilation": (3, 2)}),
        (1, {"share": False, "mirror": True}),  # joins equal orders only
        (3, {"padding": 1, "groups": 3}),
        (3, {"padding": 1, "stride": 2}),
    ],
)
def test_bands_of_a_large_map_are_the_whole(
    batch: int, size: int, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = HConv2d("3x0r + 3x1 + 3x2", "6x0r + 6x1 + 6x2", size, **options)
    x = torch.randn(batch, 15, 23, 9)
    with torch.no_grad():
        whole = layer(x)
        for rows in (1, 4, 11):
            share = rows * batch * 9 * 45 // torch.get_num_threads()
            monkeypatch.setattr(cpu, "_SHARE", share)
            torch.testing.assert_close(layer(x), whole)
            assert layer(x).stride() == whole.stride()


def test_gradients_take_no_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SHARE", 100)
    kernel = torch.randn(4, 3, 3, 3, requires_grad=True)
    F.hconv2d(torch.randn(1, 3, 9, 9), kernel, padding=(1, 1)).sum().backward()
    assert kernel.grad is not None
