"""Plain CNNs that become harmonic ones: what they give, what they cost, what is refused."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import hnets
from hnets.errors import InputError
from hnets.export import program
from plain_networks import (
    BasicBlock,
    Bottleneck,
    Dense,
    ResNet,
    TimmStyle,
    fully_convolutional,
    vgg,
)

NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, int, int]]] = {
    "basic blocks": (lambda: ResNet(BasicBlock, [1, 2, 1], 32), (3, 32, 32)),
    "bottlenecks": (lambda: ResNet(Bottleneck, [1, 1], 32), (3, 32, 32)),
    "vgg": (vgg, (3, 32, 32)),
    "as in timm": (TimmStyle, (3, 32, 32)),
    "dense": (Dense, (1, 32, 32)),
    "a map as output": (fully_convolutional, (3, 16, 16)),
}


@pytest.fixture(params=NETWORKS)
def plain(request: pytest.FixtureRequest) -> tuple[nn.Module, tuple[int, int, int]]:
    torch.manual_seed(0)
    make, shape = NETWORKS[request.param]
    return make(), shape


def back(y: Tensor, quarters: int) -> Tensor:
    """An output of a rotated image, rotated back if it is a map."""
    return torch.rot90(y, -quarters, (2, 3)) if y.dim() == 4 else y


@pytest.mark.parametrize("mirror", [False, True])
def test_rotated_images_have_the_same_output_exactly(
    plain: tuple[nn.Module, tuple[int, int, int]], mirror: bool
) -> None:
    model, shape = plain
    network = hnets.convert(model, mirror=mirror, input_shape=shape).double()
    assert network.report.exact_sides[0] == shape[1]
    x = torch.randn(4, *shape, dtype=torch.double)
    network(x)  # statistics other than those of the start
    network.eval()
    with torch.no_grad():
        expected = network(x)
        assert expected.shape == model.double().eval()(x).shape
        assert expected.std() > 0
        for quarters in (1, 2, 3):
            rotated = network(torch.rot90(x, quarters, (2, 3)))
            torch.testing.assert_close(back(rotated, quarters), expected, rtol=0, atol=1e-11)
        if mirror:
            flipped = network(x.flip(3))
            flipped = flipped.flip(3) if flipped.dim() == 4 else flipped
            torch.testing.assert_close(flipped, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("block", [BasicBlock, Bottleneck])
@pytest.mark.parametrize("options", [{}, {"orders": 1}, {"orders": 3}, {"mirror": True}])
def test_multiplications_are_those_of_the_original(
    block: type[nn.Module], options: dict[str, int]
) -> None:
    model, shape = ResNet(block, [1, 1, 1]), (3, 32, 32)
    network = hnets.convert(model, input_shape=shape, **options)
    before, after = (hnets.cost(each, shape).multiplications for each in (model, network))
    assert network.report.multiplications == (before, after)
    assert 0.97 < after / before < 1.03


def test_converted_networks_learn(plain: tuple[nn.Module, tuple[int, int, int]]) -> None:
    model, shape = plain
    network = hnets.convert(model, input_shape=shape).train()
    x = torch.randn(8, *shape)
    target = torch.randn_like(network(x))
    optimiser, losses = torch.optim.Adam(network.parameters(), 0.01), list[float]()
    for _ in range(8):
        loss = nn.functional.mse_loss(network(x), target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    unused = [name for name, p in network.named_parameters() if p.grad is None]
    assert not unused


def test_converted_networks_are_frozen_copied_and_exported() -> None:
    make, shape = NETWORKS["as in timm"]
    network = hnets.convert(make(), input_shape=shape)
    network(torch.randn(4, *shape))
    network.eval()
    x = torch.randn(2, *shape)
    with torch.no_grad():
        expected = network(x)
        for other in (copy.deepcopy(network), hnets.freeze(network)):
            torch.testing.assert_close(other(x), expected)
        exported = program(network, (2, *shape)).module()
        torch.testing.assert_close(exported(torch.cat([x, x])), torch.cat([expected, expected]))


def test_names_of_layers_stay_and_the_original_is_left_alone() -> None:
    model = ResNet(BasicBlock, [1, 1], 32)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    network = hnets.convert(model)
    assert isinstance(network.get_submodule("layer2.0.conv2"), hnets.nn.HConv2d)
    assert network.get_submodule("fc").out_features == 10
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def test_the_report_says_what_was_replaced() -> None:
    report = hnets.convert(ResNet(BasicBlock, [1, 1], 32), input_shape=(3, 64, 64)).report
    rows = {row.name: (row.before, row.after) for row in report.replacements}
    before, after = rows["conv1"]
    assert before == "Conv2d 3 → 32, 7×7, stride 2"
    assert after.endswith("8×8, stride 2")
    assert rows["layer2.0.conv1"][1].startswith("HAvgPool2d 2 → HConv2d")
    assert rows["layer2.0.conv2"][1].endswith("5×5")
    assert rows["layer2.0.downsample.0"][1].endswith("1×1")
    assert rows["bn1"] == ("BatchNorm2d", "FourierAct, normalised")
    assert rows["layer1.0.bn2"] == ("BatchNorm2d", "AngularNorm2d")
    assert rows["maxpool"] == ("MaxPool2d", "HAvgPool2d 2")
    assert report.exact_sides == (64, 72, 80)
    text = str(report)
    assert "sides such as 64, 72, 80" in " ".join(text.split())
    assert "weights are initialised at random" in " ".join(text.split())


def test_maps_of_a_network_without_a_head_do_not_change_under_rotation() -> None:
    block = BasicBlock(32, 32, 1, None)
    stem = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.MaxPool2d(2))
    network = hnets.convert(nn.Sequential(stem, block), input_shape=(3, 16, 16)).double().eval()
    x = torch.randn(2, 3, 16, 16, dtype=torch.double)
    expected = network(x)
    torch.testing.assert_close(
        torch.rot90(network(torch.rot90(x, 1, (2, 3))), -1, (2, 3)), expected
    )
    assert network.report.replacements[-1] == ("output", "1.relu", "ReadOut")


def test_a_kernel_that_carries_all_orders_keeps_its_size() -> None:
    conv = hnets.convert(vgg(), orders=1, input_shape=(3, 32, 32)).get_submodule("0.3")
    assert conv.kernel_size == 3


def small(*layers: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), *layers)


class TwoMaps(nn.Module):
    """A map that is enlarged by a function, and what is made of it: both are outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        maps = nn.functional.interpolate(self.first(x).relu(), scale_factor=2, mode="bilinear")
        return maps, self.last(maps)


