"""What the H-Net of 33,347 parameters is measured against.

| function | network |
|---|---|
| `plain_cnn()` | ordinary convolutions, the same real channels and so the same multiplications |
| `plain_light(cost, kernel)` | a plain depthwise block: depthwise, BatchNorm, ReLU, 1×1, residual |
| `plainly(net)` | a network of hnets with a plain convolution, batch norm and ReLU for its layers |
| `plain_frozen(net)` | the same for inference: batch norm folded into the convolutions |
| `escnn_hnet()` | the same equivariant network written with escnn, where that is installed |
| `escnn_frozen(net)` | the same for inference, in the fastest form that escnn allows |
| `e2cnn_digits()` | Weiler and Cesa's network for rotated MNIST, where e2cnn is installed |

Each network is an `nn.Module` from images (batch, 1, 28, 28) to logits (batch, 10). escnn is
imported only when one of its functions is called; `have_escnn()` asks first. README.md says how to
install it, and e2cnn.
"""

import copy
import importlib
import importlib.util
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from hnets import nn as hnn

NONLINEAR = (hnn.FourierAct, hnn.PolyAct, hnn.HBatchNorm2d, hnn.AngularNorm2d, hnn.ModReLU)
# Complex channels a layer at each of the orders 0 and 1; the real channels are four times as many.
WIDTHS = (8, 8, 16, 16, 35, 35, 10)
CLASSES = WIDTHS[-1]
KERNEL = 5
NORMED = (1, 3, 5)  # layers followed by batch norm; the others have a bias, the last has neither
POOLED = (1, 3)  # layers followed by mean pooling
LAST = len(WIDTHS) - 1

# Of Weiler and Cesa's network: fields per layer of 16 rotations, kernel, padding, and maxima over
# 2×2; and the layer after whose convolution mirrors are given up.
E2CNN_LAYERS = (
    (24, 9, 0, False),
    (32, 7, 3, True),
    (36, 7, 3, False),
    (36, 7, 3, True),
    (64, 7, 3, False),
    (96, 5, 0, False),
)
E2CNN_RESTRICTED = 4


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


def plainly(net: nn.Module) -> nn.Module:
    """A copy with as many real channels everywhere, and plain layers in place of harmonic ones.

    Dense layers multiply as often as before, 1×1 layers more often: they join all channels.
    """
    if isinstance(net, hnn.HConv2d):
        channels = net.in_streams.channels, net.out_streams.channels
        sizes = net.kernel_size, net.stride, net.padding, net.dilation
        return nn.Conv2d(*channels, *sizes, net.filters.spec.groups, False, net.padding_mode)
    if isinstance(net, NONLINEAR):
        return nn.Sequential(nn.BatchNorm2d(net.in_streams.channels), nn.ReLU(inplace=True))
    plain = copy.deepcopy(net)
    for name, part in net.named_children():
        setattr(plain, name, plainly(part))
    return plain


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
        layers = [_exported(layer) for layer in net.features.layer]
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


def e2cnn_digits(in_chans: int = 1, num_classes: int = 10, flips: bool = True) -> nn.Module:
    """The network of Weiler and Cesa (2019, section 3.2) for rotated MNIST, from e2cnn's layers.

    Regular features of the group of 16 rotations. With ``flips``, the first five layers respect
    mirrors too, in as many parameters: their best one, with an error of 0.682 ± 0.022 % on the
    published set. Without, 0.716 ± 0.028 %.
    """
    enn, gspaces = (importlib.import_module(f"e2cnn.{part}") for part in ("nn", "gspaces"))
    space = gspaces.FlipRot2dOnR2(16) if flips else gspaces.Rot2dOnR2(16)
    layers: list[Any] = []
    fields = enn.FieldType(space, in_chans * [space.trivial_repr])
    for layer, (width, kernel, padding, pooled) in enumerate(E2CNN_LAYERS):
        count = int(width / (space.fibergroup.order() / 16) ** 0.5)
        out = enn.FieldType(space, count * [space.regular_repr])
        options = {"padding": padding, "sigma": None, "frequencies_cutoff": None}
        layers += [enn.R2Conv(fields, out, kernel, **options)]
        if flips and layer == E2CNN_RESTRICTED:
            layers += [enn.RestrictionModule(out, (None, 16))]
            layers += [enn.DisentangleModule(layers[-1].out_type)]
            space = layers[-1].out_type.gspace
        layers += [enn.InnerBatchNorm(layers[-1].out_type)]
        if layer == len(E2CNN_LAYERS) - 1:
            layers += [enn.GroupPooling(layers[-1].out_type)]
        if pooled:
            layers += [enn.PointwiseMaxPool(layers[-1].out_type, 2)]
        fields = layers[-1].out_type
        layers += [enn.ELU(fields, inplace=True)]
    layers += [enn.PointwiseAdaptiveMaxPool(fields, 1)]
    features = _OnE2CNN(enn.SequentialModule(*layers))
    head: list[nn.Module] = [nn.Flatten()]
    for _ in range(2):
        head += [nn.Dropout(0.3), nn.Linear(96, 96), nn.BatchNorm1d(96), nn.ELU()]
    return nn.Sequential(features, *head, nn.Dropout(0.3), nn.Linear(96, num_classes))


class _OnE2CNN(nn.Module):
    """An e2cnn module that takes and returns tensors, without reading numbers from the device."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer, self.wrap = layer, importlib.import_module("e2cnn.nn").GeometricTensor
        for part in layer.modules():
            for name, value in list(part._buffers.items()):
                # Bounds of slices, which a CUDA graph cannot wait for.
                if "indices" in name and value is not None and value.numel() <= 3:
                    del part._buffers[name]
                    setattr(part, name, value.tolist())

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(self.wrap(x, self.layer.in_type)).tensor
        return out


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
