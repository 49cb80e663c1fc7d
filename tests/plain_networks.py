"""Plain CNNs in the ways that torchvision and timm write them."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn


class BasicBlock(nn.Module):
    """As in torchvision: one ReLU module for both activations, a strided first convolution."""

    expansion = 1

    def __init__(self, inplanes: int, planes: int, stride: int, downsample: nn.Module | None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inplanes: int, planes: int, stride: int, downsample: nn.Module | None):
        super().__init__()
        self.conv1 = nn.Conv2d(inplanes, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, 4 * planes, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * planes)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: Tensor) -> Tensor:
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + identity)


class ResNet(nn.Module):
    """As in torchvision, of any width: 7×7 stem, maximum pooling, stages, global mean."""

    def __init__(
        self, block: type[nn.Module], layers: Sequence[int], width: int = 64, num_classes: int = 10
    ) -> None:
        super().__init__()
        self.inplanes = width
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for stage, count in enumerate(layers):
            blocks = self._make_layer(block, width << stage, count, 2 if stage else 1)
            self.add_module(f"layer{stage + 1}", blocks)
        self.stages = len(layers)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(self.inplanes, num_classes)

    def _make_layer(
        self, block: type[nn.Module], planes: int, count: int, stride: int
    ) -> nn.Sequential:
        downsample, out = None, planes * block.expansion
        if stride != 1 or self.inplanes != out:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, out, 1, stride, bias=False), nn.BatchNorm2d(out)
            )
        blocks = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = out
        return nn.Sequential(*blocks, *(block(out, planes, 1, None) for _ in range(1, count)))

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in range(self.stages):
            x = getattr(self, f"layer{stage + 1}")(x)
        return self.fc(torch.flatten(self.avgpool(x), 1))


class TimmStyle(nn.Module):
    """Identities between norm and activation, functional dropout, a mean in forward."""

    def __init__(self, drop_rate: float = 0.1) -> None:
        super().__init__()
        self.conv_stem = nn.Conv2d(3, 24, 3, 2, 1, bias=False)
        self.bn1, self.drop_block, self.act1 = nn.BatchNorm2d(24), nn.Identity(), nn.SiLU()
        self.depthwise = nn.Conv2d(24, 24, 3, padding=1, groups=24, bias=False)
        self.bn2, self.act2 = nn.BatchNorm2d(24), nn.SiLU()
        self.conv_pw = nn.Conv2d(24, 24, 1)
        self.drop_rate = drop_rate
        self.classifier = nn.Linear(24, 5)

    def forward_features(self, x: Tensor) -> Tensor:
        x = self.act1(self.drop_block(self.bn1(self.conv_stem(x))))
        return x + self.conv_pw(self.act2(self.bn2(self.depthwise(x))))

    def forward(self, x: Tensor) -> Tensor:
        x = self.forward_features(x).mean((2, 3))
        x = nn.functional.dropout(x, p=self.drop_rate, training=self.training)
        return self.classifier(x)


class Dense(nn.Module):
    """Concatenation, functional activations and pooling, ``view``: as in DenseNet."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 5, padding=2)
        self.grow = nn.ModuleList(nn.Conv2d(16 + 16 * n, 16, 3, padding=1) for n in range(2))
        self.norm = nn.BatchNorm2d(48)
        self.fc1, self.fc2 = nn.Linear(48, 20), nn.Linear(20, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.first(x)), 2)
        for conv in self.grow:
            x = torch.cat([x, nn.functional.relu(conv(x), inplace=True)], 1)
        x = nn.functional.adaptive_avg_pool2d(self.norm(x).relu(), (1, 1))
        return self.fc2(torch.relu(self.fc1(x.view(x.size(0), -1))))


def vgg(num_classes: int = 7) -> nn.Sequential:
    """Convolutions with biases and no norms, maximum pooling, a flattened map, three linears."""
    layers, widths = list[nn.Module](), (3, 16, 32, 32)
    for into, out in pairwise(widths):
        layers += [nn.Conv2d(into, out, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2, 2)]
    return nn.Sequential(
        nn.Sequential(*layers),
        nn.AdaptiveAvgPool2d(3),
        nn.Flatten(),
        *(nn.Linear(288, 32), nn.ReLU(True), nn.Dropout(), nn.Linear(32, num_classes)),
    )


def fully_convolutional() -> nn.Sequential:
    """A map of scores as output: down, up, and a 1×1."""
    return nn.Sequential(
        *(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Upsample(scale_factor=2, mode="bilinear"), nn.Dropout2d(0.1), nn.Conv2d(32, 4, 1)),
    )