def test_a_map_that_is_an_output_and_goes_on_keeps_its_orders() -> None:
    network = hnets.convert(TwoMaps(), input_shape=(3, 16, 16)).double().eval()
    assert len(network.get_submodule("first").out_streams) == 3
    x = torch.randn(2, 3, 16, 16, dtype=torch.double)
    for expected, rotated in zip(network(x), network(torch.rot90(x, 1, (2, 3))), strict=True):
        torch.testing.assert_close(torch.rot90(rotated, -1, (2, 3)), expected)


class Gate(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x.sigmoid()


class Calls(nn.Module):
    """A forward of one's own; the layer that comes last in it stands first here."""

    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.head, self.last = nn.Conv2d(8, 4, 1), nn.Linear(8, 2)
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.function = forward

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            small(nn.Flatten(2), nn.TransformerEncoderLayer(16, 2)),
            "^1: Flatten cannot be converted: flatten all but the batch",
        ),
        (
            small(nn.TransformerEncoderLayer(64, 2)),
            "^1: TransformerEncoderLayer cannot be converted: no harmonic layer stands for it",
        ),
        (
            small(nn.ConvTranspose2d(8, 8, 2, 2)),
            "^1: ConvTranspose2d 8 → 8, 2×2, stride 2 cannot .*: use nn.Upsample and a Conv2d",
        ),
        (
            small(nn.LayerNorm(64), nn.LayerNorm(64)),
            r"^1: LayerNorm \(one of 2\) cannot .*: use nn.BatchNorm2d",
        ),
        (
            small(nn.Conv2d(8, 8, 3, dilation=2, groups=2)),
            "^1: Conv2d 8 → 8, 3×3 .*: groups=2, and it is 1 or the channels of input and output",
        ),
        (small(nn.Conv2d(8, 8, (3, 1))), "^1: .*: give it one number for both sides"),
        (small(nn.MaxPool2d(2, ceil_mode=True)), "^1: MaxPool2d .*: use ceil_mode=False"),
        (small(nn.PReLU()), "^1: PReLU cannot be converted: use nn.ReLU"),
        (small(Gate()), r"^1.sigmoid: a call of sigmoid cannot be converted"),
        (small(Branch()), "cannot be traced by torch.fx"),
        (nn.Sequential(nn.Linear(3, 3)), "without a Conv2d is not a CNN"),
        (Calls(lambda net, x: x), "without a Conv2d is not a CNN"),
        ("resnet18", "^expected a CNN, which is an nn.Module, got 'resnet18'"),
        (small(nn.MaxPool2d(2, return_indices=True)), "^1: MaxPool2d .*: use return_indices=False"),
        (
            Calls(lambda net, x: net.head(net.conv(x)) - net.head(net.conv(x).relu())),
            "^sub: a call of sub .*: maps are added or concatenated, and joined in no other way",
        ),
        (
            Calls(lambda net, x: nn.functional.interpolate(net.conv(x), size=x.shape[2:])),
            "^interpolate: .*: no harmonic layer takes .* sizes beside a map; give numbers, as in",
        ),
        (small(nn.Upsample(scale_factor=1.5)), "^1: Upsample .*: give it a whole number for both"),
        (
            Calls(lambda net, x: net.last(net.conv(x).mean((2, 3))).misspelt()),
            r"^Calls takes no input of shape \(1, 64, 64\): .* 'misspelt'; give the input_shape",
        ),
    ],
)
def test_what_cannot_be_converted_is_one_line_that_names_it(model: nn.Module, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        hnets.convert(model)
    assert "\n" not in str(caught.value)


def test_images_are_those_of_the_convolution_that_is_called_first() -> None:
    plain = Calls(lambda net, x: net.head(net.conv(x).relu()).mean((2, 3)))
    assert hnets.convert(plain).report.input_shape == (1, 64, 64)


@pytest.mark.parametrize(
    "layer", [nn.Conv2d(8, 8, 3, padding=(2, 0)), nn.AdaptiveAvgPool2d((3, 5))]
)
def test_layers_that_tell_the_sides_apart_are_exact_for_no_size(layer: nn.Module) -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), layer, nn.AdaptiveAvgPool2d(1))
    report = hnets.convert(plain, input_shape=(3, 16, 16)).report
    assert report.exact_sides == ()
    assert "none near" in str(report)


