"""The base class of layers on streams, and checks of arguments with one wording for all."""

from __future__ import annotations

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, fx, nn

from hnets.streams import Stream, Streams, StreamsLike, expect_image

_MOST = 1_000_000
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class StreamModule(nn.Module):
    """A layer whose input and output have the same streams, unless a subclass sets others."""

    in_streams: Streams
    out_streams: Streams

    def __init__(self, streams: StreamsLike, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        floating(dtype)
        self.in_streams = self.out_streams = Streams(streams)

    def extra_repr(self) -> str:
        """The streams, for `print`."""
        if self.in_streams == self.out_streams:
            return str(self.in_streams)
        return f"{self.in_streams} -> {self.out_streams}"


class ComputedBuffers(nn.Module, ABC):
    """A module with buffers that are computed, not learned: no state dict holds them.

    They are computed again, in float64, when the module is moved or converted, so that they have
    the full precision of the new type, and values after ``to_empty``. When
    ``load_state_dict(assign=True)`` replaces the parameters by those of another device, they are
    moved there.
    """

    @abstractmethod
    def _computed(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        """The buffers by name."""

    def _buffer_dtype(self, dtype: torch.dtype) -> torch.dtype:
        """Their type where parameters are of ``dtype``: half precision would round angles."""
        return torch.promote_types(dtype, torch.float32)

    def _add_computed(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        """Compute them for the first time; the arguments are for modules without parameters."""
        self._compute(next(self.parameters(), torch.empty(0, device=device, dtype=dtype)))
        self.register_load_state_dict_post_hook(_move_computed)

    def _compute(self, like: Tensor) -> None:
        for name, value in self._computed():
            buffer = torch.tensor(value, device=like.device, dtype=self._buffer_dtype(like.dtype))
            self.register_buffer(name, buffer, persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = list(self.buffers(recurse=False))
        super()._apply(fn, recurse)
        # A move to where they are changes nothing, and a CUDA graph may have captured them.
        if any(a is not b for a, b in zip(before, self.buffers(recurse=False), strict=True)):
            self._compute(next(chain(self.parameters(), self.buffers())))
        return self


class InputPrecisionBuffers(ComputedBuffers, ABC):
    """Computed buffers that a float64 input gets in float64, even in a module of another type."""

    def _compute(self, like: Tensor) -> None:
        super()._compute(like)
        # Plain attributes, which a graph can read; `_computed`, in NumPy, it could not call.
        self._exact = {name: torch.tensor(value, device="cpu") for name, value in self._computed()}

    def _buffer_for(self, x: Tensor, name: str) -> Tensor:
        """The buffer of that name, in at least the precision of ``x``."""
        buffer: Tensor = getattr(self, name)
        wider = x.dtype.itemsize > buffer.dtype.itemsize
        return self._exact[name].to(x) if wider else buffer


def _move_computed(module: ComputedBuffers, _: object) -> None:
    """Give buffers the device and type of parameters that ``assign=True`` replaced.

    Buffers that have them already stay the same tensors, which a CUDA graph may have captured.
    """
    buffer = next(module.buffers())
    like = next(module.parameters(), buffer)
    if like.is_meta:  # no parameters that know the device: assume CPU
        like = torch.empty(0, device="cpu", dtype=like.dtype)
    if (buffer.device, buffer.dtype) != (like.device, module._buffer_dtype(like.dtype)):
        module._compute(like)


def whole(value: Any, name: str, least: int = 1) -> int:
    """The value of an argument that counts something, such as pixels or classes."""
    if not _counts(value, least):
        raise ValueError(f"{name} is a whole number from {least}, got {value!r}")
    return _bounded(value, name)


def pair(value: Any, name: str, least: int = 1, other: str = "") -> tuple[int, int]:
    """The values for height and width of an argument that is one number for both, or two."""
    values = value if isinstance(value, tuple | list) else (value, value)
    if len(values) != 2 or not all(_counts(each, least) for each in values):
        raise ValueError(
            f"{name} is {other}a whole number from {least} or a pair of them, got {value!r}"
        )
    return _bounded(values[0], name), _bounded(values[1], name)


def square(value: Any, name: str) -> int:
    """The length of a side; a pair of equal ones is accepted, as in torch."""
    if isinstance(value, tuple | list) and len(value) == 2:
        if value[0] != value[1]:
            raise ValueError(
                f"{name} is one number for both sides: a rectangle rotated by 90 degrees is "
                f"another one, got {value!r}"
            )
        value = value[0]
    return whole(value, name)


def _counts(value: Any, least: int) -> bool:
    try:
        return not isinstance(value, bool) and operator.index(value) >= least
    except TypeError:
        return False


def _bounded(value: Any, name: str) -> int:
    """A whole number, unless it could only end in the overflow of another library."""
    if operator.index(value) > _MOST:
        raise ValueError(f"{name} is at most {_MOST:,}, got {value!r}")
    return operator.index(value)


def number(value: Any, name: str, wanted: str, low: float = 0.0, high: float = math.inf) -> float:
    """The value of an argument that is a finite number in a range."""
    real = not isinstance(value, bool) and isinstance(value, int | float)
    if not real or not low <= value <= high or math.isinf(value):
        raise ValueError(f"{name} is {wanted}, got {value!r}")
    return float(value)


def divisor_eps(value: Any, name: str) -> float:
    """The value of an argument that keeps a divisor from being 0, as in a black image."""
    return number(value, name, "a number above 0", low=1e-30)


def width(value: Any, name: str, most: float) -> float:
    """The width of a Gaussian."""
    sigma = number(value, name, "a width in pixels above 0", low=1e-9)
    if sigma > most:
        raise ValueError(f"{name} is a width of at most {most:g} pixels, got {value!r}")
    return sigma


def function(value: Callable[[Tensor], Tensor], name: str) -> Callable[[Tensor], Tensor]:
    """The value of an argument that is a function of tensors."""
    if not callable(value):
        raise TypeError(f"{name} is a function of tensors, such as torch.relu, got {value!r}")
    return value


def flag(value: object, name: str) -> bool:
    """The value of an argument that is on or off; a text, even "False", would count as on."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} is True or False (in a recipe, true or false), got {value!r}")
    return value


def probability(value: object, name: str) -> float:
    """The value of an argument that is the probability to drop something."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise ValueError(f"{name} is a probability from 0 up to but not including 1, got {value!r}")
    return value


def floating(dtype: torch.dtype | None) -> None:
    """Raise if parameters of a type are asked for that is not a floating-point type."""
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(
            f"dtype is a floating-point type such as torch.float32, got {dtype}; a complex number "
            "is two real channels here"
        )


def image(x: Tensor | fx.Proxy, who: str) -> None:
    """Raise unless ``x`` is ``(batch, channels, height, width)`` in floating point."""
    if isinstance(x, fx.Proxy):  # by which `hnets.convert` traces a network; it has no shape
        return
    expect_image(x, who)
    if not x.is_floating_point():
        raise TypeError(f"{who} expects a floating-point input, got {x.dtype}")


def gpu_order(x: Tensor) -> Tensor:
    """On a GPU in channels_last, for which cuDNN has its fastest kernels; elsewhere as it is."""
    # With a torch.fx proxy, by which `hnets.convert` traces a network, is_cuda is no bool.
    return x.contiguous(memory_format=torch.channels_last) if x.is_cuda is True else x


def highest_order(streams: StreamsLike, who: str) -> int:
    """K, if the streams are a real order 0 and orders 1 to K of one multiplicity."""
    streams = Streams(streams)
    if not is_circle(streams):
        example = circle(streams[0].multiplicity, 2)
        raise ValueError(
            f"{who} needs Fourier coefficients of real functions: a real order 0 and orders 1, 2, "
            f'... of the same multiplicity, such as "{example}", got "{streams}"'
        )
    return len(streams) - 1


def is_circle(streams: Streams) -> bool:
    """Whether streams are a real order 0 and orders 1 to K of one multiplicity."""
    return streams == circle(streams[0].multiplicity, len(streams) - 1)


def circle(width: int, order: int) -> Streams:
    """A real order 0 and orders 1 to ``order``, of one multiplicity: functions on the circle.

    >>> circle(8, 2)
    Streams("8x0r + 8x1 + 8x2")
    """
    orders = range(1, order + 1)
    return Streams((Stream(0, width, real=True), *(Stream(k, width) for k in orders)))
