"""Networks that several test files use."""

import functools

import torch
from torch import Tensor, nn

import hnets
from hnets import nn as hnn


def fresh_example() -> nn.Sequential:
    """The first example of the documentation."""
    return nn.Sequential(
        hnn.HConv2d("3x0r", "8x0 + 8x1", kernel_size=5),
        hnn.ModReLU("8x0 + 8x1"),
        hnn.HConv2d("8x0 + 8x1", "16x0 + 16x1", kernel_size=5),
        hnn.HBatchNorm2d("16x0 + 16x1"),
        hnn.HAvgPool2d(2),
        hnn.Magnitude("16x0 + 16x1"),
    )


def example() -> nn.Module:
    """The same, with values as training leaves them."""
    return lively(fresh_example(), torch.randn(4, 3, 24, 24))


def digits() -> nn.Module:
    """The paper's network for digits, with values as training leaves them."""
    return lively(hnets.models.hnet_mnist(), torch.randn(4, 1, 16, 16))


@functools.cache
def edge_network() -> hnets.models.HDSN:
    """The paper's network for edges, the same one each time, as training leaves it."""
    torch.manual_seed(0)
    net = lively(hnets.models.hdsn(), torch.rand(2, 3, 48, 48))
    assert isinstance(net, hnets.models.HDSN)
    return net


class EveryLayer(nn.Module):
    """Each layer and option at least once, and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        gated = hnn.Gated("3x0r + 2x1")
        self.body = nn.Sequential(
            hnn.HConv2d(
                "2x0r", gated.in_streams, 5, padding="same", padding_mode="reflect", phase="ring"
            ),
            gated,
            hnn.HDropout2d(gated.out_streams, 0.2),
            hnn.HConv2d(gated.out_streams, "2x0 + 2x1", 5, padding=2, combine="max"),
            hnn.HBatchNorm2d("2x0 + 2x1"),
            hnn.HConv2d("2x0 + 2x1", "2x-1", 5, padding=(2, 2), combine="stack"),
            hnn.ModAct("2x-1 + 2x-1", torch.tanh),
            hnn.LightBlock("2x-1 + 2x-1", "2x-1 + 2x-1"),
        )
        self.side = nn.Sequential(
            hnn.HConv2d("2x-1 + 2x-1", "4x0r + 4x1", 5, share=False, rings="gaussian"),
            hnn.LightBlock("4x0r + 4x1", "4x0r + 4x1", squeeze=True, mirror=True),
            hnn.HConv2d("4x0r + 4x1", "2x0r + 3x1", 1),
            hnn.Magnitude("2x0r + 3x1"),
            hnn.HBlurPool2d(2),
            hnn.HUpsample2d(2),
        )
        self.head = nn.Sequential(
            hnn.HConv2d("2x-1 + 2x-1", "3x0 + 3x1", 4, stride=2, conjugate=True),
            hnn.Magnitude("3x0 + 3x1", combine="sum"),
            hnn.GlobalMean(),
            nn.Linear(3, 5),
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x)
        return self.side(features), self.head(features)


def every_layer() -> EveryLayer:
    """Each layer and option at least once, with values as training leaves them."""
    net = EveryLayer()
    lively(net, torch.randn(2, 2, 16, 16))
    return net


def lively(net: nn.Module, x: Tensor) -> nn.Module:
    """Move biases and running statistics away from where they start."""
    with torch.no_grad():
        for name, value in net.named_parameters():
            if name.endswith("bias"):
                value.uniform_(-0.3, 0.3)
            elif value.dim() == 1:
                value.uniform_(0.5, 1.5)
        net.train()
        for _ in range(3):
            net(x * torch.rand(()))
    return net


def relative(a: Tensor, b: Tensor) -> float:
    """‖a − b‖ / ‖b‖."""
    a, b = a.detach(), b.detach()
    return float((a - b).norm() / b.norm())
