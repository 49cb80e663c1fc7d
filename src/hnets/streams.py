"""Which channel of a plain tensor belongs to which rotation order.

A feature map is an ordinary real tensor ``(batch, channels, height, width)``. Its layout is a
small frozen value, known when a module is built, that never travels with the tensor. It says what
rotations (`Streams.rotate`) and reflections (`Streams.reflect`) of an image do to the values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import NamedTuple, Union, overload

import torch
from torch import Tensor

_TERM = re.compile(r"(\d+)x(-?\d+)(r?)")
_HIGHEST_ORDER = 1000
_MOST_CHANNELS = 1_000_000
_EXAMPLE = (
    '"8x0 + 8x1" (8 complex channels of order 0 and 8 of order 1) or "3x0r" (3 real channels)'
)


@dataclass(frozen=True)
class Stream:
    """Feature maps of one rotation order: ``multiplicity`` channels that rotate as exp(i·order·θ).

    >>> Stream(order=1, multiplicity=8)
    Stream("8x1")
    """

    order: int
    multiplicity: int
    real: bool = False

    def __post_init__(self) -> None:
        for name in ("order", "multiplicity"):
            if not hasattr(value := getattr(self, name), "__index__"):
                raise ValueError(f"the {name} of a stream is a whole number, got {value!r}")
        if self.multiplicity < 1:
            raise ValueError(f'a stream needs at least one channel, got "{self}"; write {_EXAMPLE}')
        if self.multiplicity > _MOST_CHANNELS:
            raise ValueError(f'a stream has at most {_MOST_CHANNELS:,} channels, got "{self}"')
        if abs(self.order) > _HIGHEST_ORDER:
            raise ValueError(
                f"rotation orders go from -{_HIGHEST_ORDER} to {_HIGHEST_ORDER}, because no kernel "
                f'of a useful size can carry others, got "{self}"'
            )
        if self.real and self.order != 0:
            raise ValueError(
                f'only order 0 can be real (real numbers cannot rotate), got "{self}"; '
                f'write "{self.multiplicity}x{self.order}" or "{self.multiplicity}x0r"'
            )

    @property
    def parts(self) -> int:
        """Real numbers per channel: 2 (real, imaginary), or 1 where the stream is real."""
        return 1 if self.real else 2

    @property
    def channels(self) -> int:
        """Real channels in the tensor."""
        return self.parts * self.multiplicity

    def __str__(self) -> str:
        return f"{self.multiplicity}x{self.order}{'r' if self.real else ''}"

    def __repr__(self) -> str:
        return f'Stream("{self}")'


class StreamRun(NamedTuple):
    """``streams`` neighbouring streams that share their number of parts and multiplicity."""

    streams: int
    parts: int
    multiplicity: int

    @property
    def channels(self) -> int:
        """Real channels of the run in the tensor."""
        return self.streams * self.parts * self.multiplicity

    @property
    def fields(self) -> int:
        """Magnitudes of the run."""
        return self.streams * self.multiplicity


class Streams:
    """An immutable sequence of `Stream`: the channel layout of a feature map.

    Stream after stream; within a stream the real block, then the imaginary block. ``a + b`` is the
    layout of ``torch.cat([x, y], dim=1)``, so an order may occur more than once.

    >>> s = Streams("8x0 + 8x1")       # 8 complex channels of order 0, then 8 of order 1
    >>> s.channels, s.fields           # real channels, complex channels
    (32, 16)
    >>> s = Streams("16x0r + 16x1 + 16x2")
    >>> s[1:]
    Streams("16x1 + 16x2")
    >>> s + "4x-1" == Streams("16x0r + 16x1 + 16x2 + 4x-1")
    True
    >>> [stream.order for stream in s]
    [0, 1, 2]
    """

    _streams: tuple[Stream, ...]
    _hash: int
    channels: int
    """Real channels in the tensor."""
    fields: int
    """Channels that each have one magnitude: a complex one counts once."""
    orders: tuple[int, ...]
    """Distinct rotation orders, as they first occur."""
    slices: tuple[slice, ...]
    """Where each stream's real channels lie in the tensor."""
    runs: tuple[StreamRun, ...]
    """Neighbouring streams of equal multiplicity and kind, which one view covers."""

    def __init__(self, spec: StreamsLike) -> None:
        try:
            streams = _parse(spec) if isinstance(spec, str) else tuple(spec)
        except TypeError:  # not even a sequence
            streams = ()
        if not streams or not all(isinstance(s, Stream) for s in streams):
            raise ValueError(f"streams are text such as {_EXAMPLE} or Stream values, got {spec!r}")
        ends = tuple(accumulate(s.channels for s in streams))
        runs = groupby(streams, key=lambda s: (s.parts, s.multiplicity))
        # Plain attributes, computed once: modules read them inside graphs that must not break.
        self.__dict__.update(
            _streams=streams,
            _hash=hash(streams),  # kept, as every launch on a GPU is looked up by it
            channels=ends[-1],
            fields=sum(s.multiplicity for s in streams),
            orders=tuple(dict.fromkeys(s.order for s in streams)),
            slices=tuple(slice(e - s.channels, e) for e, s in zip(ends, streams, strict=True)),
            runs=tuple(StreamRun(len(list(run)), *key) for key, run in runs),
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("Streams is a value and cannot be changed; build a new one")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("Streams is a value and cannot be changed; build a new one")

    def __reduce__(self) -> tuple[type[Streams], tuple[str]]:
        return Streams, (str(self),)

    def __iter__(self) -> Iterator[Stream]:
        return iter(self._streams)

    def __len__(self) -> int:
        return len(self._streams)

    @overload
    def __getitem__(self, index: int) -> Stream: ...
    @overload
    def __getitem__(self, index: slice) -> Streams: ...
    def __getitem__(self, index: int | slice) -> Stream | Streams:
        if isinstance(index, slice):
            return Streams(self._streams[index])
        return self._streams[index]

    def __add__(self, other: StreamsLike) -> Streams:
        return Streams(self._streams + Streams(other)._streams)

    def __radd__(self, other: StreamsLike) -> Streams:
        return Streams(other) + self

    def __mul__(self, times: int) -> Streams:
        return Streams(self._streams * times)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Streams) and self._streams == other._streams

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return " + ".join(map(str, self._streams))

    def __repr__(self) -> str:
        return f'Streams("{self}")'

    def check(
        self, x: Tensor, who: str, image: bool = False, dtype: torch.dtype | None = None
    ) -> None:
        """Raise unless ``x`` is a floating-point tensor with these channels in dimension 1.

        ``image`` also asks for ``(batch, channels, height, width)``, and ``dtype`` for an input
        that a convolution can combine with parameters of that type.
        """
        if image:
            expect_image(x, who)
        if x.dim() < 2 or x.shape[1] != self.channels:
            raise ValueError(
                f"{who} expects {self} = {self.channels} channels in dimension 1, "
                f"got an input of shape {tuple(x.shape)}"
            )
        if not x.is_floating_point():
            advice = "convert it with x.float()"
            if x.is_complex():
                advice = "put its parts into channels: torch.cat([x.real, x.imag], 1)"
            raise TypeError(f"{who} expects a floating-point input, got {x.dtype}; {advice}")
        if dtype is not None and x.dtype != dtype and not _autocast(x, dtype):
            raise TypeError(
                f"{who} has parameters of {dtype} and got an input of {x.dtype}; convert the input "
                f"with x.to({dtype}), or the layer with .to({x.dtype})"
            )

    def rotate(self, x: Tensor, theta: float | Tensor) -> Tensor:
        """Multiply every stream by exp(i·order·θ): its value when the input is rotated by θ.

        ``x`` is ``(batch, channels, ...)``; ``theta`` is in radians, counter-clockwise, one angle
        or one per element of the batch. The pixels stay where they are; see
        `hnets.functional.rotate` for the action on a whole feature map.

        >>> x = torch.tensor([[1.0, 0.0]])                   # the number 1, as a "1x1" stream
        >>> Streams("1x1").rotate(x, torch.pi).round()       # rotated by 180 degrees
        tensor([[-1., -0.]])
        """
        self.check(x, "Streams.rotate")
        # Half precision would round the angle.
        wide = torch.promote_types(x.dtype, torch.float32)
        theta = torch.as_tensor(theta, dtype=wide, device=x.device)
        if theta.dim() > 0:
            theta = theta.reshape(-1, *[1] * (x.dim() - 1))
        rotated = []
        for stream, where in zip(self, self.slices, strict=True):
            part = x[:, where]
            if stream.order != 0:
                angle = stream.order * theta
                cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
                re, im = part.chunk(2, dim=1)
                part = torch.cat([cos * re - sin * im, sin * re + cos * im], dim=1)
            rotated.append(part)
        return torch.cat(rotated, dim=1)

    def reflect(self, x: Tensor, axis: float | Tensor = 0.0) -> Tensor:
        """Replace every stream z by exp(2i·order·axis)·conj(z): its value in the mirrored image.

        The image is mirrored across a line at the angle ``axis``, in radians from +x, one angle or
        one per element of the batch: 0 exchanges above and below, π/2 left and right. A real
        stream is *even*, it stays the same. A complex order 0 is two things: its real part is
        even, and its imaginary part is *odd*, it changes sign. Together with the orders from 1 up
        these are all irreducible representations of O(2).

        Layers with ``mirror=True`` commute with this. The pixels stay where they are; see
        `hnets.functional.reflect` for the action on a whole feature map.

        >>> x = torch.tensor([[3.0, 4.0, 3.0, 4.0]])         # the number 3 + 4i in both orders
        >>> Streams("1x0 + 1x1").reflect(x)
        tensor([[ 3., -4.,  3., -4.]])
        >>> Streams("1x0 + 1x1").reflect(x, torch.pi / 2).round()
        tensor([[ 3., -4., -3.,  4.]])
        """
        self.check(x, "Streams.reflect")
        conjugated = []
        for stream, where in zip(self, self.slices, strict=True):
            part = x[:, where]
            if not stream.real:
                re, im = part.chunk(2, dim=1)
                part = torch.cat([re, -im], dim=1)
            conjugated.append(part)
        return self.rotate(torch.cat(conjugated, dim=1), 2 * axis)


