"""What flows through a network: the maps of its layers, noted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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

__all__ = ["Kind", "Maps", "harmonic_layers", "trace"]

Kind = Literal["layer", "pooling", "answer"]
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
    """The maps of every layer, each after its nonlinearity, of every pooling, and the answer.

    A layer is a convolution with what follows it directly and keeps its shape. Pooling is seen
    where it is a module, and where the next convolution is given smaller maps than the last one
    made. Channels of a module that names no ``out_streams`` are taken for real ones of order 0; of
    the four orientations that a `P4Conv2d` gives, the largest is taken.
    """
    notes = _Notes()
    with torch.no_grad(), _watching(module, notes):
        answer = module(x)
    if not isinstance(answer, Tensor) or answer.dim() not in (2, 4):
        raise InputError(
            f"expected {type(module).__name__} to answer with a tensor (batch, channels) or "
            f"(batch, channels, height, width), got {_described(answer)}"
        )
    streams = getattr(module, "out_streams", None)
    if notes.named is not None and notes.named[0] is answer:
        streams = notes.named[1]
    if not isinstance(streams, Streams) or streams.channels != answer.shape[1]:
        streams = Streams(f"{answer.shape[1]}x0r")
    return [*notes.maps, Maps("answer", "answer", streams, answer)]


def harmonic_layers(module: nn.Module, x: Tensor) -> list[Maps]:
    """The maps of the layers that have streams."""
    if not any(isinstance(part, _HARMONIC) for part in module.modules()):
        raise InputError(
            f"expected a network with harmonic convolutions, and {type(module).__name__} has none; "
            "use hnet_mnist or hdsn"
        )
    return [maps for maps in trace(module, x) if maps.kind == "layer"]


class _Notes:
    """Steps as they happen; what a step is shows only when the next one comes."""

    def __init__(self) -> None:
        self.maps: list[Maps] = []
        self.last: Tensor | None = None
        self.named: tuple[Tensor, Streams] | None = None
        """What the latest part that names its streams has made: the answer, perhaps."""
        self.turns = 1
        self.layers = 0

    def before(self, x: Tensor) -> None:
        """A convolution is given maps: was something pooled on the way?"""
        if not self.maps or self.last is x:
            return
        now = self.maps[-1]
        if _shrunk(now.values, x) and self._channels(x) == now.streams.channels:
            self._pooled(x)

    def layer(self, part: nn.Module, y: Tensor) -> None:
        """A convolution has made maps."""
        self.layers += 1
        self.turns = 4 if isinstance(part, P4Conv2d) and not part.pool else 1
        streams = getattr(part, "out_streams", None)
        if not isinstance(streams, Streams):
            streams = Streams(f"{self._channels(y)}x0r")
        self._add(f"layer {self.layers}", "layer", streams, y)

    def follow(self, x: Tensor, y: Tensor) -> None:
        """Something else has made maps y of maps x."""
        if not self.maps or x is not self.last:
            return
        now = self.maps[-1]
        if y.shape == x.shape:
            self.maps.pop()
            self._add(now.name, now.kind, now.streams, y)
        elif _shrunk(x, y) and y.shape[1] == x.shape[1] and min(y.shape[2:]) > 1:
            self._pooled(y)

    def _pooled(self, y: Tensor) -> None:
        self._add(f"pooling {self.layers}", "pooling", self.maps[-1].streams, y)

    def _channels(self, y: Tensor) -> int:
        return y.shape[1] // self.turns

    def _add(self, name: str, kind: Kind, streams: Streams, y: Tensor) -> None:
        self.last = y
        # Copied: what follows may overwrite it.
        seen = y.unflatten(1, (-1, 4)).amax(2) if self.turns == 4 else y.clone()
        self.maps.append(Maps(name, kind, streams, seen))


@contextmanager
def _watching(module: nn.Module, notes: _Notes) -> Iterator[None]:
    inside = {
        part for conv in module.modules() if isinstance(conv, _HARMONIC) for part in conv.modules()
    }
    hooks = []
    for part in module.modules():
        if isinstance(part, _CONVOLUTIONS):
            if _size(part) > 1:
                hooks.append(part.register_forward_pre_hook(_before(notes)))
                hooks.append(part.register_forward_hook(_after(notes)))
        elif part not in inside and not list(part.children()):
            hooks.append(part.register_forward_hook(_after(notes)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _size(conv: Any) -> int:
    size = conv.kernel_size
    return max(size) if isinstance(size, tuple) else size


def _before(notes: _Notes) -> Callable[..., None]:
    return lambda part, args: notes.before(args[0]) if _is_map(args[:1]) else None


def _after(notes: _Notes) -> Callable[..., None]:
    def note(part: nn.Module, args: tuple[Any, ...], y: Any) -> None:
        if isinstance(part, _CONVOLUTIONS) and _is_map([y]):
            notes.layer(part, y)
        elif _is_map([*args[:1], y]):
            notes.follow(args[0], y)
        streams = getattr(part, "out_streams", None)
        if isinstance(y, Tensor) and isinstance(streams, Streams):
            notes.named = y, streams

    return note


def _is_map(values: Any) -> bool:
    return all(isinstance(value, Tensor) and value.dim() == 4 for value in values)


def _shrunk(x: Tensor, y: Tensor) -> bool:
    """Whether y has clearly fewer pixels a side than x: more than borders that are cut off."""
    return y.dim() == 4 and 3 * y.shape[2] <= 2 * x.shape[2]


def _described(value: object) -> str:
    return f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
