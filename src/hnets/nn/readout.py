"""From streams to invariant real numbers."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import StreamModule
from hnets.nn._checks import image
from hnets.streams import Streams, StreamsLike


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
        by_order: Tensor = lengths.unflatten(1, (len(self.in_streams), self.out_streams.fields))
        return by_order.sum(1)


class GlobalMean(nn.Module):
    """Mean over the image: ``(batch, channels, height, width)`` to ``(batch, channels)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Average over height and width."""
        image(x, "GlobalMean")
        return x.mean((2, 3))
