"""The networks for edges: their numbers, their equivariance, and what users put around them."""

import copy
import itertools
import pickle
from collections.abc import Callable
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import hnets
from hnets import functional as F
from hnets import models, testing
from hnets import nn as hnn
from hnets.models._hdsn import HDSN, EdgeNetwork
from networks import lively, relative

BUILDS = [models.hdsn, models.hed, models.hed_low, models.hedge_tiny, models.hedge_small]
SIDES = (1, 2, 15, 16, 17, 22, 33)
"""Odd, even, one pixel, multiples of 16, one more than that, and neither."""


def alive(build: Callable[[], EdgeNetwork] = models.hdsn, seed: int = 0) -> EdgeNetwork:
    """A network with random statistics and biases, in float64, for inference."""
    torch.manual_seed(seed)
    net = build().double()
    lively(net, torch.rand(2, 3, 40, 40, dtype=torch.float64))
    return net.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def net() -> EdgeNetwork:
    return alive()


@cache
def frozen() -> nn.Module:
    return hnets.freeze(alive())


def images(height: int, width: int, batch: int = 1) -> Tensor:
    return torch.rand(batch, 3, height, width, dtype=torch.float64)


def parameters(part: nn.Module) -> int:
    return sum(p.numel() for p in part.parameters())


# Numbers ------------------------------------------------------------------------------------------


def test_parameters_of_the_hdsn_part_by_part() -> None:
    net = models.hdsn()
    convolutions = [[part for part in stage if type(part) is hnn.HConv2d] for stage in net.stages]
    assert [[parameters(conv) for conv in stage] for stage in convolutions] == [
        [168, 448],
        [896, 1792],
        [3584, 7168],
        [14336, 28672],
        [28672, 28672],
    ]
    filters = sum(parameters(conv) for stage in convolutions for conv in stage)
    assert filters == 114_408
    assert sum(map(parameters, net.stages)) - filters == 1104  # biases and norms
    assert [parameters(side) for side in net.sides] == [17, 33, 65, 129, 129]
    assert sum(map(parameters, net.sides)) == 373
    assert parameters(net.fusion) == 6
    assert parameters(net) == 114_408 + 1104 + 373 + 6 == 115_891


@pytest.mark.parametrize(
    ("name", "widths", "total"),
    [("hed", (32, 64, 128, 256, 256), 2_354_635), ("hed_low", (7, 14, 28, 56, 56), 113_460)],
)
def test_parameters_of_the_heds(name: str, widths: tuple[int, ...], total: int) -> None:
    net = hnets.create_model(name)
    before, expected = 3, 0
    for width in widths:
        expected += 9 * before * width + width + 9 * width * width + width  # two convolutions
        expected += 2 * width + width + 1  # the norm and the side output
        before = width
    assert parameters(net) == expected + 6 == total


def test_an_hed_of_half_width_multiplies_as_much_as_the_hdsn() -> None:
    ours, theirs = (hnets.cost(build(), (3, 65, 49)) for build in (models.hdsn, models.hed))
    by_stage = [
        [layer.multiplications for layer in report.layers if layer.kind in ("HConv2d", "Conv2d")]
        for report in (ours, theirs)
    ]
    assert by_stage[0] == by_stage[1]


def test_the_output_is_the_sigmoid_of_the_fusion(net: EdgeNetwork) -> None:
    x = images(21, 34, batch=2)
    logits = net.logits(x)
    assert logits.shape == (2, 6, 21, 34)
    torch.testing.assert_close(net(x), logits[:, 5:].sigmoid())
    fused = net.fusion(logits[:, :5])
    torch.testing.assert_close(logits[:, 5:], fused)
    assert logits.std((2, 3)).min() > 1e-3, "the output does not depend on the image"


def test_a_weighted_sum_is_a_convolution() -> None:
    for layer in models.hdsn().sides:
        nn.init.normal_(layer.bias)
        x = torch.randn(2, layer.in_channels, 7, 5, requires_grad=True)
        expected = nn.Conv2d.forward(layer, x)
        torch.testing.assert_close(layer(x), expected)
        wanted = (x, *layer.parameters())
        grads = torch.autograd.grad(layer(x).square().sum(), wanted)
        others = torch.autograd.grad(expected.square().sum(), wanted)
        for output, other in zip(grads, others, strict=True):
            torch.testing.assert_close(output, other, rtol=1e-4, atol=1e-4)


