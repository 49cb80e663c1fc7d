"""The networks on functions of the angle."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hnets


@pytest.mark.parametrize("nonlinearity", ["fourier", "poly", "gated", "magnitude"])
@pytest.mark.parametrize("share", [True, False])
def test_outputs_are_invariant_to_rotations_by_90_degrees(nonlinearity: str, share: bool) -> None:
    options = {"nonlinearity": nonlinearity, "share": share}
    net = hnets.create_model("hnet_fourier_tiny", **options).double()
    net(torch.rand(2, 1, 28, 28).double())  # statistics
    net.eval()
    x = torch.rand(1, 1, 28, 28).double()
    rotations = torch.cat([x.rot90(quarters, (2, 3)) for quarters in range(4)])
    assert torch.allclose(net(rotations), net(x), atol=1e-10)


def test_tiny_is_no_larger_than_the_papers_network() -> None:
    sizes = {
        name: sum(p.numel() for p in hnets.create_model(f"hnet_fourier_{name}").parameters())
        for name in ("tiny", "small", "base")
    }
    assert sizes["tiny"] <= 33_347
    assert sizes["tiny"] < sizes["small"] < sizes["base"] < 1_600_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "huge"}, "size is one of tiny, small, base"),
        ({"nonlinearity": "x"}, 'is "fourier'),
        ({"orders": 2.5}, "orders is a whole number from 1, got 2.5"),
        ({"samples": "x"}, "samples is a whole number from 1, got 'x'"),
        ({"samples": 8, "nonlinearity": "poly"}, 'of "fourier", got samples=8 and .poly'),
        ({"num_classes": -1}, "num_classes is a whole number from 0, got -1"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        hnets.models.HNetFourier(**options)


def test_the_classifier_can_be_replaced() -> None:
    net, x = hnets.create_model("hnet_fourier_tiny").eval(), torch.rand(2, 1, 28, 28)
    maps = net.forward_features(x)
    features = net.forward_head(maps, pre_logits=True)
    assert features.shape == (2, net.num_features)
    torch.testing.assert_close(net.get_classifier()(features), net(x))
    net.reset_classifier(3)
    assert net(x).shape == (2, 3)
    assert net.config.options["num_classes"] == 3
    net.reset_classifier(0)
    torch.testing.assert_close(net(x), features)
