"""Magnitudes, and nonlinearities and dropout that act on them and leave phases alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import StreamModule, divisor_eps, function, probability
from hnets.streams import Streams, StreamsLike


class ModReLU(StreamModule):
    """The paper's C-ReLU: ``relu(|z| + b) · z/|z|``, with one learned bias per field.

    ``magnitude_eps`` is added to |z|² before it is divided by.

    >>> act = ModReLU("8x0 + 8x1")
    >>> act.bias.shape
    torch.Size([16])
    """

    def __init__(
        self,
        streams: StreamsLike,
        magnitude_eps: float = F.MAGNITUDE_EPS,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(streams, dtype)
        self.magnitude_eps = divisor_eps(magnitude_eps, "magnitude_eps")
        self.bias = nn.Parameter(torch.zeros(self.in_streams.fields, device=device, dtype=dtype))

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """Shrink (or with a positive bias, stretch) every complex number.

        ``inplace`` says that nothing else reads ``x``, and that its shape needs no check.
        """
        if not inplace:
            self.in_streams.check(x, "ModReLU")
        return F.magnitude_relu(x, None, self.bias, self.in_streams, self.magnitude_eps, inplace)

    def reset_parameters(self) -> None:
        """Set the biases to 0."""
        nn.init.zeros_(self.bias)


class ModAct(StreamModule):
    """Any function of magnitudes: ``act(|z|) · z/|z|``, with ``act`` from R+ to R+.

    >>> squash = ModAct("8x1", lambda r: r**2 / (1 + r**2))
    >>> squash(torch.randn(2, 16, 5, 5)).shape
    torch.Size([2, 16, 5, 5])
    """

    def __init__(
        self,
        streams: StreamsLike,
        act: Callable[[Tensor], Tensor],
        magnitude_eps: float = F.MAGNITUDE_EPS,
    ) -> None:
        super().__init__(streams)
        self.act = function(act, "act")
        self.magnitude_eps = divisor_eps(magnitude_eps, "magnitude_eps")

    def forward(self, x: Tensor) -> Tensor:
        """Apply the function to the magnitudes."""
        self.in_streams.check(x, "ModAct")
        return F.magnitude_act(x, self.act, self.in_streams, self.magnitude_eps)


class Gated(StreamModule):
    """Multiply every field by the sigmoid of a gate, a real channel of order 0 of its own.

    The input holds the fields and then one gate per field, so a convolution before it is built with
    ``HConv2d(..., gated.in_streams, ...)``:

    >>> Gated("8x0 + 8x1").in_streams
    Streams("8x0 + 8x1 + 16x0r")
    """

    def __init__(self, streams: StreamsLike) -> None:
        super().__init__(streams)
        self.in_streams = self.out_streams + f"{self.out_streams.fields}x0r"

    def forward(self, x: Tensor) -> Tensor:
        """Gate the fields; the gates themselves are not part of the output."""
        self.in_streams.check(x, "Gated")
        channels = self.out_streams.channels
        return F.gate(x[:, :channels], x[:, channels:], self.out_streams)


class HDropout2d(StreamModule):
    """In training, zero whole complex channels with probability ``p`` and scale up the others."""

    def __init__(self, streams: StreamsLike, p: float = 0.5) -> None:
        super().__init__(streams)
        self.p = probability(p, "p")

    def forward(self, x: Tensor) -> Tensor:
        """Drop channels in training; nothing otherwise."""
        self.in_streams.check(x, "HDropout2d")
        return F.dropout(x, self.p, self.in_streams, self.training)

    def extra_repr(self) -> str:
        """The streams and the probability, for `print`."""
        return f"{self.in_streams}, p={self.p}"


class Magnitude(StreamModule):
    """|z| per field, which does not change when the input is rotated: real channels of order 0.

    >>> Magnitude("16x0 + 16x1").out_streams, Magnitude("10x0 + 10x1", combine="sum").out_streams
    (Streams("32x0r"), Streams("10x0r"))

    Args:
        streams: layout of the input.
        combine: ``"stack"`` the streams one after the other, or ``"sum"`` them over the orders,
            for which they need the same multiplicity.
    """

    def __init__(self, streams: StreamsLike, combine: Literal["stack", "sum"] = "stack") -> None:
        super().__init__(streams)
        if combine not in ("stack", "sum"):
            raise ValueError(f'combine is "stack" or "sum", got {combine!r}')
        self.combine, width = combine, self.in_streams.fields
        if combine == "sum":
            widths = {stream.multiplicity for stream in self.in_streams}
            if len(widths) > 1:
                raise ValueError(
                    f"a sum over orders needs streams of equal multiplicity, got {self.in_streams}"
                )
            (width,) = widths
        self.out_streams = Streams(f"{width}x0r")

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, ...)`` to ``(batch, fields, ...)``."""
        self.in_streams.check(x, "Magnitude")
        lengths = F.magnitude(x, self.in_streams)
        if self.combine == "stack":
            return lengths
        sizes = (len(self.in_streams), self.out_streams.fields)
        return torch.unflatten(lengths, 1, sizes).sum(1)
