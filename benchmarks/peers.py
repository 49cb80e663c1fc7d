"""What the H-Net of 33,347 parameters is measured against.

| function | network |
|---|---|
| `plain_cnn()` | ordinary convolutions, the same real channels and so the same multiplications |
| `plain_light(cost, kernel)` | a plain depthwise block: depthwise, BatchNorm, ReLU, 1×1, residual |
| `plain_frozen(net)` | the same for inference: batch norm folded into the convolutions |
| `escnn_hnet()` | the same equivariant network written with escnn, where that is installed |
| `escnn_frozen(net)` | the same for inference, in the fastest form that escnn allows |

Each network is an `nn.Module` from images (batch, 1, 28, 28) to logits (batch, 10). escnn is
imported only when one of its functions is called; `have_escnn()` asks first. README.md says how to
install it.
"""

import copy
import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

# Complex channels a layer at each of the orders 0 and 1; the real channels are four times as many.
WIDTHS = (8, 8, 16, 16, 35, 35, 10)
CLASSES = WIDTHS[-1]
KERNEL = 5
NORMED = (1, 3, 5)  # layers followed by batch norm; the others have a bias, the last has neither
POOLED = (1, 3)  # layers followed by mean pooling
LAST = len(WIDTHS) - 1


class Classifier(nn.Module):
    """Feature maps to logits: mean over space, sum over `groups` maps a class, bias."""

    def __init__(self, features: nn.Module, groups: int, bias: nn.Parameter | None = None) -> None:
        super().__init__()
        self.features = features
        self.groups = groups
        self.bias = nn.Parameter(torch.zeros(CLASSES)) if bias is None else bias

    def forward(self, images: Tensor) -> Tensor:
        maps = self.features(images).mean((2, 3))  # (batch, groups·classes)
        logits: Tensor = maps.view(-1, self.groups, CLASSES).sum(1) + self.bias
        return logits


