"""Backbones through timm and segmentation_models_pytorch, where these can be imported."""

from typing import Any

import pytest
import torch

import hnets
from networks import relative

try:
    import timm
except (ImportError, RuntimeError, AttributeError) as error:  # as a torchvision of another torch is
    reason = f"timm cannot be imported here ({error}); its torchvision has to match torch"
    pytest.skip(reason, allow_module_level=True)

import hnets.timm

SMALL: dict[str, Any] = {"fields": (2, 2, 3, 4)}


def test_timm_lists_and_builds_them() -> None:
    names = ["hresnet10", "hresnet18", "hresnet18_light", "hresnet18_wide", "hresnet34"]
    assert timm.list_models("hresnet*") == names
    net = timm.create_model("hresnet18", num_classes=5, in_chans=1, drop_rate=0.1)
    assert isinstance(net, hnets.models.HResNet)
    assert net.config.name == "hresnet18"
    assert net(torch.rand(2, 1, 64, 64)).shape == (2, 5)
    assert net.pretrained_cfg["input_size"] == (3, 224, 224)
    assert timm.data.resolve_model_data_config(net)["input_size"] == (3, 224, 224)


def test_a_timm_network_is_the_same_as_ours() -> None:
    torch.manual_seed(0)
    ours = hnets.create_model("hresnet10", **SMALL).eval()
    torch.manual_seed(0)
    theirs = timm.create_model("hresnet10", **SMALL).eval()
    x = torch.rand(1, 3, 64, 64)
    assert torch.equal(ours(x), theirs(x))
    theirs.reset_classifier(0)
    assert theirs(x).shape == (1, theirs.num_features)


def test_features_only_is_as_in_timm() -> None:
    net = timm.create_model("hresnet10", features_only=True, out_indices=(1, 3), **SMALL)
    assert net.feature_info.channels() == [10, 15]
    assert net.feature_info.reduction() == [4, 16]
    assert [maps.shape[1:] for maps in net(torch.rand(1, 3, 64, 64))] == [(10, 16, 16), (15, 4, 4)]


def test_weights_that_do_not_exist_are_said() -> None:
    with pytest.warns(UserWarning, match="there are no trained weights for hresnet10: it starts"):
        timm.create_model("hresnet10", pretrained=True, **SMALL)


@pytest.mark.parametrize("depth", [5, 3])
def test_segmentation_models_pytorch_takes_them_as_encoders(depth: int) -> None:
    smp = pytest.importorskip("segmentation_models_pytorch")
    channels = (32, 16, 8, 8, 8)[:depth]
    net = smp.Unet(
        "tu-hresnet10",
        encoder_depth=depth,
        encoder_weights=None,
        decoder_channels=channels,
        in_channels=1,
        classes=2,
        **SMALL,
    ).eval()
    x = torch.rand(2, 1, 64, 96)
    assert net(x).shape == (2, 2, 64, 96)
    # The decoder is not equivariant; hunet is.
    assert relative(net(x.rot90(2, (2, 3))), net(x).rot90(2, (2, 3))) > 1e-4
    net.train()(x).sum().backward()
    assert all(p.grad is not None for p in net.encoder.parameters())


def test_segmentation_models_pytorch_needs_no_options() -> None:
    smp = pytest.importorskip("segmentation_models_pytorch")
    with (
        pytest.warns(UserWarning, match="encoder_weights"),  # "imagenet" by default
        pytest.warns(UserWarning, match="there are no trained weights for hresnet10"),
    ):
        net = smp.Unet("tu-hresnet10")
    assert net.eval()(torch.rand(1, 3, 64, 64)).shape == (1, 1, 64, 64)
