"""What flows through a network: the maps of its layers, recorded while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from hnets.errors import InputError
from hnets.models._p4cnn import P4Conv2d
from hnets.nn import HConv2d
from hnets.nn.conv import FrozenHConv2d
from hnets.streams import Streams

Kind = Literal["layer", "pooling", "output"]
_HARMONIC = (HConv2d, FrozenHConv2d)
_CONVOLUTIONS = (*_HARMONIC, P4Conv2d, nn.Conv2d)


@dataclass(frozen=True, eq=False)
class Maps:
    """What one step of a network gives."""

    name: str
    """Such as "layer 2": convolutions of more than one pixel are counted from 1."""
    kind: Kind
    streams: Streams
    values: Tensor
    """``(batch, channels, height, width)``, or ``(batch, channels)``."""


def trace(module: nn.Module, x: Tensor) -> list[Maps]:
    """The maps of every layer, each after its nonlinearity, of every pooling, and the output.

    A layer is a convolution with what follows it directly and keeps its shape. Pooling is seen
    where it is a module, and where the next convolution gets smaller maps than the last one
    made. Channels of a module that names no ``out_streams`` are taken for real ones of order 0; of
    the four orientations that a `P4Conv2d` gives, the largest is taken.
    """
    recorder = _Recorder()
    with torch.no_grad(), recorder.watching(module):
        output = module(x)
    if not isinstance(output, Tensor) or output.dim() not in (2, 4):
        shape = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else ""
        raise InputError(
            f"expected {type(module).__name__} to return a tensor (batch, channels) or "
            f"(batch, channels, height, width), got {shape or type(output).__name__}"
        )
    streams = getattr(module, "out_streams", None)
    if recorder.named is not None and recorder.named[0] is output:
        streams = recorder.named[1]
    if not isinstance(streams, Streams) or streams.channels != output.shape[1]:
        streams = Streams(f"{output.shape[1]}x0r")
    return [*recorder.maps, Maps("output", "output", streams, output)]


def harmonic_layers(module: nn.Module, x: Tensor) -> list[Maps]:
    """The maps of the layers of a network with harmonic convolutions."""
    if not any(isinstance(part, _HARMONIC) for part in module.modules()):
        raise InputError(
            f"expected a network with harmonic convolutions, and {type(module).__name__} has none; "
            "use hnet_mnist or hdsn"
        )
    return [maps for maps in trace(module, x) if maps.kind == "layer"]


class _Recorder:
    """Steps as they happen; what a step is shows only when the next one comes."""

    def __init__(self) -> None:
        self.maps: list[Maps] = []
        self.last: Tensor | None = None
        self.named: tuple[Tensor, Streams] | None = None
        """What the latest part that names its streams has made: the output, perhaps."""
        self.orientations = 1
        self.layers = 0

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Record what the parts of a module do."""
        convs = [part for part in module.modules() if isinstance(part, _HARMONIC)]
        inside = {part for conv in convs for part in conv.modules()}
        hooks = []
        for part in module.modules():
            if isinstance(part, _CONVOLUTIONS):
                size = part.kernel_size
                if (max(size) if isinstance(size, tuple) else size) > 1:
                    hooks.append(part.register_forward_pre_hook(self._before))
                    hooks.append(part.register_forward_hook(self._after))
            elif part not in inside and not list(part.children()):
                hooks.append(part.register_forward_hook(self._after))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _before(self, part: nn.Module, args: tuple[Any, ...]) -> None:
        """A convolution gets maps: was something pooled on the way?"""
        if not self.maps or not _is_map(*args[:1]) or self.last is args[0]:
            return
        now, x = self.maps[-1], args[0]
        if _shrunk(now.values, x) and self._channels(x) == now.streams.channels:
            self._pooled(x)

    def _after(self, part: nn.Module, args: tuple[Any, ...], y: Any) -> None:
        streams = getattr(part, "out_streams", None)
        if isinstance(part, _CONVOLUTIONS) and _is_map(y):
            self.layers += 1
            self.orientations = 4 if isinstance(part, P4Conv2d) and not part.pool else 1
            own = streams if isinstance(streams, Streams) else Streams(f"{self._channels(y)}x0r")
            self._add(f"layer {self.layers}", "layer", own, y)
        elif self.last is not None and _is_map(*args[:1], y) and args[0] is self.last:
            x = self.last
            if y.shape == x.shape:  # a nonlinearity: its maps take the place of the latest
                now = self.maps.pop()
                self._add(now.name, now.kind, now.streams, y)
            elif _shrunk(x, y) and y.shape[1] == x.shape[1] and min(y.shape[2:]) > 1:
                self._pooled(y)
        if isinstance(y, Tensor) and isinstance(streams, Streams):
            self.named = y, streams

    def _pooled(self, y: Tensor) -> None:
        self._add(f"pooling {self.layers}", "pooling", self.maps[-1].streams, y)

    def _channels(self, y: Tensor) -> int:
        return y.shape[1] // self.orientations

    def _add(self, name: str, kind: Kind, streams: Streams, y: Tensor) -> None:
        self.last = y
        # Copied: what follows may overwrite it.
        seen = y.unflatten(1, (-1, 4)).amax(2) if self.orientations == 4 else y.clone()
        self.maps.append(Maps(name, kind, streams, seen))


def _is_map(*values: Any) -> bool:
    return all(isinstance(value, Tensor) and value.dim() == 4 for value in values)


def _shrunk(x: Tensor, y: Tensor) -> bool:
    """Whether y has clearly fewer pixels per side than x: more than borders that are cut off."""
    return 3 * y.shape[2] <= 2 * x.shape[2]