def test_a_layer_in_two_roles_becomes_two() -> None:
    """A norm before an activation and before the output: a `FourierAct`, and a norm of numbers."""
    plain = Calls(lambda net, x: (net.head(net.norm(net.conv(x)).relu()), net.norm(net.conv(x))))
    maps, normed = hnets.convert(plain)(torch.rand(2, 1, 16, 16))
    assert (maps.shape[1], normed.shape[1]) == (4, 8)


def test_maps_may_be_added_by_keywords() -> None:
    def forward(net: Any, x: Tensor) -> Tensor:
        maps = net.conv(x)
        return net.last(torch.add(input=maps, other=maps.relu(), alpha=2).mean((2, 3)))

    assert hnets.convert(Calls(forward))(torch.rand(2, 1, 16, 16)).shape == (2, 2)


def test_a_batch_of_one_may_be_squeezed_away() -> None:
    plain = Calls(lambda net, x: net.last(net.conv(x).relu().mean((2, 3), keepdim=True).squeeze()))
    report = hnets.convert(plain).report
    assert report.multiplications[0] == 64 * 64 * 8 * 9 + 8 * 2


def test_images_of_other_channels_are_refused() -> None:
    with pytest.raises(InputError, match=r"takes no input of shape \(1, 32, 32\)"):
        hnets.convert(vgg(), input_shape=(1, 32, 32))


@pytest.mark.parametrize("shape", [64, (64, 64), (3, 0, 32), "3x64"])
def test_shapes_that_are_not_those_of_an_image_are_refused(shape: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match=r"^input_shape is "):
        hnets.convert(vgg(), input_shape=shape)


def test_the_plain_resnet_of_the_package_is_converted() -> None:
    plain = hnets.create_model("resnet18", widths=[8, 8, 16, 16], num_classes=3)
    report = hnets.convert(plain).report
    assert [each.name for each in report.replacements][:2] == ["conv1", "bn1"]
    assert report.replacements[-1].before == "Linear 16 → 3"
