"""The U-Nets: sizes, symmetries, and what is around them."""

import itertools
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor

import hnets
from hnets import models
from hnets.models import HUNet
from networks import lively, relative

SIDES = (1, 8, 11, 16, 33)


@cache
def alive(mirror: bool = True, orders: int = 2) -> HUNet:
    """A narrow network with random statistics and biases, in float64, for inference."""
    torch.manual_seed(0)
    net = models.hunet(2, 3, mirror=mirror, orders=orders, width=2).double()
    lively(net, torch.rand(2, 2, 24, 24, dtype=torch.float64))
    return net.eval().requires_grad_(False)


def images(height: int, width: int) -> Tensor:
    return torch.rand(1, 2, height, width, dtype=torch.float64)


@pytest.mark.parametrize("size", list(itertools.product(SIDES, SIDES)), ids=str)
def test_rotations_and_mirrors_are_exact_at_every_size(size: tuple[int, int]) -> None:
    net, x = alive(), images(*size)
    y = net(x)
    assert y.shape == (1, 3, *size)
    rotated, mirrored = torch.rot90(x, 1, (2, 3)), x.flip(3)
    torch.testing.assert_close(net(rotated), torch.rot90(y, 1, (2, 3)), rtol=0, atol=1e-9)
    torch.testing.assert_close(net(mirrored), y.flip(3), rtol=0, atol=1e-9)


@pytest.mark.parametrize("orders", [1, 3])
def test_networks_of_other_orders_without_mirrors(orders: int) -> None:
    net, x = alive(mirror=False, orders=orders), images(24, 19)
    y = net(x)
    assert relative(net(x.flip(3)), y.flip(3)) > 0.01
    rotated = net(torch.rot90(x, 1, (2, 3)))
    torch.testing.assert_close(rotated, torch.rot90(y, 1, (2, 3)), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("encoder", "reduction"), [("hresnet18", 8), ("hresnet18_light", 16), ("hresnet10", 32)]
)
def test_rotations_are_exact_with_other_encoders(encoder: str, reduction: int) -> None:
    torch.manual_seed(0)
    net = models.hunet(2, 3, width=2, encoder=encoder, reduction=reduction).double()
    lively(net, torch.rand(2, 2, 32, 32, dtype=torch.float64))
    net.eval().requires_grad_(False)
    assert net.encoder.feature_info.reduction()[-1] == reduction
    for size in ((40, 33), (19, 64)):
        x = images(*size)
        y = net(x)
        assert y.shape == (1, 3, *size)
        rotated = net(torch.rot90(x, 1, (2, 3)))
        torch.testing.assert_close(rotated, torch.rot90(y, 1, (2, 3)), rtol=0, atol=1e-9)


def test_fields_are_the_encoders_own_or_double_and_encoders_are_backbones() -> None:
    own, doubled = (models.hunet(width=width, encoder="hresnet10") for width in (None, 3))
    assert [each[0].multiplicity for each in own.encoder.streams] == [8, 12, 24, 38, 72]
    assert [each[0].multiplicity for each in doubled.encoder.streams] == [8, 3, 6, 12, 24]
    with pytest.raises(ValueError, match=r"encoder is one of hresnet10, .*, got 'hedge_tiny'"):
        models.hunet(encoder="hedge_tiny")


def test_a_plain_network_is_not_equivariant() -> None:
    net, x = models.unet(2, width=2).eval(), torch.rand(1, 2, 24, 19)
    assert relative(net(torch.rot90(x, 1, (2, 3))), torch.rot90(net(x), 1, (2, 3))) > 0.01


def test_the_two_have_as_many_parameters() -> None:
    sizes = [sum(p.numel() for p in build(1).parameters()) for build in (models.hunet, models.unet)]
    assert max(sizes) < 500_000
    assert sizes[0] == pytest.approx(sizes[1], rel=0.01)


@pytest.mark.parametrize("build", [models.hunet, models.unet])
def test_fields_are_dropped_in_training_only(build: type[models.SegmentationNetwork]) -> None:
    net, x = build(drop_rate=0.5, width=2), torch.rand(2, 3, 16, 16)
    net(x)
    net.norm.eval()
    assert not torch.equal(net(x), net(x))
    net.eval()
    assert torch.equal(net(x), net(x))


@pytest.mark.parametrize("build", [models.hunet, models.unet])
def test_features_and_another_head(build: type[models.SegmentationNetwork], tmp_path: Path) -> None:
    net, x = build(width=2).eval(), torch.rand(2, 3, 16, 24)
    torch.testing.assert_close(net.forward_head(net.forward_features(x)), net(x))
    net.reset_classifier(5)
    assert net(x).shape == (2, 5, 16, 24)
    loaded = hnets.load(hnets.save(net, tmp_path / "reset.safetensors"))
    assert torch.equal(loaded(x), net(x))
    with pytest.raises(ValueError, match=r"Net expects images \(batch, 3, height, width\), got"):
        net(x[:, :1])
    net.double().reset_classifier(2)
    assert net(x.double()).dtype == torch.float64


def test_frozen_copies_give_the_same() -> None:
    x = images(17, 24)
    torch.testing.assert_close(hnets.freeze(alive())(x), alive()(x), rtol=0, atol=1e-11)
