"""PiDiNet (Su et al., 2021) in the form that it runs in, plain convolutions, for timing.

Its pixel differences are convolutions of 3×3 or 5×5 in the end. Weights are random: only the time
and the number of parameters mean something.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate, max_pool2d, relu

KERNELS = (3, 3, 5, 3)
"""Central, angular and radial differences and a plain convolution, in turn."""


class Block(nn.Module):
    """A depthwise convolution, ReLU and a 1×1 convolution, added to the input."""

    def __init__(self, into: int, out: int, kernel: int, halve: bool) -> None:
        super().__init__()
        self.shortcut = nn.Conv2d(into, out, 1) if halve else None
        self.depthwise = nn.Conv2d(into, into, kernel, padding="same", groups=into, bias=False)
        self.pointwise = nn.Conv2d(into, out, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.shortcut is not None:
            x = max_pool2d(x, 2)
        y: Tensor = self.pointwise(relu(self.depthwise(x)))
        return y + (x if self.shortcut is None else self.shortcut(x))


class Side(nn.Module):
    """An edge map from the maps of a stage: dilated convolutions and attention, if it has them."""

    def __init__(self, channels: int, dilated: int) -> None:
        super().__init__()
        self.reduce = nn.Conv2d(channels, dilated, 1) if dilated else None
        self.dilations = nn.ModuleList(
            nn.Conv2d(dilated, dilated, 3, padding="same", dilation=step, bias=False)
            for step in ((5, 7, 9, 11) if dilated else ())
        )
        self.squeeze = nn.Conv2d(dilated, 4, 1) if dilated else None
        self.attend = nn.Conv2d(4, 1, 3, padding=1, bias=False) if dilated else None
        self.out = nn.Conv2d(dilated or channels, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.reduce and self.squeeze and self.attend:
            x = self.reduce(relu(x))
            x = torch.stack([dilation(x) for dilation in self.dilations]).sum(0)
            x = x * self.attend(self.squeeze(relu(x))).sigmoid()
        edges: Tensor = self.out(x)
        return edges


class PiDiNet(nn.Module):
    """Four stages of four layers, and a side output of each.

    Args:
        width: channels of the first stage; 60, 30 and 20 in the paper.
        dilated: channels of the dilated convolutions; 24, 12 and 8, or 0 in the light forms.
    """

    def __init__(self, width: int, dilated: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.stages, self.sides, channels = nn.ModuleList(), nn.ModuleList(), width
        for stage, out in enumerate((width, 2 * width, 4 * width, 4 * width)):
            blocks = []
            for number in range(1 if stage == 0 else 0, 4):
                halve = number == 0
                blocks.append(Block(channels, out, KERNELS[number], halve))
                channels = out
            self.stages.append(nn.Sequential(*blocks))
            self.sides.append(Side(out, dilated))
        self.fusion = nn.Conv2d(4, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        size, sides = x.shape[2:], []
        x = self.first(x)
        for stage, side in zip(self.stages, self.sides, strict=True):
            x = stage(x)
            sides.append(interpolate(side(x), size, mode="bilinear"))
        edges: Tensor = self.fusion(torch.cat(sides, 1)).sigmoid()
        return edges


def networks() -> dict[str, PiDiNet]:
    """Those that are compared with, by name."""
    return {
        "PiDiNet-Tiny-L": PiDiNet(20, 0).eval(),
        "PiDiNet-Small": PiDiNet(30, 12).eval(),
        "PiDiNet": PiDiNet(60, 24).eval(),
    }