StreamsLike = Union[str, Streams, Iterable[Stream]]  # noqa: UP007 - evaluated, holds a forward name


def expect_image(x: Tensor, who: str) -> None:
    """Raise unless ``x`` is ``(batch, channels, height, width)``."""
    if x.dim() != 4:
        raise ValueError(
            f"{who} expects an input of shape (batch, channels, height, width), "
            f"got {tuple(x.shape)}"
        )


def _autocast(x: Tensor, dtype: torch.dtype) -> bool:
    """Whether autocast brings an input and parameters to one type; float64 it leaves alone."""
    if torch.float64 in (x.dtype, dtype) or x.is_meta:
        return False
    return torch.is_autocast_enabled(x.device.type)


def _parse(text: str) -> tuple[Stream, ...]:
    streams = []
    for term in text.split("+"):
        match = _TERM.fullmatch(term.strip())
        if match is None:
            raise ValueError(
                f'cannot read streams from "{text}": "{term.strip()}" is not a count, an x and a '
                f"rotation order; write {_EXAMPLE}"
            )
        multiplicity, order, real = match.groups()
        try:
            streams.append(Stream(int(order), int(multiplicity), real == "r"))
        except ValueError as error:
            raise ValueError(f'cannot read streams from "{text}": {error}') from None
    return tuple(streams)
