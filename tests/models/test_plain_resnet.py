"""The plain ResNet-18: timm's, without timm."""

import pytest
import torch
from torch import nn

import hnets
from hnets.models import resnet18


def test_parameters_and_outputs() -> None:
    net = resnet18(in_chans=3, num_classes=1000)
    assert sum(p.numel() for p in net.parameters()) == 11_689_512
    assert hnets.create_model("resnet18")(torch.rand(2, 1, 64, 48)).shape == (2, 10)
    with pytest.raises(ValueError, match="ResNet18 expects an input of shape"):
        net(torch.rand(3, 64, 64))


def test_widths_are_an_option() -> None:
    net = resnet18(widths=(6, 8, 8, 10), num_classes=3)
    assert net(torch.rand(2, 1, 64, 64)).shape == (2, 3)
    assert [each["num_chs"] for each in net.feature_info] == [6, 6, 8, 8, 10]
    assert net.layer3[0].downsample is not None  # it halves the sides, if it keeps the width
    with pytest.raises(ValueError, match=r"widths are 4 whole numbers, got \(6, 8\)"):
        resnet18(widths=(6, 8))


def test_every_block_begins_as_its_shortcut() -> None:
    net = resnet18().eval()
    x = torch.rand(2, 64, 8, 8)
    assert torch.equal(net.layer1(x), x)
    assert net.layer2[0].downsample is not None
    weights = net.layer2[0].conv1.weight
    assert weights.std().item() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.02)


def test_it_is_the_network_of_timm() -> None:
    try:
        import timm
    except (ImportError, RuntimeError) as error:  # torchvision may not fit the build of torch
        pytest.skip(f"needs timm, which cannot be imported here ({error})")
    theirs: nn.Module = timm.create_model("resnet18", in_chans=1, num_classes=7)
    ours = resnet18(num_classes=7)
    ours.load_state_dict(theirs.state_dict())
    x = torch.rand(2, 1, 96, 96)
    with torch.no_grad():
        torch.testing.assert_close(ours.eval()(x), theirs.eval()(x))
