"""The edge detectors of our own: sizes, symmetries, and what is around them."""

import itertools
from functools import cache

import pytest
import torch
from torch import Tensor

import hnets
from hnets import functional as F
from hnets import models
from hnets.models import HEdge
from networks import lively, relative

SIDES = (1, 16, 17, 22, 33)


@cache
def alive(name: str = "hedge_tiny", mirror: bool = True) -> HEdge:
    """A network with random statistics and biases, in float64, for inference."""
    torch.manual_seed(0)
    net = hnets.create_model(name, mirror=mirror).double()
    assert isinstance(net, HEdge)
    lively(net, torch.rand(2, 3, 40, 40, dtype=torch.float64))
    return net.eval().requires_grad_(False)


def images(height: int, width: int) -> Tensor:
    return torch.rand(1, 3, height, width, dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("hedge_tiny", 28_535), ("hedge_small", 89_921), ("hedge_base", 348_653)],
)
def test_parameters(name: str, parameters: int) -> None:
    assert sum(p.numel() for p in hnets.create_model(name).parameters()) == parameters


@pytest.mark.parametrize("size", list(itertools.product(SIDES, SIDES)), ids=str)
def test_rotations_and_mirrors_are_exact_at_every_size(size: tuple[int, int]) -> None:
    net, x = alive(), images(*size)
    y = net.logits(x)
    rotated, mirrored = torch.rot90(x, 1, (2, 3)), x.flip(3)
    torch.testing.assert_close(net.logits(rotated), torch.rot90(y, 1, (2, 3)), rtol=0, atol=1e-10)
    torch.testing.assert_close(net.logits(mirrored), y.flip(3), rtol=0, atol=1e-10)


def test_a_network_without_mirrors_tells_left_from_right() -> None:
    net, x = alive(mirror=False), images(33, 40)
    y = net.logits(x)
    assert relative(net.logits(x.flip(3)), y.flip(3)) > 0.01
    torch.testing.assert_close(
        net.logits(torch.rot90(x, 1, (2, 3))), torch.rot90(y, 1, (2, 3)), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("name", ["hedge_tiny", "hedge_small"])
def test_nothing_beyond_the_receptive_radius_matters(name: str) -> None:
    net = alive(name)
    radius = net.receptive_radius()
    side = 2 * radius + 33
    x = images(17, side)
    y = net.logits(x)[..., side // 2]
    x[..., : side // 2 - radius - 1] = 0
    x[..., side // 2 + radius + 2 :] = 1
    torch.testing.assert_close(net.logits(x)[..., side // 2], y, rtol=0, atol=1e-12)
    x[..., side // 2 - 1] = 0
    assert (net.logits(x)[..., side // 2] - y).abs().max() > 1e-6


@pytest.mark.parametrize("name", ["hedge_tiny", "hedge_small"])
@pytest.mark.parametrize("width", [400, 401])
def test_a_decoder_of_a_part_differs_only_near_its_ends(name: str, width: int) -> None:
    net, x = alive(name), images(16, width)
    whole = net.forward_head(net.forward_features(x), 16, width)[..., 64:-96]
    part = net.forward_head(net.forward_features(x, (64, 96, 0, 0)), 16, width - 160)
    differences = (part - whole).abs().amax((0, 1, 2))
    radius = net.decoder_radius()
    assert differences[radius:-radius].max() < 1e-10
    assert min(differences[: radius // 2].max(), differences[-radius // 2 :].max()) > 1e-6


def test_sides_at_the_resolutions_of_the_decoder() -> None:
    for name, levels in (("hedge_tiny", (1, 2, 3, 4)), ("hedge_small", (0, 1, 2, 3, 4))):
        net = alive(name)
        assert net.levels == levels
        maps = net.forward_features(images(32, 48))
        assert [m.shape[2] for m in maps] == [32 // 2**level for level in levels]
        assert net.logits(images(32, 48)).shape[1] == len(levels) + 1


def test_fields_are_dropped_in_training_only() -> None:
    torch.manual_seed(0)
    net, x = models.hedge_tiny(drop_rate=0.5), torch.rand(1, 3, 33, 33)
    assert not torch.equal(net.logits(x), net.logits(x))
    net.eval()
    assert torch.equal(net.logits(x), net.logits(x))


def test_frozen_copies_give_the_same() -> None:
    net, x = alive("hedge_base"), images(33, 48)
    torch.testing.assert_close(hnets.freeze(net).logits(x), net.logits(x), rtol=0, atol=1e-11)


def test_probabilities_are_calibrated_and_logits_are_not() -> None:
    torch.manual_seed(0)
    net = models.hedge_tiny(scale=0.5, shift=0.4).eval()
    x = torch.rand(1, 3, 33, 40)
    logits = net.logits(x)
    torch.testing.assert_close(net(x), (0.5 * logits[:, -1:] + 0.4).sigmoid())
    with pytest.raises(ValueError, match="scale is a number above 0, got -1"):
        models.hedge_tiny(scale=-1)


@pytest.mark.parametrize("size", [(16, 24), (17, 25), (16, 25)])
def test_doubling_is_enlarging_once(size: tuple[int, int]) -> None:
    x = F.halve2d(torch.rand(2, 3, *size, dtype=torch.float64))
    torch.testing.assert_close(F.double2d(x, *size), F.enlarge2d(x, *size, 1))
    last = x.to(memory_format=torch.channels_last)
    torch.testing.assert_close(F.double2d(last, *size), F.enlarge2d(x, *size, 1))


@pytest.mark.parametrize(("name", "floats"), [("hedge_small", 60), ("hedge_base", 140)])
def test_few_maps_are_held_at_once(name: str, floats: int) -> None:
    """How many numbers per pixel, maps of all levels and temporary ones together."""
    net, x = hnets.freeze(hnets.create_model(name)), torch.rand(1, 3, 320, 320)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with (
        torch.inference_mode(),
        torch.profiler.profile(activities=activities, profile_memory=True) as profile,
    ):
        net(x)
    events = profile.profiler.kineto_results.events()
    changes = [event.nbytes() for event in events if event.name() == "[memory]"]
    assert max(itertools.accumulate(changes)) < 4 * floats * x[0, 0].numel()


def test_edge_detectors_run_on_the_meta_device() -> None:
    net = hnets.create_model("hedge_tiny").to("meta")
    assert net(torch.rand(1, 3, 33, 49, device="meta")).shape == (1, 1, 33, 49)