def test_inputs_are_brought_to_mean_0_and_variance_1() -> None:
    seen: list[Tensor] = []
    net = models.hed_low().eval()
    net.stages[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    net(net.mean.expand(1, 3, 16, 16))
    net((net.mean + net.std).expand(1, 3, 16, 16))
    assert seen[0].abs().max() == 0
    torch.testing.assert_close(seen[1], torch.ones(1, 3, 16, 16))


def test_a_new_network_is_sure_of_nothing_and_keeps_its_scale() -> None:
    for build in BUILDS:
        net, x = build().train(), torch.rand(4, 3, 33, 48)
        assert 0.01 < net(x).mean() < 0.99
        for maps in net.forward_features(x):
            assert 0.1 < maps.square().mean().sqrt() < 4


# Rotations ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", list(itertools.product(SIDES, SIDES)), ids=str)
def test_rotations_are_exact_at_every_size(net: EdgeNetwork, size: tuple[int, int]) -> None:
    x = images(*size)
    expected = torch.rot90(net.logits(x), 1, (2, 3))
    output = net.logits(torch.rot90(x, 1, (2, 3)))
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


@settings(max_examples=15)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 3))
def test_rotations_by_90_degrees_are_exact(height: int, width: int, quarters: int) -> None:
    net, x = frozen(), images(height, width)
    expected = torch.rot90(net(x), quarters, (2, 3))
    output = net(torch.rot90(x, quarters, (2, 3)))
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_phases_of_order_1_advance_with_the_image(net: HDSN, quarters: int) -> None:
    x = images(33, 48)
    for streams, before, after in zip(
        net.streams,
        net.forward_features(x),
        net.forward_features(torch.rot90(x, quarters, (2, 3))),
        strict=True,
    ):
        expected = streams.rotate(torch.rot90(before, quarters, (2, 3)), quarters * torch.pi / 2)
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("size", [(33, 48), (32, 32), (21, 50)], ids=str)
def test_mirrored_photographs_have_mirrored_edges_and_conjugate_maps(size: tuple[int, int]) -> None:
    net, x = models.hdsn(mirror=True).double().eval(), images(*size)
    flipped = x.flip(3)
    torch.testing.assert_close(net.logits(flipped), net.logits(x).flip(3), rtol=0, atol=1e-10)
    for streams, before, after in zip(
        net.streams, net.forward_features(x), net.forward_features(flipped), strict=True
    ):
        expected = F.reflect(before, streams, torch.pi / 2)
        torch.testing.assert_close(after, expected, rtol=0, atol=1e-10)


def test_the_check_sees_an_hed() -> None:
    net, x = alive(models.hed_low), images(33, 33)
    rotated = torch.rot90(net.logits(torch.rot90(x, 1, (2, 3))), -1, (2, 3))
    assert relative(rotated, net.logits(x)) > 0.05


class Sides(nn.Module):
    """The first three side outputs about their mean, of a smooth image about grey."""

    def __init__(self, net: EdgeNetwork) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        logits = self.net.logits(0.5 + 0.1 * x)[:, :3]
        return logits - logits.mean((2, 3), keepdim=True)


def test_other_angles_are_followed_within_a_quarter_and_a_third_better_than_by_an_hed() -> None:
    """Untrained, on the first three sides: the maps of the others are ten pixels wide."""
    errors = {}
    for build in (models.hdsn, models.hed_low):
        reports = [
            testing.equivariance_error(
                Sides(alive(build, seed)), [30, 45], in_streams="3x0r",
                out_streams="1x0r + 1x0r + 1x0r", size=129, wavelength=32,
            ).errors
            for seed in range(3)
        ]  # fmt: skip
        errors[build] = torch.tensor(reports).mean(dim=(0, 2))
    assert errors[models.hdsn].max() < 0.25
    assert (errors[models.hdsn] < 2 / 3 * errors[models.hed_low]).all()


# What users put around them -----------------------------------------------------------------------


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 1, 32, 32), (1, 4, 32, 32), (2, 3, 5, 32, 32)])
def test_inputs_that_are_no_images_are_refused(
    build: Callable[[], EdgeNetwork], shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match=r"expects images \(batch, 3, height, width\)") as caught:
        build()(torch.rand(shape))
    assert type(build()).__name__ in str(caught.value)
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("build", BUILDS)
def test_networks_of_half_precision_find_nearly_the_same(
    build: Callable[[], EdgeNetwork], dtype: torch.dtype
) -> None:
    net, x = build().eval(), torch.rand(1, 3, 24, 24)
    expected = net(x)
    assert relative(net.to(dtype)(x.to(dtype)), expected) < 5 * torch.finfo(dtype).eps


@pytest.mark.parametrize("build", BUILDS)
def test_a_batch_may_be_empty(build: Callable[[], EdgeNetwork]) -> None:
    assert build()(torch.rand(0, 3, 24, 24)).shape == (0, 1, 24, 24)


