"""Nonlinearities that mix orders: functions of the angle instead of the magnitude."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import InputPrecisionBuffers, StreamModule, flag, function, highest_order, whole
from hnets.nn.norm import AngularNorm2d
from hnets.streams import StreamsLike

_RELUS = (torch.relu, nn.functional.relu)


class _Circle(InputPrecisionBuffers, StreamModule):
    """Streams as functions on the circle, and the matrix that gives their values."""

    synthesis: Tensor

    def __init__(
        self,
        streams: StreamsLike,
        samples: int,
        norm: bool,
        sync: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__(streams, dtype)
        self.samples = samples
        self.norm = None
        if flag(norm, "norm"):
            self.norm = AngularNorm2d(streams, sync=sync, device=device, dtype=dtype)
        self._add_computed(device, dtype)

    def _computed(self) -> Iterator[tuple[str, NDArray[np.float64]]]:
        yield "synthesis", F.synthesis(len(self.in_streams) - 1, self.samples)

    def extra_repr(self) -> str:
        """The streams and how they are sampled, for `print`."""
        return f"{self.in_streams}, samples={self.samples}"


class FourierAct(_Circle):
    """Apply a function to values on the circle, of which the streams are Fourier coefficients.

    >>> act = FourierAct("8x0r + 8x1 + 8x2", norm=True)
    >>> act(torch.randn(2, 40, 9, 9)).shape
    torch.Size([2, 40, 9, 9])

    Unlike a function of magnitudes it mixes orders and phases. It is exactly equivariant to
    rotations by ``360 / samples`` degrees, and approximately to others, the better the more samples
    there are: the error is aliasing, from orders of the result that are too high for the samples.

    Args:
        streams: a real order 0, then orders 1 to K, all of one multiplicity.
        act: the function, of any tensor; ReLU has the fastest form.
        samples: how many angles; by default 1.5 times the number of coefficients, rounded up to a
            multiple of four, so that rotations by 90 degrees are exact.
        norm: normalise the values before the function, as `AngularNorm2d` does.
        sync: take its statistics over all processes under distributed training, on any backend.
    """

    def __init__(
        self,
        streams: StreamsLike,
        act: Callable[[Tensor], Tensor] = torch.relu,
        samples: int | None = None,
        norm: bool = False,
        sync: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        order = highest_order(streams, "FourierAct")
        samples = 4 * -(-3 * (2 * order + 1) // 8) if samples is None else whole(samples, "samples")
        if samples <= 2 * order:
            raise ValueError(
                f"{samples} samples cannot hold orders up to {order}: give at least {2 * order + 1}"
            )
        super().__init__(streams, samples, norm, sync, device, dtype)
        self.act = function(act, "act")
        self._rectifies = act in _RELUS or type(act) is nn.ReLU

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """``(batch, channels, height, width)``, normalised if built so, through the function.

        ``inplace`` as in `ModReLU`.
        """
        if not inplace:
            self.in_streams.check(x, "FourierAct")
        norm, synthesis = self.norm, self._buffer_for(x, "synthesis")
        if not self._rectifies:
            return F.fourier_act(x if norm is None else norm(x), self.act, synthesis)
        if norm is None:
            return F.fourier_relu(x, None, None, synthesis, inplace)
        how = (norm.training, norm.momentum, norm.eps, norm.group)
        return F.batch_fourier_relu(x, *norm.values, synthesis, *how, inplace)


class PolyAct(_Circle):
    """``linear·f + square·f²`` of functions f on the circle, with two learned numbers per field.

    The coefficients of f² are sums of products of those of f: a tensor product, cut off at the
    highest order. So it mixes orders and is exactly equivariant at every angle.

    >>> act = PolyAct("8x0r + 8x1 + 8x2")
    >>> act.samples                       # enough for the square of order 2 to be exact
    7

    Args:
        streams: a real order 0, then orders 1 to K, all of one multiplicity.
        norm: normalise f first, as `AngularNorm2d` does. Squares of squares grow fast, so deep
            networks need it.
        sync: take its statistics over all processes under distributed training, on any backend.
    """

    def __init__(
        self,
        streams: StreamsLike,
        norm: bool = False,
        sync: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        samples = 3 * highest_order(streams, "PolyAct") + 1
        super().__init__(streams, samples, norm, sync, device, dtype)
        empty = torch.empty(self.in_streams[0].multiplicity, device=device, dtype=dtype)
        self.linear, self.square = nn.Parameter(empty), nn.Parameter(empty.clone())
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set both numbers to a half."""
        nn.init.constant_(self.linear, 0.5)
        nn.init.constant_(self.square, 0.5)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, height, width)``, normalised if built so, through the polynomial."""
        self.in_streams.check(x, "PolyAct")
        synthesis = self._buffer_for(x, "synthesis")
        linear, square = (v.to(synthesis)[:, None, None] for v in (self.linear, self.square))
        normalised = x if self.norm is None else self.norm(x)
        return F.fourier_act(normalised, lambda f: f * (linear + square * f), synthesis)
