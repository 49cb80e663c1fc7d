"""What a network costs: parameters and multiplications, as the paper counts them."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from hnets.models._p4cnn import P4Conv2d
from hnets.nn import HConv2d
from hnets.nn.conv import FrozenHConv2d

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Table

_WHOLE = (HConv2d, FrozenHConv2d)
_MULTIPLY = (
    *(*_WHOLE, P4Conv2d, nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
)


@dataclass(frozen=True)
class LayerCost:
    """One layer's share."""

    name: str
    kind: str
    streams: str
    output: tuple[int, ...]
    parameters: int
    multiplications: int


class Tabular(ABC):
    """What prints as a table."""

    @abstractmethod
    def table(self, width: int = 120) -> Table:
        """A rich table for a terminal of so many characters."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        yield self.table(options.max_width)

    def __str__(self) -> str:
        from rich.console import Console

        out = io.StringIO()
        Console(file=out, width=120).print(self)
        return out.getvalue().rstrip()


@dataclass(frozen=True)
class Cost(Tabular):
    """The layers of a network and their totals; prints as a table."""

    layers: tuple[LayerCost, ...]

    @property
    def parameters(self) -> int:
        """All learned values."""
        return sum(layer.parameters for layer in self.layers)

    @property
    def multiplications(self) -> int:
        """Multiplications of convolutions and linear layers alone, for one input."""
        return sum(layer.multiplications for layer in self.layers)

    def table(self, width: int = 120) -> Table:
        """A rich table; a narrow one has no frames and wraps between streams, never in a number."""
        from rich import box
        from rich.table import Table

        table = Table(show_footer=True)
        table.add_column("layer", footer="total", no_wrap=True)
        table.add_column("kind", no_wrap=True)
        table.add_column("streams")
        table.add_column("output", justify="right", no_wrap=True)
        for name, total in (
            ("parameters", self.parameters),
            ("multiplications", self.multiplications),
        ):
            footer = f"{total:,}"
            table.add_column(
                name, footer=footer, justify="right", no_wrap=True, min_width=len(footer)
            )
        for layer in self.layers:
            table.add_row(
                layer.name,
                layer.kind,
                layer.streams,
                "×".join(map(str, layer.output)),
                f"{layer.parameters:,}",
                f"{layer.multiplications:,}" if layer.multiplications else "",
            )
        if width < 100:
            table.box, table.pad_edge, table.padding = box.SIMPLE_HEAD, False, (0, 0)
            table.columns[2].max_width = 13
        return table


def cost(module: nn.Module, input_shape: tuple[int, ...]) -> Cost:
    """Count parameters and multiplications, layer by layer, for one input ``(channels, h, w)``.

    A harmonic convolution of i to o complex channels between f input and r output orders takes
    4·h·w·k²·i·o·f·r multiplications, half of it from real inputs (the paper's section 4.3).

    >>> from hnets import models
    >>> report = cost(models.hnet_mnist(), (1, 28, 28))
    >>> report.parameters, report.multiplications
    (33347, 92649200)
    """
    parts = _counted(module)
    outputs: dict[nn.Module, tuple[int, ...]] = {}
    multiplications = dict.fromkeys(parts.values(), 0)

    def note(part: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if isinstance(output, Tensor):
            outputs[part] = tuple(output.shape[1:])
            multiplications[part] += _multiplications(part, args, output)

    hooks = [part.register_forward_hook(note) for part in multiplications]
    like = next((p for p in module.parameters() if p.is_floating_point()), torch.empty(0))
    was_training = {m: m.training for m in module.modules()}
    try:
        module.eval()
        with torch.no_grad():
            module(torch.zeros(1, *input_shape, dtype=like.dtype, device=like.device))
    finally:
        for hook in hooks:
            hook.remove()
        for part, mode in was_training.items():
            part.training = mode
    return Cost(
        tuple(
            LayerCost(
                name,
                type(part).__name__,
                _streams(part),
                outputs.get(part, ()),
                sum(p.numel() for p in part.parameters(recurse=isinstance(part, _WHOLE))),
                multiplications[part],
            )
            for name, part in parts.items()
        )
    )


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
    """The parts that multiply or hold values, a harmonic convolution being one with its filters.

    A part that occurs twice is one entry: its parameters are shared, its multiplications are not.
    The values of a parametrised layer, as by ``weight_norm``, are those of a part inside it.
    """
    parts: dict[str, nn.Module] = {}
    inside: set[nn.Module] = set()
    for name, part in module.named_modules():
        if isinstance(part, _WHOLE):
            inside.update(set(part.modules()) - {part})
        if part not in inside and (
            isinstance(part, _MULTIPLY) or next(part.parameters(recurse=False), None) is not None
        ):
            parts[name] = part
    return parts


def _multiplications(part: nn.Module, args: tuple[Any, ...], output: Tensor) -> int:
    """Those of one call, for one element of its batch."""
    if isinstance(part, _WHOLE):
        segments = part.filters.segments
        pairs = sum(outputs * inputs // groups for groups, outputs, inputs in segments)
        return part.filters.spec.kernel_size**2 * pairs * output[0, 0].numel()
    if isinstance(part, P4Conv2d):  # each filter in four orientations
        return 4 * part.weight.numel() * output[0, 0].numel()
    if isinstance(part, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        return part.weight.numel() * output[0, 0].numel()
    if isinstance(part, nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d):
        return part.weight.numel() * args[0][0, 0].numel()
    if isinstance(part, nn.Linear):
        return part.in_features * output.numel()  # of a batch of one, which may be squeezed away
    return 0


def _streams(part: nn.Module) -> str:
    ends = [str(getattr(part, end, "")) for end in ("in_streams", "out_streams")]
    return " → ".join(dict.fromkeys(ends))
