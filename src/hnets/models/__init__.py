"""Networks, one readable file per family."""

from hnets.models._hdsn import HDSN, HED, EdgeNetwork, hdsn, hed, hed_low
from hnets.models._hedge import HEdge, hedge_base, hedge_small, hedge_tiny
from hnets.models._hnet_fourier import (
    HNetFourier,
    hnet_fourier_base,
    hnet_fourier_small,
    hnet_fourier_tiny,
)
from hnets.models._hnet_mnist import HNetMNIST, hnet_mnist
from hnets.models._hresnet import (
    HResNet,
    HResNetFeatures,
    hresnet10,
    hresnet18,
    hresnet18_light,
    hresnet18_wide,
    hresnet34,
)
from hnets.models._hub import from_pretrained, push_to_hub, save_pretrained
from hnets.models._hunet import HUNet, SegmentationNetwork, UNet, hunet, unet
from hnets.models._p4cnn import P4CNN, Z2CNN, P4CNNPooling, p4cnn, p4cnn_pooling, z2cnn
from hnets.models._plain_resnet import ResNet18, resnet18
from hnets.models._registry import create_model, list_models, load
from hnets.models._weights import ModelConfig, model_card, save

__all__ = [
    "HDSN",
    "HED",
    "P4CNN",
    "Z2CNN",
    "EdgeNetwork",
    "HEdge",
    "HNetFourier",
    "HNetMNIST",
    "HResNet",
    "HResNetFeatures",
    "HUNet",
    "ModelConfig",
    "P4CNNPooling",
    "ResNet18",
    "SegmentationNetwork",
    "UNet",
    "create_model",
    "from_pretrained",
    "hdsn",
    "hed",
    "hed_low",
    "hedge_base",
    "hedge_small",
    "hedge_tiny",
    "hnet_fourier_base",
    "hnet_fourier_small",
    "hnet_fourier_tiny",
    "hnet_mnist",
    "hresnet10",
    "hresnet18",
    "hresnet18_light",
    "hresnet18_wide",
    "hresnet34",
    "hunet",
    "list_models",
    "load",
    "model_card",
    "p4cnn",
    "p4cnn_pooling",
    "push_to_hub",
    "resnet18",
    "save",
    "save_pretrained",
    "unet",
    "z2cnn",
]
