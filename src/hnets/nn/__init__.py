"""Layers that hold parameters and call `hnets.functional`: use them as you use ``torch.nn``."""

from hnets.nn.activation import Gated, HDropout2d, Magnitude, ModAct, ModReLU
from hnets.nn.angular import FourierAct, PolyAct
from hnets.nn.blocks import LightBlock, ResidualBlock, SqueezeExcite
from hnets.nn.conv import HConv2d
from hnets.nn.norm import AngularNorm2d, HBatchNorm2d
from hnets.nn.pointing import PointingBias
from hnets.nn.resample import GlobalMean, HAvgPool2d, HBlurPool2d, HUpsample2d

__all__ = [
    "AngularNorm2d",
    "FourierAct",
    "Gated",
    "GlobalMean",
    "HAvgPool2d",
    "HBatchNorm2d",
    "HBlurPool2d",
    "HConv2d",
    "HDropout2d",
    "HUpsample2d",
    "LightBlock",
    "Magnitude",
    "ModAct",
    "ModReLU",
    "PointingBias",
    "PolyAct",
    "ResidualBlock",
    "SqueezeExcite",
]
