"""The paper's networks for digits: their numbers, and that rotations leave the outputs alone."""

import copy
import math
import pickle
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, cross_entropy

import hnets
from hnets import models, testing
from hnets.errors import InputError
from hnets.models._p4cnn import P4BatchNorm2d, P4Conv2d, p4_kernel
from networks import digits, lively, relative

# The supplement has tables of the first two; Cohen and Welling give about 25k for the third.
LAYERS = {
    "hnet_mnist": (33_347, [120, 864, 1696, 3392, 7350, 16065, 3860]),
    "z2cnn": (21_570, [200, 3640, 3620, 3640, 3620, 3640, 3210]),
    "p4cnn": (24_590, [100, 3620, 3610, 3620, 3610, 3620, 6410]),
    "p4cnn_pooling": (21_570, [200, 3640, 3620, 3640, 3620, 3640, 3210]),
}
BASELINES = [models.z2cnn, models.p4cnn, models.p4cnn_pooling]
ROTATING = [models.p4cnn, models.p4cnn_pooling]


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_layer_by_layer(name: str) -> None:
    net, (total, layers) = hnets.create_model(name), LAYERS[name]
    assert isinstance(net.layers, nn.Sequential)
    assert [sum(p.numel() for p in layer.parameters()) for layer in net.layers] == layers
    assert sum(p.numel() for p in net.parameters()) == sum(layers) == total


def test_gaussian_rings_are_fewer_and_in_every_layer() -> None:
    net = models.hnet_mnist(rings="gaussian")
    assert sum(p.numel() for p in net.parameters()) == 17_801
    convolutions = [part for part in net.modules() if isinstance(part, hnets.nn.HConv2d)]
    assert [conv.filters.spec.rings for conv in convolutions] == ["gaussian"] * 7
    testing.assert_equivariant(net, size=28)


MIRRORED = {
    "hnet_mnist": 101_189,
    "hdsn": 279_043,
    "hnet_fourier_tiny": 72_042,
    "hnet_fourier_small": 127_338,
    "hnet_fourier_base": 805_186,
}


@pytest.mark.parametrize("name", MIRRORED)
def test_a_mirror_is_an_option_of_every_convolution(name: str) -> None:
    net = hnets.create_model(name, mirror=True)
    assert sum(p.numel() for p in net.parameters()) == MIRRORED[name]
    convolutions = [part for part in net.modules() if isinstance(part, hnets.nn.HConv2d)]
    assert all(conv.mirror for conv in convolutions)


def test_saved_weights_remember_the_mirror(tmp_path: Path) -> None:
    net, image = models.hnet_mnist(mirror=True).eval(), torch.rand(1, 1, 12, 12)
    loaded = hnets.load(hnets.save(net, tmp_path / "mirror.safetensors"))
    assert loaded.config.options["mirror"] is True
    with torch.no_grad():
        assert torch.equal(loaded(image), net(image))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("hnet_mnist", {}),
        ("hnet_mnist", {"rings": "gaussian"}),
        *(("hnet_fourier_tiny", {"nonlinearity": n}) for n in ("poly", "gated", "magnitude")),
        ("hnet_fourier_tiny", {"centre_of_mass": True}),
        ("hnet_fourier_tiny", {"share": True}),
    ],
)
def test_logits_do_not_change_in_a_mirror(name: str, options: dict[str, object]) -> None:
    x = torch.rand(2, 1, 12, 12)
    for mirror in (True, False):
        net = lively(hnets.create_model(name, mirror=mirror, **options), x).double().eval()
        with torch.no_grad():
            logits = net(x.double())
            for flipped in (x.double().flip(2), x.double().mT):
                off = (net(flipped) - logits).abs().max() / logits.abs().max()
                assert off < 1e-10 if mirror else off > 1e-7


def test_a_mirror_network_refuses_phases() -> None:
    with pytest.raises(InputError, match='with mirror=True phase is "none"'):
        hnets.create_model("hnet_fourier_small", mirror=True, phase="free")


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_logits_do_not_change_with_rotations_by_90_degrees(quarters: int) -> None:
    net = digits().double().eval()
    x = torch.randn(3, 1, 28, 28, dtype=torch.float64)
    rotated = net(torch.rot90(x, quarters, (2, 3)))
    assert (rotated - net(x)).abs().max() < 1e-10


