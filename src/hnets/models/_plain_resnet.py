"""The plain ResNet-18 of timm, to compare with on the same images by the same training."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from hnets import nn as hnn
from hnets.models._classifier import Classifier
from hnets.models._registry import register
from hnets.nn._base import gpu_order, image, whole

WIDTHS = (64, 128, 256, 512)
"""Of the four stages, each of two blocks; all but the first halve the sides of their input."""


class _Block(nn.Module):
    """Two 3×3 convolutions and a shortcut around them."""

    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(into, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.downsample: nn.Module | None = None
        if stride > 1:
            conv = nn.Conv2d(into, out, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
        return (x + shortcut).relu()


class ResNet18(Classifier):
    """The ResNet-18 of He et al. (2016), as timm builds it and draws its weights.

    Parameters have the names that they have there, so that weights fit both ways. It is not
    equivariant: it learns to recognise rotated images as far as it is shown such.

    >>> sum(p.numel() for p in ResNet18(in_chans=3, num_classes=1000).parameters())
    11689512

    Args:
        in_chans: channels of the images.
        num_classes: classes of the images; 0 gives ``num_features`` numbers per image.
        widths: channels of the four stages; the stem has as many as the first.
    """

    fc: nn.Module

    def __init__(
        self, in_chans: int = 1, num_classes: int = 10, widths: Sequence[int] = WIDTHS
    ) -> None:
        super().__init__(in_chans, num_classes)
        if not isinstance(widths, tuple | list) or len(widths) != len(WIDTHS):
            raise ValueError(f"widths are {len(WIDTHS)} whole numbers, got {widths!r}")
        width = whole(widths[0], "widths")
        self.conv1, self.bn1 = (
            nn.Conv2d(in_chans, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
        )
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        stages = list[nn.Module]()
        for number, out in enumerate(widths):
            first = _Block(width, whole(out, "widths"), 2 if number else 1)
            stages.append(nn.Sequential(first, _Block(out, out, 1)))
            width = out
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        channels = (widths[0], *widths)
        modules = ("bn1", "layer1", "layer2", "layer3", "layer4")
        self.feature_info = [
            {"num_chs": out, "reduction": 2**halvings, "module": module}
            for halvings, (out, module) in enumerate(zip(channels, modules, strict=True), 1)
        ]
        self.mean, self.num_features = hnn.GlobalMean(), width
        self.reset_classifier(num_classes)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights; every block begins as its shortcut."""
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(part, nn.BatchNorm2d | nn.Linear):
                part.reset_parameters()
        for part in self.modules():
            if isinstance(part, _Block):
                nn.init.zeros_(part.bn2.weight)

    def forward_features(self, x: Tensor) -> Tensor:
        """The maps of the last stage."""
        image(x, type(self).__name__)
        x = gpu_order(x)
        x = self.maxpool(self.bn1(self.conv1(x)).relu())
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return x

    def forward_head(self, x: Tensor, pre_logits: bool = False) -> Tensor:
        """Logits ``(batch, num_classes)`` of those maps, or their means over the image."""
        features: Tensor = self.mean(x)
        return features if pre_logits else self.fc(features)


resnet18 = register("resnet18", ResNet18)
