"""Parameters and multiplications, by hand."""

import io
from collections.abc import Callable

import pytest
import torch
from rich.console import Console
from torch import nn

import hnets
from hnets import cost, matching_width
from hnets import nn as hnn
from hnets._cost import Cost, LayerCost
from networks import digits, example, fresh_example


def test_complex_channels_take_four_real_convolutions_for_each_pair_of_orders() -> None:
    h, w, k, i, o, f, r = 9, 7, 5, 3, 4, 2, 2
    report = cost(hnn.HConv2d("3x0 + 3x1", "4x0 + 4x1", k, padding="same"), (12, h, w))
    assert report.multiplications == 4 * h * w * k**2 * i * o * f * r


def test_real_inputs_cost_half() -> None:
    real = cost(hnn.HConv2d("3x0r", "4x0 + 4x1", 5), (3, 9, 9)).multiplications
    assert 2 * real == cost(hnn.HConv2d("3x0", "4x0 + 4x1", 5), (6, 9, 9)).multiplications


@pytest.mark.parametrize("combine", ["stack", "max"])
def test_paths_that_are_not_added_cost_what_their_sum_costs(combine: str) -> None:
    summed = cost(hnn.HConv2d("3x0 + 3x1", "4x0 + 4x1", 3), (12, 9, 9)).multiplications
    apart = hnn.HConv2d("3x0 + 3x1", "4x0 + 4x1", 3, combine=combine)
    assert cost(apart, (12, 9, 9)).multiplications == summed


def test_the_papers_network_layer_by_layer() -> None:
    report = cost(hnets.models.hnet_mnist(), (1, 28, 28))
    convolutions = [x for x in report.layers if x.kind == "HConv2d"]
    reals, pixels = [1, 32, 32, 64, 64, 140, 140, 40], [784, 784, 196, 196, 49, 49, 49]
    assert [x.multiplications for x in convolutions] == [
        25 * p * a * b for p, a, b in zip(pixels, reals[:-1], reals[1:], strict=True)
    ]
    assert report.parameters == 33_347


def test_plain_layers_count_too() -> None:
    net = nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, 5)
    )
    report = cost(net, (4, 7, 7))
    assert [x.kind for x in report.layers] == ["Conv2d", "Linear"]
    assert [x.multiplications for x in report.layers] == [3 * 3 * 9 * 2 * 6, 54 * 5]
    assert report.parameters == sum(p.numel() for p in net.parameters())


def test_transposed_convolutions_and_linear_layers_on_sequences() -> None:
    assert cost(nn.ConvTranspose2d(4, 6, 3, stride=2), (4, 5, 5)).multiplications == 25 * 4 * 6 * 9
    assert cost(nn.Linear(8, 3), (7, 8)).multiplications == 7 * 8 * 3


def test_streams_of_different_widths_that_are_not_added_cost_what_their_sum_costs() -> None:
    apart = hnn.HConv2d("3x0 + 2x1", "4x0", 3, combine="stack")
    report = cost(apart, (10, 5, 5))
    assert report.multiplications == 9 * 9 * 10 * 8
    assert report.multiplications == cost(hnets.freeze(apart), (10, 5, 5)).multiplications


@pytest.mark.parametrize("groups", [2, 8])
def test_groups_divide_parameters_and_multiplications(groups: int) -> None:
    streams, shape = "8x0r + 8x1 + 16x2", (56, 9, 9)
    dense = cost(hnn.HConv2d(streams, streams, 5), shape)
    grouped = hnn.HConv2d(streams, streams, 5, groups=groups)
    for net in (grouped, hnets.freeze(grouped)):
        report = cost(net, shape)
        assert groups * report.multiplications == dense.multiplications
        assert groups * report.parameters == dense.parameters


@pytest.mark.parametrize(
    ("into", "out", "options", "pairs"),
    [
        ("4x0 + 4x1", "6x0 + 6x1", {}, 2 * 8 * 12),  # orders apart
        ("4x0r + 4x1 + 4x2", "6x0r + 6x1 + 6x2", {}, 4 * 6 + 2 * 8 * 12),
        ("4x0r + 4x1 + 4x2", "6x0r + 6x1 + 6x2", {"mirror": True}, 5 * 4 * 6),  # and parts
        ("4x0r + 2x1", "6x0r + 3x1", {"phase": "none"}, 4 * 6 + 2 * 2 * 3),
        ("4x0r + 2x1 + 2x0r", "6x0r + 3x1", {"phase": "none"}, 10 * 12),  # order 0 is in two places
    ],
)
def test_a_1x1_kernel_multiplies_what_meets(
    into: str, out: str, options: dict[str, object], pairs: int
) -> None:
    layer = hnn.HConv2d(into, out, 1, **options)
    for net in (layer, hnets.freeze(layer)):
        assert cost(net, (layer.in_streams.channels, 5, 7)).multiplications == 35 * pairs


