"""How many samples FourierAct needs: its equivariance error, alone and through a network.

    python benchmarks/samples.py

An input is rotated by its phases alone, so that nothing is resampled, by angles between the
samples, and the output is compared with the rotated output. The error is relative to its norm.
"""

import math

import torch
from torch import Tensor, nn

from hnets import Streams
from hnets import nn as hnn

ORDERS, FIELDS, LAYERS = 4, 32, 6
STREAMS = Streams(" + ".join([f"{FIELDS}x0r", *(f"{FIELDS}x{k}" for k in range(1, ORDERS + 1))]))


def layers(act: nn.Module, count: int) -> nn.Module:
    """Convolutions of one pixel, which keep orders apart, each followed by norm and act."""
    parts = list[nn.Module]()
    for _ in range(count):
        conv = hnn.HConv2d(STREAMS, STREAMS, 1, share=False, phase="free")
        parts += [conv, hnn.AngularNorm2d(STREAMS), act]
    return nn.Sequential(*parts).double()


@torch.no_grad()
def error(net: nn.Module, x: Tensor, samples: int) -> float:
    """The worst over angles, half way between two samples among them."""
    worst, y = 0.0, net(x)
    for part in (0.25, 0.5, 0.75):
        theta = part * 2 * math.pi / samples
        rotated = net(STREAMS.rotate(x, theta))
        worst = max(worst, float((rotated - STREAMS.rotate(y, theta)).norm() / y.norm()))
    return worst


def main() -> None:
    """Print a line for each number of samples."""
    print(f"orders 0 to {ORDERS}, equivariance error of   one layer   {LAYERS} layers")
    for samples in (9, 10, 12, 16, 20, 24, 32, 48, 64):
        errors = []
        for count in (1, LAYERS):
            torch.manual_seed(0)
            net = layers(hnn.FourierAct(STREAMS, samples=samples), count)
            x = torch.randn(64, STREAMS.channels, 4, 4).double()
            errors.append(error(net, x, samples))
        print(f"{samples:3d} samples {errors[0]:35.1%} {errors[1]:12.1%}")
    torch.manual_seed(0)
    net, x = layers(hnn.PolyAct(STREAMS), 1), torch.randn(64, STREAMS.channels, 4, 4).double()
    print(f"PolyAct     {error(net, x, 3 * ORDERS + 1):35.1e}")


if __name__ == "__main__":
    main()
