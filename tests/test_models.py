"""The paper's network: its numbers, and that its answer does not turn."""

import pytest
import torch
from torch.nn.functional import cross_entropy

import hnets
from hnets import models, testing
from networks import digits

LAYERS = [120, 864, 1696, 3392, 7350, 16065, 3860]  # the supplement's table of parameters


def test_hnet_mnist_has_the_papers_parameters_layer_by_layer() -> None:
    net = models.hnet_mnist()
    assert [sum(p.numel() for p in layer.parameters()) for layer in net.layers] == LAYERS
    assert sum(p.numel() for p in net.parameters()) == sum(LAYERS) == 33_347


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_logits_do_not_change_with_quarter_turns(quarters: int) -> None:
    net = digits().double().eval()
    x = torch.randn(3, 1, 28, 28, dtype=torch.float64)
    turned = net(torch.rot90(x, quarters, (2, 3)))
    assert (turned - net(x)).abs().max() < 1e-10


def test_logits_follow_any_angle_within_a_fifth() -> None:
    testing.assert_equivariant(models.hnet_mnist(), size=28)


@pytest.mark.parametrize("size", [(28, 28), (32, 20), (4, 4)])
def test_any_size_of_picture(size: tuple[int, int]) -> None:
    assert models.hnet_mnist()(torch.randn(2, 1, *size)).shape == (2, 10)


def test_channels_and_classes_are_options() -> None:
    net = hnets.create_model("hnet_mnist", in_channels=3, classes=4)
    assert net(torch.randn(2, 3, 12, 12)).shape == (2, 4)


def test_training_lowers_the_loss() -> None:
    net = models.hnet_mnist()
    x, labels = torch.randn(8, 1, 12, 12), torch.arange(8)
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
    [("hnet_minst", "did you mean hnet_mnist?"), ("zzz", "there is hnet_mnist")],
)
def test_unknown_names_get_advice(name: str, advice: str) -> None:
    with pytest.raises(ValueError, match=f"no model is called '{name}'") as caught:
        hnets.create_model(name)
    assert advice in str(caught.value)