class WithParameter(nn.Module):
    """A user's module with a value of its own beside its layers, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.conv = hnn.HConv2d("1x0r", "2x1", 3, padding="same")
        self.act = hnn.ModReLU("2x1")

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = self.act(self.conv(x))
        return features, features * self.scale[0]


def test_every_parameter_counts_once() -> None:
    for net, shape in [
        (hnn.HConv2d("1x0r", "2x1", 3), (1, 5, 5)),  # itself the whole network
        (WithParameter(), (1, 5, 5)),
        (nn.Sequential(WithParameter().conv, hnn.ModReLU("2x1")), (1, 5, 5)),
    ]:
        report = cost(net, shape)
        assert report.parameters == sum(p.numel() for p in net.parameters())
        assert sum(layer.kind == "HConv2d" for layer in report.layers) == 1


def test_a_parametrised_layer_multiplies_as_before() -> None:
    net = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 3))
    before = cost(net, (3, 10, 10)).multiplications
    for layer in net:
        nn.utils.parametrizations.weight_norm(layer)
    report = cost(net, (3, 10, 10))
    assert report.multiplications == before
    assert report.parameters == sum(p.numel() for p in net.parameters())


def test_a_layer_that_runs_twice_multiplies_twice() -> None:
    conv = hnn.HConv2d("2x0 + 2x1", "2x0 + 2x1", 3, padding="same")
    once, twice = cost(nn.Sequential(conv), (8, 6, 6)), cost(nn.Sequential(conv, conv), (8, 6, 6))
    assert twice.multiplications == 2 * once.multiplications
    assert twice.parameters == once.parameters


@pytest.mark.parametrize(("build", "shape"), [(example, (3, 24, 24)), (digits, (1, 28, 28))])
def test_freezing_does_not_change_the_cost(
    build: Callable[[], nn.Module], shape: tuple[int, ...]
) -> None:
    net = build()
    of_net, of_frozen = cost(net, shape), cost(hnets.freeze(net), shape)
    assert of_frozen.multiplications == of_net.multiplications
    assert [x.parameters for x in of_frozen.layers] == [x.parameters for x in of_net.layers]


def test_counting_leaves_no_trace() -> None:
    net = digits()
    next(net.children()).eval()
    modes = [m.training for m in net.modules()]
    state = {k: v.clone() for k, v in net.state_dict().items()}
    generator = torch.get_rng_state()
    cost(net, (1, 12, 12))
    assert [m.training for m in net.modules()] == modes
    assert all(torch.equal(v, state[k]) for k, v in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), generator)
    assert not any(m._forward_hooks for m in net.modules())


def test_hooks_are_removed_when_the_input_does_not_fit() -> None:
    net = fresh_example()
    with pytest.raises(ValueError, match="expects 3x0r = 3 channels"):
        cost(net, (4, 24, 24))
    assert net.training
    assert not any(m._forward_hooks for m in net.modules())


@pytest.mark.parametrize("width", [80, 100, 140])
def test_no_table_cuts_a_number(width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(cost(hnets.models.hnet_mnist(), (1, 28, 28)))
    for expected in ("33,347", "92,649,200", "layers.6.1", "35x0"):
        assert expected in out.getvalue()
    assert "…" not in out.getvalue()


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_cuts_no_total(width: int) -> None:
    layer = LayerCost("stages.1.0.body.0.norm", "HConv2d", "8x0", (60, 1024, 1024), 882868, 10**12)
    out = io.StringIO()
    Console(file=out, width=width).print(Cost((layer,)), crop=False)
    assert "882,868 1,000,000,000,000" in out.getvalue()


def test_str_is_the_table() -> None:
    text = str(cost(fresh_example(), (3, 64, 64)))
    assert "HBatchNorm2d" in text
    assert "169,203,200" in text


def test_matching_width_is_the_papers_rule() -> None:
    assert matching_width(64, orders=2) == 16
    assert matching_width(64, orders=1) == 32


@pytest.mark.parametrize(("width", "orders"), [(3, 2), (8, 0), (0, 1)])
def test_a_width_that_holds_no_channel_is_refused(width: int, orders: int) -> None:
    with pytest.raises(ValueError, match=f"a width of {width} cannot hold {orders}"):
        matching_width(width, orders)
