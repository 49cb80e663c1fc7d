"""Nonlinearities and dropout, which act on magnitudes and leave phases alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import StreamModule
from hnets.nn._checks import function, number, probability
from hnets.streams import StreamsLike


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
        self.magnitude_eps = number(magnitude_eps, "magnitude_eps", "a number from 0")
        self.inplace = False
        """Whether inference may overwrite the input; `hnets.freeze` sets it where it may."""
        self.bias = nn.Parameter(torch.zeros(self.in_streams.fields, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        """Shrink (or with a positive bias, stretch) every complex number."""
        self.in_streams.check(x, "ModReLU")
        return F.modrelu(x, self.bias, self.in_streams, self.magnitude_eps, self.inplace)

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
        self.magnitude_eps = number(magnitude_eps, "magnitude_eps", "a number from 0")

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