def plain_cnn() -> Classifier:
    """Convolutions, ReLU and BatchNorm with the real channels 1, 32, 32, 64, 64, 140, 140, 40."""
    layers: list[nn.Module] = []
    channels = 1
    for layer, width in enumerate(WIDTHS):
        bias = layer not in NORMED and layer != LAST
        layers += [nn.Conv2d(channels, 4 * width, KERNEL, padding=KERNEL // 2, bias=bias)]
        channels = 4 * width
        if layer in NORMED:
            layers += [nn.BatchNorm2d(channels)]
        if layer != LAST:
            layers += [nn.ReLU(inplace=True)]
        if layer in POOLED:
            layers += [nn.AvgPool2d(2)]
    return Classifier(nn.Sequential(*layers), groups=4)


class PlainLight(nn.Module):
    """``x + conv1×1(relu(norm(depthwise(x))))``."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, kernel, padding=kernel // 2, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 1, bias=False),
        )

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + self.body(x)
        return y


def plain_light(cost: float, kernel: int) -> PlainLight:
    """A plain depthwise block of about ``cost`` multiplications per pixel."""
    channels = (kernel**4 / 4 + cost) ** 0.5 - kernel**2 / 2  # C² + k²·C
    return PlainLight(round(channels), kernel)


def plain_light_frozen(net: PlainLight) -> PlainLight:
    """The same for inference: batch norm folded into the depthwise convolution."""
    net = copy.deepcopy(net).eval()
    net.body = _folded(net.body.children())
    return net


def plain_frozen(net: Classifier) -> Classifier:
    """`net` for inference; it is put in evaluation mode and shares what was not folded."""
    net.eval()
    return Classifier(_folded(net.features.children()), net.groups, net.bias).eval()


def _folded(layers: Iterable[nn.Module]) -> nn.Sequential:
    """The layers in sequence, each `Conv2d, BatchNorm2d` pair as one convolution."""
    out: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, nn.BatchNorm2d) and out and isinstance(out[-1], nn.Conv2d):
            out[-1] = fuse_conv_bn_eval(out[-1], layer)
        else:
            out.append(layer)
    return nn.Sequential(*out)


def have_escnn() -> bool:
    """Whether escnn is installed in this environment."""
    return importlib.util.find_spec("escnn") is not None


def escnn_hnet(paired: bool = False) -> Classifier:
    """The H-Net from escnn's own layers, with tensors going in and out.

    SO(2) with irreps up to frequency 1. A complex channel of order 1 is the irrep of frequency 1
    (two real channels); one of order 0 is two trivial representations. Real channels and
    multiplications are those of `plain_cnn`.

    escnn has no layer that normalises magnitudes, so the closest ones stand in:

    - C-ReLU becomes `NormNonLinearity`, ReLU(|v| - exp(b))·v/|v|;
    - magnitude batch norm becomes `IIDBatchNorm2d`, one scale a field, followed by
      `NormNonLinearity` for its ReLU. `NormBatchNorm` refuses trivial representations: order 0
      would have to be split off and joined again. `GNormBatchNorm` needs more operations than
      `IIDBatchNorm2d` and has no `export`.

    With `paired`, the two trivial representations of order 0 are one field whose norm is |z|, as in
    the H-Net. By default they are fields of their own, the usual way in escnn and its faster one,
    so that escnn is not made to look slow. The read-out is paired either way.
    """
    escnn = _escnn()
    enn = escnn.nn
    space = escnn.gspaces.rot2dOnR2(maximum_frequency=1)  # N = -1: every angle
    trivial, order_one = space.trivial_repr, space.irrep(1)
    pair = escnn.group.directsum([trivial, trivial], name="order_zero")

    layers: list[Any] = []
    fields = enn.FieldType(space, [trivial])
    for layer, width in enumerate(WIDTHS):
        order_zero = width * [pair] if paired or layer == LAST else 2 * width * [trivial]
        inputs, fields = fields, enn.FieldType(space, order_zero + width * [order_one])
        layers += [enn.R2Conv(inputs, fields, KERNEL, padding=KERNEL // 2, bias=False)]
        if layer in NORMED:
            layers += [enn.IIDBatchNorm2d(fields)]
        if layer != LAST:
            activation = enn.NormNonLinearity(fields)
            # escnn starts from a threshold exp(0) = 1, which would silence a network this deep;
            # the H-Net starts near 0.
            nn.init.constant_(activation.log_bias, -4.0)
            layers += [activation]
        if layer in POOLED:
            layers += [enn.PointwiseAvgPool2D(fields, 2)]
    layers += [enn.NormPool(fields)]
    return Classifier(_OnTensors(enn.SequentialModule(*layers)), groups=2)


def escnn_frozen(net: Classifier) -> Classifier:
    """`net` for inference, exported as far as escnn exports.

    Convolutions and batch norms become torch's own through `.export()`, and the batch norms are
    folded away as in `plain_frozen`. Norm nonlinearity, pooling and norm pooling have no exported
    form: they stay escnn's. `net` is put in evaluation mode and shares those with the result.
    """
    with torch.no_grad():  # otherwise `eval` caches filters that carry a graph
        net.eval()
        layers = [_exported(layer) for layer in net.features.layer]  # type: ignore[union-attr]
    return Classifier(_folded(layers), net.groups, net.bias).eval()


def _escnn() -> Any:
    try:
        for part in ("escnn.gspaces", "escnn.group", "escnn.nn"):
            importlib.import_module(part)
        return importlib.import_module("escnn")
    except ImportError as error:
        raise ImportError(
            "the comparison with escnn needs escnn: install gfortran, then `pip install "
            "escnn==1.0.11` in an environment of its own (see benchmarks/README.md)"
        ) from error


class _OnTensors(nn.Module):
    """An escnn module that takes and returns tensors."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(self.layer.in_type(x)).tensor
        return out


def _exported(layer: Any) -> nn.Module:
    try:
        plain: nn.Module = layer.export()
    except NotImplementedError:
        plain = _OnTensors(layer)
    return plain.eval()
