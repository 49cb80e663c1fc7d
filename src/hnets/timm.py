"""Backbones by timm's own functions: import this module, and timm knows them by name.

import hnets.timm, timm
timm.create_model("hresnet18", features_only=True)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from hnets.errors import MissingExtra
from hnets.models import create_model, list_models
from hnets.models._registry import backbones

try:
    from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
    from timm.models import generate_default_cfgs, get_pretrained_cfg, register_model
except ModuleNotFoundError as error:
    if error.name != "timm":
        raise
    raise MissingExtra("backbones in timm", "timm", "timm") from None

default_cfgs = generate_default_cfgs(  # timm finds them here by this name
    {
        name: {
            "input_size": (3, 224, 224),
            "mean": IMAGENET_DEFAULT_MEAN,
            "std": IMAGENET_DEFAULT_STD,
            "first_conv": "stages.0.0",
            "classifier": "fc",
        }
        for name in backbones()
    }
)


def _entrypoint(name: str) -> Callable[..., nn.Module]:
    """What timm calls to build a network."""

    def build(
        pretrained: bool = False,
        pretrained_cfg: Any = None,
        pretrained_cfg_overlay: Any = None,
        cache_dir: Any = None,
        **options: Any,
    ) -> nn.Module:
        full = f"{name}.{pretrained_cfg}" if isinstance(pretrained_cfg, str) else name
        if pretrained and full not in list_models(pretrained=True):
            # Others ask for weights by default, as segmentation_models_pytorch does.
            message = f"there are no trained weights for {full}: it starts from random values"
            warnings.warn(message, stacklevel=2)
            full, pretrained = name, False
        net = create_model(full, pretrained, **options)
        net.pretrained_cfg = net.default_cfg = get_pretrained_cfg(name).to_dict()
        return net

    build.__name__ = build.__qualname__ = name
    return build


for _name in backbones():
    register_model(_entrypoint(_name))
