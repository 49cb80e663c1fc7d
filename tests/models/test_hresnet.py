"""Residual backbones: their cost, their symmetry at every size, and timm's habits."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hnets
from hnets import functional as F
from hnets.errors import InputError
from networks import lively, relative

BLOCKS = {"hresnet10": (1, 1, 1, 1), "hresnet18": (2, 2, 2, 2), "hresnet34": (3, 4, 6, 3)}
NAMES = [*BLOCKS, "hresnet18_light", "hresnet18_wide"]
SMALL: dict[str, Any] = {"fields": [2, 2, 3, 4], "num_classes": 5}


def small(name: str = "hresnet10", size: int = 64, **options: Any) -> nn.Module:
    """A narrow network in float64, with values as training leaves them."""
    net = hnets.create_model(name, **{**SMALL, **options}).double()
    return lively(net, torch.rand(4, net.in_chans, size, size).double()).eval()


def plain_resnet(blocks: tuple[int, ...], size: int) -> int:
    """Multiplications of the ResNet of these blocks, of two 3×3 convolutions each."""
    total, before, side = 3 * 49 * 64 * (size // 2) ** 2, 64, size // 4
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        side = side // 2 if stage else side
        first = 9 * before * width + (before * width if stage else 0)
        total += (first + 9 * width * width * (2 * count - 1)) * side**2
        before = width
    return total + 512 * 1000


def test_the_count_of_a_plain_resnet_is_the_known_one() -> None:
    assert [round(plain_resnet(BLOCKS[name], 224) / 1e9, 2) for name in BLOCKS] == [
        0.89,
        1.81,
        3.66,
    ]


@pytest.mark.parametrize("name", BLOCKS)
def test_multiplications_are_at_most_twice_those_of_the_resnet(name: str) -> None:
    net = hnets.create_model(name)
    cost = hnets.cost(net, (3, 96, 96))
    assert cost.multiplications <= 2 * plain_resnet(BLOCKS[name], 96)
    head = net.fc.weight.numel()  # all else is proportional to the number of pixels
    at_224 = (cost.multiplications - head) * (224 / 96) ** 2 + head
    assert at_224 <= 2 * plain_resnet(BLOCKS[name], 224)


def test_parameters_are_far_fewer_than_those_of_the_resnets() -> None:
    counts = {
        (name, mirror): sum(
            p.numel() for p in hnets.create_model(name, num_classes=0, mirror=mirror).parameters()
        )
        for name in NAMES
        for mirror in (True, False)
    }
    assert counts == {
        ("hresnet10", True): 297_884,
        ("hresnet10", False): 556_452,
        ("hresnet18", True): 665_868,
        ("hresnet18", False): 1_247_748,
        ("hresnet34", True): 1_279_804,
        ("hresnet34", False): 2_400_948,
        ("hresnet18_light", True): 285_080,
        ("hresnet18_light", False): 477_784,
        ("hresnet18_wide", True): 1_924_626,
        ("hresnet18_wide", False): 3_606_942,
    }


def motions(x: Tensor) -> list[Tensor]:
    return [x.rot90(1, (2, 3)), x.rot90(2, (2, 3)), x.rot90(3, (2, 3))]


@pytest.mark.parametrize(
    "size", [(64, 64), (33, 33), (50, 50), (45, 45), (64, 40), (33, 64), (7, 7)]
)
def test_logits_do_not_change_with_rotations_by_90_degrees_at_any_size(
    size: tuple[int, int],
) -> None:
    net, x = small(), torch.rand(3, 3, *size).double()
    logits = net(x)
    assert logits.std(0).max() > 1e-5, "the logits do not depend on the image"
    for moved in [*motions(x), x.flip(2), x.mT]:
        assert relative(net(moved), logits) < 1e-9


@pytest.mark.parametrize("name", ["hresnet10", "hresnet18_light"])
@pytest.mark.parametrize(
    "options", [{"orders": 1}, {"reduction": 8, "squeeze": True, "global_pool": "max"}]
)
@pytest.mark.parametrize("mirror", [True, False])
def test_mirrors_are_an_option(name: str, options: dict[str, Any], mirror: bool) -> None:
    net, x = small(name, 24, mirror=mirror, **options), torch.rand(3, 3, 24, 24).double()
    logits = net(x)
    assert max(relative(net(moved), logits) for moved in motions(x)) < 1e-9
    for flipped in (x.flip(2), x.mT):
        off = relative(net(flipped), logits)
        assert off < 1e-9 if mirror else off > 1e-4


@pytest.mark.parametrize("size", [64, 33])
def test_feature_maps_rotate_with_the_image(size: int) -> None:
    net = small().features().eval()
    x = torch.rand(1, 3, size, size).double()
    for maps, moved, streams in zip(net(x), net(x.rot90(1, (2, 3))), net.streams, strict=True):
        expected = streams.rotate(maps.rot90(1, (2, 3)), math.pi / 2)
        assert relative(moved, expected) < 1e-9


@pytest.mark.parametrize(
    ("reduction", "reductions"),
    [(32, [2, 4, 8, 16, 32]), (16, [1, 2, 4, 8, 16]), (8, [1, 1, 2, 4, 8])],
)
def test_features_are_as_their_info_says(reduction: int, reductions: list[int]) -> None:
    net = hnets.create_model("hresnet10", features_only=True, reduction=reduction, **SMALL)
    info = net.feature_info
    assert info.channels() == [40, 10, 10, 15, 20]
    assert info.reduction() == reductions
    assert info.module_name(-1) == "stages.4"
    assert [each["num_chs"] for each in info.get_dicts(["num_chs"])] == info.channels()
    maps = net(torch.rand(2, 3, 64, 32))
    shapes = [(2, c, 64 // r, 32 // r) for c, r in zip(info.channels(), reductions, strict=True)]
    assert [tuple(each.shape) for each in maps] == shapes
    assert [streams.channels for streams in net.streams] == info.channels()


@pytest.mark.parametrize(
    ("out_indices", "chosen"), [((1, 3), (1, 3)), (2, (3, 4)), ([0, -1], (0, 4)), ((0,), (0,))]
)
def test_some_maps_may_be_chosen(out_indices: Any, chosen: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    every = hnets.create_model("hresnet10", features_only=True, **SMALL).eval()
    torch.manual_seed(0)
    some = hnets.create_model("hresnet10", features_only=True, out_indices=out_indices, **SMALL)
    assert some.feature_info.out_indices == chosen
    assert len(some.stages) == chosen[-1] + 1, "stages that nobody reads are left out"
    x = torch.rand(1, 3, 32, 32)
    for maps, expected in zip(some.eval()(x), [every(x)[i] for i in chosen], strict=True):
        assert torch.equal(maps, expected)


def test_features_of_sizes_that_would_be_shifted_are_refused() -> None:
    net = hnets.create_model("hresnet10", features_only=True, **SMALL)
    x = torch.rand(2, 3, 40, 64)
    with pytest.raises(ValueError, match=r"multiples of 32, or one more.*pad_to_halve\(x, 5\)"):
        net(x)
    assert net(F.pad_to_halve(x, net.halvings))[-1].shape[2:] == (2, 2)
    first = hnets.create_model("hresnet10", features_only=True, reduction=8, out_indices=(0,))
    assert first(torch.rand(1, 3, 9, 7))[0].shape == (1, 40, 9, 7)


def test_features_and_head_make_the_logits() -> None:
    net, x = small(), torch.rand(2, 3, 64, 64).double()
    maps = net.forward_features(x)
    assert maps.shape == (2, 20, 2, 2)
    torch.testing.assert_close(net.forward_head(maps), net(x))
    features = net.forward_head(maps, pre_logits=True)
    assert features.shape == (2, net.num_features) == (2, 12)
    torch.testing.assert_close(net.get_classifier()(features), net(x))
    net.reset_classifier(0)
    torch.testing.assert_close(net(x), features)
    net.reset_classifier(7, "max")
    assert net(x).shape == (2, 7)
    assert net.num_classes == 7


def test_a_new_classifier_is_saved_and_loaded(tmp_path: Path) -> None:
    net, x = hnets.create_model("hresnet10", **SMALL), torch.rand(4, 3, 32, 32)
    net.reset_classifier(3, global_pool="max")
    lively(net, x).eval()
    loaded = hnets.load(hnets.save(net, tmp_path / "x.safetensors"))
    assert loaded.config.options["num_classes"] == 3
    assert torch.equal(loaded(x), net(x))


def test_features_are_saved_and_loaded(tmp_path: Path) -> None:
    net = hnets.create_model("hresnet10", features_only=True, out_indices=(1, 2), **SMALL).eval()
    loaded = hnets.load(hnets.save(net, tmp_path / "x.safetensors"))
    assert loaded.config == net.config
    x = torch.rand(1, 3, 32, 32)
    assert all(map(torch.equal, loaded(x), net(x)))


@pytest.mark.parametrize("name", ["hresnet10", "hresnet18_light"])
def test_frozen_networks_give_the_same_logits(name: str) -> None:
    net, x = small(name).float(), torch.rand(2, 3, 50, 64)
    torch.testing.assert_close(hnets.freeze(net)(x), net(x), rtol=1e-4, atol=1e-5)


def test_networks_are_exported_for_all_sizes(tmp_path: Path) -> None:
    # One stage in place of four: tracing sizes that are halved often takes long.
    net = hnets.models.HResNet((1,), (2,), num_classes=3, orders=1, reduction=16)
    net, shape = lively(net, torch.rand(2, 3, 16, 16)).eval(), (1, 3, 24, 32)
    file = hnets.export.onnx(net, tmp_path / "net.onnx", shape)
    assert hnets.export.compare(net, file, shape) < 1e-4


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    net = hnets.create_model("hresnet10", **SMALL, drop_rate=0.1)
    x, labels = torch.rand(10, 3, 32, 32), torch.arange(10) % 5
    optimiser = torch.optim.Adam(net.parameters(), 1e-2)
    losses = []
    for _ in range(12):
        loss = nn.functional.cross_entropy(net(x), labels)
        optimiser.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in net.parameters())
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fields": [8, 8]}, r"fields are 4 whole numbers, got \[8, 8\]"),
        ({"fields": [8, 8, 8, 0]}, "fields is a whole number from 1, got 0"),
        ({"reduction": 4}, "reduction is 8, 16 or 32, got 4"),
        ({"num_classes": -1}, "num_classes is a whole number from 0, got -1"),
        ({"global_pool": "mean"}, 'global_pool is "avg" or "max", got \'mean\''),
        ({"drop_rate": 1}, "drop_rate is a probability"),
        ({"light": "yes"}, "light is True or False"),
        ({"features_only": True, "light": 1}, "light is True or False"),
        ({"out_indices": (1,)}, "out_indices needs features_only=True"),
        (
            {"features_only": True, "out_indices": (5,)},
            "out_indices are whole numbers from -5 to 4",
        ),
        ({"features_only": True, "out_indices": (2, 1)}, "in order, got"),
        ({"features_only": True, "out_indices": "x"}, "out_indices are whole numbers"),
        ({"features_only": True, "out_indices": 6}, "out_indices are whole numbers"),
        ({"features_only": True, "out_indices": -1}, "one alone, from 1 to 5, is how many of the"),
        ({"features_only": "yes"}, "features_only is True or False"),
        ({"pretrained": "yes"}, "pretrained is True or False"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        hnets.create_model("hresnet10", **options)


def test_networks_that_are_no_backbones_say_so() -> None:
    with pytest.raises(InputError, match="hnet_mnist has no features_only; these have: hresnet10"):
        hnets.create_model("hnet_mnist", features_only=True)