def test_logits_follow_any_angle_within_a_fifth() -> None:
    testing.assert_equivariant(models.hnet_mnist(), size=28)


@pytest.mark.parametrize("size", [(28, 28), (32, 20), (4, 4)])
def test_hnet_mnist_takes_any_size_of_image(size: tuple[int, int]) -> None:
    assert models.hnet_mnist()(torch.randn(2, 1, *size)).shape == (2, 10)


@pytest.mark.parametrize("name", LAYERS)
def test_channels_and_classes_are_options(name: str) -> None:
    net = hnets.create_model(name, in_chans=3, num_classes=4)
    assert net(torch.randn(2, 3, 28, 28)).shape == (2, 4)


@pytest.mark.parametrize("name", [*LAYERS, "hnet_fourier_tiny", "resnet18", "hresnet10"])
def test_classifiers_have_the_manners_of_timm(name: str, tmp_path: Path) -> None:
    net, x = hnets.create_model(name, in_chans=1, num_classes=3).eval(), torch.rand(2, 1, 32, 32)
    maps = net.forward_features(x)
    features = net.forward_head(maps, pre_logits=True)
    torch.testing.assert_close(net.forward_head(maps), net(x))
    assert features.shape == (2, net.num_features)
    assert net.feature_info[-1]["num_chs"] == maps.shape[1]
    modules = dict(net.named_modules())
    assert all(each["module"] in modules for each in net.feature_info)
    net.reset_classifier(5)
    assert net(x).shape == (2, 5)
    loaded = hnets.load(hnets.save(net, tmp_path / "reset.safetensors"))
    assert torch.equal(loaded(x), net(x))
    net.reset_classifier(0)
    assert not list(net.get_classifier().parameters())
    torch.testing.assert_close(net(x), features)