def test_a_network_of_one_stage_halves_nothing() -> None:
    net, x = HDSN(widths=(2,)).eval(), torch.rand(1, 3, 9, 10)
    assert net(x).shape == (1, 1, 9, 10)
    assert torch.equal(F.pad_to_halve(x, 0), x)


@pytest.mark.parametrize("build", BUILDS)
def test_whole_numbers_are_refused(build: Callable[[], EdgeNetwork]) -> None:
    with pytest.raises(TypeError, match=r"expects a floating-point input, got torch.uint8"):
        build()(torch.zeros(1, 3, 32, 32, dtype=torch.uint8))


@pytest.mark.parametrize("assign", [False, True])
@pytest.mark.parametrize("build", BUILDS)
def test_a_network_of_the_meta_device_is_loaded(
    build: Callable[[], EdgeNetwork], assign: bool
) -> None:
    source = build().eval()
    with torch.device("meta"):
        net = build().eval()
    if not assign:
        net = net.to_empty(device="cpu")
    net.load_state_dict(source.state_dict(), assign=assign)
    x = torch.rand(1, 3, 16, 16)
    assert torch.equal(net(x), source(x))


@pytest.mark.parametrize("build", BUILDS)
def test_every_parameter_is_learned(build: Callable[[], EdgeNetwork]) -> None:
    net = build()
    for size in ((33, 48), (32, 31)):
        logits = net.logits(torch.rand(2, 3, *size))
        nn.functional.binary_cross_entropy_with_logits(logits, torch.rand_like(logits)).backward()
        for name, parameter in net.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.isfinite().all(), name
            # A bias before a norm is taken away by it, but for rounding.
            assert parameter.grad.abs().max() > 0, name
        net.zero_grad()


def test_the_gradient_at_a_black_picture_is_finite() -> None:
    net, x = models.hdsn(), torch.zeros(1, 3, 17, 16, requires_grad=True)
    net.logits(x * 0 + net.mean).sum().backward()  # every map is zero
    assert x.grad is not None
    assert all(p.grad.isfinite().all() for p in net.parameters())


@pytest.mark.parametrize("build", [models.hdsn, models.hed_low])
def test_copies_give_the_same(build: Callable[[], EdgeNetwork]) -> None:
    net, x = alive(build).float(), torch.rand(2, 3, 31, 48)
    expected = net(x)
    other = build().eval()
    assert relative(other.logits(x), net.logits(x)) > 0.1
    other.load_state_dict(net.state_dict())
    for twin in (pickle.loads(pickle.dumps(net)), copy.deepcopy(net), other, hnets.freeze(net)):
        torch.testing.assert_close(twin(x), expected, rtol=1e-5, atol=1e-6)
    last = copy.deepcopy(net).to(memory_format=torch.channels_last)
    torch.testing.assert_close(last(x), expected, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(net(x).float(), expected, rtol=0.1, atol=0.05)


def test_state_dicts_hold_learned_values_and_statistics_only(net: EdgeNetwork) -> None:
    keys = net.state_dict().keys()
    learned = {name for name, _ in net.named_parameters()}
    others = keys - learned
    assert len(others) == 10
    assert all(key.endswith(("running_mean", "running_var")) for key in others)
    assert {"sides.0.weight", "sides.4.bias", "fusion.weight", "stages.0.1.bias"} <= keys
    assert hnets.freeze(net).state_dict().keys() == keys


def test_a_frozen_network_gives_the_same_logits_and_leaves_its_input(net: EdgeNetwork) -> None:
    frozen = hnets.freeze(net)
    for size in ((33, 47), (64, 48), (17, 20)):
        x = images(*size, batch=2)
        before = x.clone()
        for grad in (True, False):
            with torch.set_grad_enabled(grad):
                torch.testing.assert_close(frozen.logits(x), net.logits(x), rtol=0, atol=1e-11)
        assert torch.equal(x, before)


@pytest.mark.parametrize("size", [(40, 24), (33, 47)])
def test_batches_are_computed_one_by_one(net: EdgeNetwork, size: tuple[int, int]) -> None:
    x = images(*size, batch=3)
    each = torch.cat([net.logits(one[None]) for one in x])
    torch.testing.assert_close(net.logits(x), each, rtol=0, atol=1e-11)


def test_outputs_may_be_computed_for_the_middle(net: EdgeNetwork) -> None:
    maps = net.forward_features(images(48, 33))
    whole = net.forward_head(maps, 48, 33)
    torch.testing.assert_close(net.forward_head(maps, 40, 21), F.crop(whole, 40, 21))
