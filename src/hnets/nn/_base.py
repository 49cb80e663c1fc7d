"""The base class of layers on streams."""

from __future__ import annotations

import torch
from torch import nn

from hnets.nn._checks import floating
from hnets.streams import Streams, StreamsLike


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