@pytest.mark.parametrize("name", ["hnet_mnist", "p4cnn", "p4cnn_pooling"])
def test_features_do_not_change_with_rotations_by_90_degrees(name: str) -> None:
    net, x = hnets.create_model(name, num_classes=0).eval(), torch.rand(2, 1, 28, 28)
    torch.testing.assert_close(net(x.rot90(1, (2, 3))), net(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_training_lowers_the_loss(name: str) -> None:
    net = hnets.create_model(name)
    x, labels = torch.randn(8, 1, 28, 28), torch.arange(8)
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(12):
        loss = cross_entropy(net(x), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("hnet_minst", "did you mean 'hnet_mnist'?"),
        ("P4-CNN", "did you mean 'p4cnn'?"),
        ("xyz", "choose from hdsn, hed, hed_low, hedge_tiny, hedge_small"),
    ],
)
def test_unknown_names_get_advice(name: str, advice: str) -> None:
    with pytest.raises(InputError, match=f"no model is called '{name}'") as caught:
        hnets.create_model(name)
    assert advice in str(caught.value)
    with pytest.raises(InputError, match="no model is called None; choose from hdsn"):
        hnets.create_model(None)
    with pytest.raises(InputError, match=r"filter is a pattern such as .*, got True"):
        hnets.list_models(True)


def test_unknown_options_get_advice() -> None:
    with pytest.raises(InputError, match="no option 'centre_of_mas'; did you mean 'centre_of_m"):
        hnets.create_model("hnet_fourier_tiny", centre_of_mas=True)
    with pytest.raises(InputError, match="z2cnn has no option 'rings'; choose from in_chans, num_"):
        hnets.create_model("z2cnn", rings="exact")
    with pytest.raises(InputError, match="hdsn has no option 'num_classes'; choose from mirror"):
        hnets.create_model("hdsn", num_classes=3)
    with pytest.raises(InputError, match="hed has no option 'num_classes'; there are none"):
        hnets.create_model("hed", num_classes=3)


@pytest.mark.parametrize("name", [*LAYERS, "hnet_fourier_tiny"])
@pytest.mark.parametrize("option", ["in_chans", "num_classes"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "3", True])
def test_what_counts_is_a_whole_number(name: str, option: str, value: object) -> None:
    least = 1
    if option == "num_classes":  # 0 gives features
        least, value = 0, value or -2
    with pytest.raises(
        ValueError, match=f"^{option} is a whole number from {least}, got {value!r}"
    ):
        hnets.create_model(name, **{option: value})


@pytest.mark.parametrize("name", ["z2cnn", "p4cnn", "p4cnn_pooling", "hnet_fourier_tiny"])
@pytest.mark.parametrize("value", [-0.1, 1, math.nan, "0.3", True])
def test_dropout_is_a_probability(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^dropout is a probability .*, got {value!r}$"):
        hnets.create_model(name, dropout=value)


@pytest.mark.parametrize("option", ["share", "mirror", "centre_of_mass", "pretrained"])
@pytest.mark.parametrize("value", ["False", "true", 0])
def test_a_text_does_not_switch_an_option_on(option: str, value: object) -> None:
    message = rf"^{option} is True or False \(in a recipe, true or false\), got {value!r}$"
    with pytest.raises(ValueError, match=message):
        hnets.create_model("hnet_fourier_tiny", **{option: value})


# What the paper compares with ---------------------------------------------------------------------


def alive(build: Callable[..., nn.Module]) -> nn.Module:
    """A network with random statistics and biases, in float64, for inference."""
    return lively(build().double(), torch.randn(4, 1, 28, 28, dtype=torch.float64)).eval()


@pytest.mark.parametrize("build", BASELINES)
@pytest.mark.parametrize("size", [(28, 28), (29, 33), (40, 28)])
def test_larger_images_are_averaged(build: Callable[..., nn.Module], size: tuple[int, int]) -> None:
    net, x = alive(build), torch.randn(2, 1, *size, dtype=torch.float64)
    assert net(x).shape == (2, 10)
    assert isinstance(net.layers, nn.Sequential)
    *body, (last, _) = net.layers
    torch.testing.assert_close(net(x), last(nn.Sequential(*body)(x)).mean((2, 3)))


@pytest.mark.parametrize("build", BASELINES)
@pytest.mark.parametrize("shape", [(2, 1, 27, 28), (2, 1, 28, 12), (2, 3, 28, 28), (1, 28, 28)])
def test_images_that_do_not_fit_are_refused(
    build: Callable[..., nn.Module], shape: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="expects") as caught:
        build()(torch.randn(shape))
    assert type(build()).__name__ in str(caught.value)
    assert str(shape) in str(caught.value)


@pytest.mark.parametrize("build", BASELINES)
def test_dropout_is_an_option_without_parameters(build: Callable[..., nn.Module]) -> None:
    plain, dropping = build(), build(dropout=0.3)
    assert sum(isinstance(part, nn.Dropout) for part in dropping.modules()) == 5
    dropping.load_state_dict(plain.state_dict())
    x = torch.randn(2, 1, 28, 28)
    torch.testing.assert_close(dropping.eval()(x), plain.eval()(x))


@pytest.mark.parametrize("build", BASELINES)
def test_activations_keep_their_scale_without_norms(build: Callable[..., nn.Module]) -> None:
    net, x = build().eval(), torch.randn(32, 1, 28, 28)  # an unused norm changes nothing
    assert isinstance(net.layers, nn.Sequential)
    for layer in net.layers[:-1]:
        x = layer(x)
        assert 0.4 < x.square().mean().sqrt() < 5
    assert 0.3 < net.layers[-1](x).std() < 8


def rotate(y: Tensor, quarters: int) -> Tensor:
    """What rotations by 90 degrees of the input do to a feature map with orientations."""
    rotated = torch.rot90(y, quarters, (2, 3)).unflatten(1, (-1, 4))
    return rotated.roll(quarters, 2).flatten(1, 2)


@pytest.mark.parametrize("quarters", [1, 2, 3])
@pytest.mark.parametrize("size", [3, 4])
def test_p4_layers_turn_and_move_their_orientations_on(size: int, quarters: int) -> None:
    lift = P4Conv2d(2, 3, size, lift=True).double()
    conv = P4Conv2d(3, 5, size).double()
    norm = lively(P4BatchNorm2d(5).double(), torch.randn(2, 20, 4, 4).double()).eval()
    pool = P4Conv2d(5, 2, size, pool=True).double()
    for layer in (lift, conv, pool):
        nn.init.normal_(layer.bias)
    x = torch.randn(2, 2, 13, 13, dtype=torch.float64)
    before, after = x, torch.rot90(x, quarters, (2, 3))
    for layer in (lift, conv, norm):
        before, after = layer(before), layer(after)
        torch.testing.assert_close(after, rotate(before, quarters), rtol=0, atol=1e-12)
    last = torch.rot90(pool(before), quarters, (2, 3))
    torch.testing.assert_close(pool(after), last, rtol=0, atol=1e-12)


@pytest.mark.parametrize("quarters", [1, 2, 3])
@pytest.mark.parametrize("build", ROTATING)
def test_p4_logits_do_not_change_with_rotations_by_90_degrees(
    build: Callable[..., nn.Module], quarters: int
) -> None:
    net, x = alive(build), torch.randn(3, 1, 28, 28, dtype=torch.float64)
    before, after = net(x), net(torch.rot90(x, quarters, (2, 3)))
    assert relative(after, before) < 1e-12
    assert before.std(0).min() > 1e-3, "the logits do not depend on the image"


def not_rolled(weight: Tensor) -> Tensor:
    return torch.stack([weight.rot90(r, (3, 4)) for r in range(4)], 1).flatten(2, 3).flatten(0, 1)


def rolled_back(weight: Tensor) -> Tensor:
    rotated = [weight.roll(-r, 2).rot90(r, (3, 4)) for r in range(4)]
    return torch.stack(rotated, 1).flatten(2, 3).flatten(0, 1)


def not_rotated(weight: Tensor) -> Tensor:
    return torch.stack([weight.roll(r, 2) for r in range(4)], 1).flatten(2, 3).flatten(0, 1)


@pytest.mark.parametrize("wrong", [not_rolled, rolled_back, not_rotated])
def test_the_check_sees_a_wrong_filter_bank(
    wrong: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["hnets.models._p4cnn"], "p4_kernel", wrong)
    net, x = alive(models.p4cnn), torch.randn(3, 1, 28, 28, dtype=torch.float64)
    assert relative(net(torch.rot90(x, 1, (2, 3))), net(x)) > 1e-3


def test_p4_kernel_is_the_definition_of_a_group_convolution() -> None:
    weight = torch.randn(3, 2, 4, 3, 3, dtype=torch.float64)
    x = torch.randn(1, 2, 4, 7, 7, dtype=torch.float64)
    y = conv2d(x.flatten(1, 2), p4_kernel(weight)).unflatten(1, (3, 4))
    for out in range(3):
        for r in range(4):
            expected = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
            for into in range(2):
                for s in range(4):
                    rotated = torch.rot90(weight[out, into, (s - r) % 4], r, (0, 1))
                    expected += conv2d(x[:, into, s][:, None], rotated[None, None])
            torch.testing.assert_close(y[:, out, r], expected[:, 0])


@pytest.mark.parametrize(
    ("name", "into", "out"), [("z2cnn", 20, 20), ("p4cnn", 40, 40), ("p4cnn_pooling", 20, 80)]
)
def test_cost_counts_every_orientation(name: str, into: int, out: int) -> None:
    report = hnets.cost(hnets.create_model(name), (1, 28, 28))
    assert report.parameters == LAYERS[name][0]
    first, second = report.layers[:2]
    assert first.multiplications == 9 * out * 26 * 26
    assert second.multiplications == 9 * into * out * 24 * 24


@pytest.mark.parametrize("build", BASELINES)
def test_baselines_work_under_what_torch_users_put_around_them(
    build: Callable[..., nn.Module],
) -> None:
    net, x = alive(build).float(), torch.randn(2, 1, 32, 28)
    expected = net(x)
    for other in (
        pickle.loads(pickle.dumps(net)),
        copy.deepcopy(net).to(memory_format=torch.channels_last),
        hnets.freeze(net),
        nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(net)),
    ):
        torch.testing.assert_close(other(x), expected, rtol=1e-4, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert relative(net(x).float(), expected) < 0.05


def test_p4_networks_compile_and_export() -> None:
    net, x = alive(models.p4cnn).float(), torch.randn(2, 1, 32, 28)
    compiled = torch.compile(copy.deepcopy(net), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-4, atol=1e-5)
    program = hnets.export.program(net, (2, 1, 32, 30)).module()
    for shape in [(3, 1, 30, 30), (1, 1, 36, 41)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), net(x), rtol=1e-4, atol=1e-5)
