"""What a network costs: parameters and multiplications, as the paper counts them."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hnets.nn import HConv2d
from hnets.nn.conv import FrozenHConv2d

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Cost", "LayerCost", "cost", "matching_width"]


@dataclass(frozen=True)
class LayerCost:
    """One layer's share."""

    name: str
    kind: str
    streams: str
    output: tuple[int, ...]
    parameters: int
    multiplications: int


@dataclass(frozen=True)
class Cost:
    """The layers of a network and their totals; prints as a table."""

    layers: tuple[LayerCost, ...]

    @property
    def parameters(self) -> int:
        """All learned values."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiplications(self) -> int:
        """Multiplications of all convolutions and linear layers, for one input."""
        return sum(layer.multiplications for layer in self.layers)

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(show_footer=True)
        table.add_column("layer", footer="total")
        table.add_column("kind")
        table.add_column("streams")
        table.add_column("output", justify="right")
        table.add_column("parameters", footer=f"{self.parameters:,}", justify="right")
        table.add_column("multiplications", footer=f"{self.multiplications:,}", justify="right")
        for layer in self.layers:
            table.add_row(
                layer.name,
                layer.kind,
                layer.streams,
                "×".join(map(str, layer.output)),
                f"{layer.parameters:,}",
                f"{layer.multiplications:,}" if layer.multiplications else "",
            )
        return table

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=120).print(self)
        return out.getvalue().rstrip()


def cost(module: nn.Module, input_shape: tuple[int, ...]) -> Cost:
    """Count parameters and multiplications, layer by layer, for one input ``(channels, h, w)``.

    A harmonic convolution of i to o complex channels between f input and r output orders takes
    4·h·w·k²·i·o·f·r multiplications, half of it from real inputs (the paper's section 4.3).

    >>> from hnets import models
    >>> report = cost(models.hnet_mnist(), (1, 28, 28))
    >>> report.parameters, report.multiplications
    (33347, 92649200)
    """
    outputs: dict[nn.Module, tuple[int, ...]] = {}
    counted = _counted(module)

    def note(layer: nn.Module, _: Any, output: Tensor) -> None:
        outputs[layer] = tuple(output.shape[1:])

    hooks = [layer.register_forward_hook(note) for layer in counted.values()]
    example = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    was_training = {m: m.training for m in module.modules()}
    try:
        module.eval()
        with torch.no_grad():
            module(torch.zeros(1, *input_shape, dtype=example.dtype, device=example.device))
    finally:
        for hook in hooks:
            hook.remove()
        for part, mode in was_training.items():
            part.training = mode
    return Cost(tuple(_layer(name, m, outputs.get(m, ())) for name, m in counted.items()))


def matching_width(cnn_width: int, orders: int) -> int:
    """Complex channels per order that cost as much as a CNN layer: the rule i_Z = 2·f·i_H.

    >>> matching_width(64, orders=2)     # the paper's example
    16
    """
    if cnn_width < 2 * orders or orders < 1:
        raise ValueError(
            f"a width of {cnn_width} cannot hold {orders} complex orders: "
            f"it needs at least 2·orders = {2 * orders} channels"
        )
    return cnn_width // (2 * orders)


def _counted(module: nn.Module) -> dict[str, nn.Module]:
    """The parts that learn something, a harmonic convolution being one part with its filters."""
    parts: dict[str, nn.Module] = {}
    for name, part in module.named_modules():
        whole = isinstance(part, HConv2d | FrozenHConv2d)
        inside = any(name.startswith(f"{outer}.") for outer in parts if outer)
        if whole or (not inside and next(part.parameters(recurse=False), None) is not None):
            parts[name] = part
    return parts


def _layer(name: str, part: nn.Module, output: tuple[int, ...]) -> LayerCost:
    whole = isinstance(part, HConv2d | FrozenHConv2d)
    parameters = sum(p.numel() for p in part.parameters(recurse=whole))
    pixels = 1
    for side in output[1:]:
        pixels *= side
    multiplications = 0
    if isinstance(part, HConv2d):
        into = part.in_streams.channels // part.filters.groups
        out = part.filters.out_streams.channels * (
            1 if part.combine == "sum" else len(part.in_streams)
        )
        multiplications = pixels * part.kernel_size**2 * into * out
    elif isinstance(part, nn.Conv2d):
        multiplications = pixels * part.weight.numel()
    elif isinstance(part, nn.Linear):
        multiplications = part.weight.numel()
    ends = [str(getattr(part, end, "")) for end in ("in_streams", "out_streams")]
    streams = " → ".join(dict.fromkeys(ends))
    return LayerCost(name, type(part).__name__, streams, output, parameters, multiplications)
