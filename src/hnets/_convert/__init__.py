"""Plain CNNs as harmonic networks of as many multiplications."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from torch import fx, nn

from hnets._convert.rebuild import ConversionError, Replacement, Walk
from hnets._cost import Tabular, cost
from hnets.errors import InputError, reason
from hnets.nn._base import flag, whole

if TYPE_CHECKING:
    from rich.table import Table

_SIDE, _FURTHEST = 64, 256
_WIDTHS = 100
"""Factors of all widths that are tried, from 1/50 of the channels to all of them."""


@dataclass(frozen=True)
class Conversion(Tabular):
    """What `convert` replaced, and what both networks cost; prints as a table."""

    replacements: tuple[Replacement, ...]
    input_shape: tuple[int, ...]
    multiplications: tuple[int, int]
    """For one input, before and after."""
    parameters: tuple[int, int]
    exact_sides: tuple[int, ...]
    """The next three sides of square images for which rotations by 90 degrees are exact."""

    def table(self, width: int = 120) -> Table:
        """A rich table with the totals below it."""
        from rich.table import Table

        sides = ", ".join(map(str, self.exact_sides)) or "none near"
        shape = "×".join(map(str, self.input_shape))
        caption = (
            f"multiplications for {shape}: {self.multiplications[0]:,} → "
            f"{self.multiplications[1]:,}; parameters: {self.parameters[0]:,} → "
            f"{self.parameters[1]:,}; weights are initialised at random; rotations by 90° "
            f"are exact for square images with sides such as {sides}"
        )
        table = Table("layer", "before", "after", caption=caption)
        for replacement in self.replacements:
            table.add_row(*replacement)
        return table


def convert(
    model: nn.Module,
    orders: int = 2,
    mirror: bool = False,
    input_shape: tuple[int, int, int] | None = None,
) -> fx.GraphModule:
    """A harmonic network of the form of a plain CNN and of as many multiplications.

    It gives rotated images the same output, exactly for rotations by 90 degrees at the sizes that
    its ``report`` names; the report prints as a table of what was replaced. Weights are
    initialised at random, as those of a plain network have no such symmetry. The CNN may have
    convolutions (dense or depthwise), batch norms, activations, pooling, additions, concatenations,
    dropout and, at its end, linear layers. Anything else is a `ValueError` that names it.

    >>> import torch
    >>> plain = nn.Sequential(
    ...     nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
    ...     nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
    ...     nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))
    >>> net = convert(plain)
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 10])
    >>> net.report.replacements[0]
    Replacement(name='0', before='Conv2d 3 → 64, 3×3', after='HConv2d ... 5×5')

    Convolutions become `HConv2d` with all equivariant filters and the smallest kernel, from their
    own up, that carries all orders: 5×5 for a 3×3 with order 2, while 1×1 stays. Where one has a
    stride, mean pooling comes first, or it keeps the stride with a kernel of the same parity.
    Batch norms with the activations after them become `FourierAct`, pooling the mean that keeps
    centres of equivariance. Linear layers receive order 0 and the magnitudes of the other orders,
    averaged over the image, also where the CNN flattened it. If the output is a map, its channels
    do not change under rotation either.

    Args:
        model: the CNN, which stays as it is.
        orders: the highest rotation order of the feature maps, which have a real order 0 and orders
            1 to this, of equal width.
        mirror: give mirror images the same output too.
        input_shape: ``(channels, height, width)`` of the images for which multiplications are
            equal; by default the channels of the first convolution and 64×64.
    """
    whole(orders, "orders")
    flag(mirror, "mirror")
    if not isinstance(model, nn.Module):
        raise ConversionError(f"expected a CNN, which is an nn.Module, got {model!r}")
    graph, convolutions = _traced(model)
    shape: Any = (convolutions[0].in_channels, _SIDE, _SIDE) if input_shape is None else input_shape
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        raise InputError(f"input_shape is (channels, height, width), got {input_shape!r}")
    channels, height, width = (whole(each, "input_shape") for each in shape)
    input_shape, size = (channels, height, width), (height, width)
    walk = partial(Walk, model, graph, orders, mirror, channels)
    widths = {layer.out_channels: layer.out_channels for layer in convolutions}
    walk(widths, size)  # raises what cannot be converted
    try:
        before = cost(model, input_shape)
    except Exception as error:  # whatever the network's own code raises
        raise InputError(
            f"{type(model).__name__} takes no input of shape {input_shape}: {reason(error)}; "
            "give the input_shape that it is for"
        ) from None
    widths = _equal(widths, lambda some: walk(some, size).multiplications / before.multiplications)
    chosen = walk(widths, size)
    network, like = chosen.build(), next(model.parameters())
    network.to(like.device, like.dtype).train(model.training)
    after = cost(network, input_shape)
    sides = range(max(size), max(size) + _FURTHEST)
    network.__dict__["report"] = Conversion(
        tuple(chosen.replacements),
        input_shape,
        (before.multiplications, after.multiplications),
        (before.parameters, after.parameters),
        tuple(islice((side for side in sides if walk(widths, (side, side)).exact), 3)),
    )
    return network


def _traced(model: nn.Module) -> tuple[fx.Graph, list[nn.Conv2d]]:
    """The calls of a CNN, and its convolutions in the order in which they are called."""
    no_cnn = ConversionError(f"a {type(model).__name__} without a Conv2d is not a CNN")
    if not any(isinstance(part, nn.Conv2d) for part in model.modules()):
        raise no_cnn
    try:
        graph = fx.Tracer().trace(model)
    except Exception as error:  # whatever the network's own code raises on a proxy
        raise ConversionError(
            f"{type(model).__name__} cannot be traced by torch.fx ({reason(error)}); give a "
            "network whose forward does not depend on the values of tensors"
        ) from None
    called = [model.get_submodule(str(n.target)) for n in graph.nodes if n.op == "call_module"]
    convolutions = [layer for layer in called if isinstance(layer, nn.Conv2d)]
    if not convolutions:
        raise no_cnn
    return graph, convolutions


def _equal(channels: Iterable[int], ratio: Callable[[Mapping[int, int]], float]) -> dict[int, int]:
    """Fields for each number of channels, for which a ratio of costs is nearest to 1."""

    def off(fields: Iterable[int]) -> float:
        return abs(math.log(ratio(dict(zip(channels, fields, strict=True)))))

    factors = (50 ** (step / _WIDTHS - 1) for step in range(_WIDTHS + 1))
    tried = dict.fromkeys(tuple(max(1, round(n * f)) for n in channels) for f in factors)
    best = min(tried, key=off)
    while True:  # fields are whole numbers: change one width at a time while that helps
        steps = [(place, step) for place in range(len(best)) for step in (-1, 1)]
        others = [(*best[:i], max(1, best[i] + step), *best[i + 1 :]) for i, step in steps]
        nearest = min(others, key=off)
        if off(nearest) >= off(best):
            return dict(zip(channels, best, strict=True))
        best = nearest
