"""Residual blocks: dense, or light (depthwise and 1×1), and gates from invariants."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.basis import Rings
from hnets.nn._base import StreamModule, flag, is_circle, square, whole
from hnets.nn.angular import FourierAct
from hnets.nn.conv import HConv2d, all_kernels
from hnets.nn.norm import HBatchNorm2d
from hnets.nn.resample import HAvgPool2d
from hnets.streams import Streams, StreamsLike

Make = Callable[..., HConv2d]
_GAIN = 0.25
"""Of the initial weights of the last convolution of a block: twenty blocks about double the power
of a normalised map, or less, and gradients reach all weights from the start."""


class SqueezeExcite(StreamModule):
    """Multiply every field by a gate from 0 to 1 that depends on the whole image.

    The gates are ``sigmoid(MLP(v))``, where v are means over the image of numbers that a rotation
    does not change: of the real order 0 where the streams have one, else of all magnitudes.

    >>> gates = SqueezeExcite("8x0r + 8x1 + 8x2")
    >>> gates(torch.randn(2, 40, 9, 9)).shape
    torch.Size([2, 40, 9, 9])

    Args:
        streams: layout of input and output.
        reduction: how many times fewer hidden values the MLP has than there are gates.
    """

    def __init__(
        self,
        streams: StreamsLike,
        reduction: int = 4,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(streams, dtype)
        fields = self.in_streams.fields
        places = zip(self.in_streams, self.in_streams.slices, strict=True)
        self._real = [where for stream, where in places if stream.real]
        invariants = sum(where.stop - where.start for where in self._real) or fields
        hidden = max(1, fields // whole(reduction, "reduction"))
        self.squeeze = nn.Linear(invariants, hidden, device=device, dtype=dtype)
        self.excite = nn.Linear(hidden, fields, device=device, dtype=dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Gate ``(batch, channels, height, width)``."""
        self.in_streams.check(x, "SqueezeExcite", image=True, dtype=self.squeeze.weight.dtype)
        if self._real:
            means = torch.cat([x[:, where].mean((2, 3)) for where in self._real], 1)
        else:
            means = F.magnitude(x, self.in_streams).mean((2, 3))
        gates = self.excite(torch.relu(self.squeeze(means)))
        return F.gate(x, gates[:, :, None, None], self.in_streams)


class _Block(StreamModule, ABC):
    """``skip(x) + body(x)``, both after a mean over stride×stride pixels."""

    def __init__(
        self,
        in_streams: StreamsLike,
        out_streams: StreamsLike,
        kernel_size: int | tuple[int, int] = 5,
        *,
        stride: int | tuple[int, int] = 1,
        mirror: bool = False,
        rings: Rings | None = None,
        squeeze: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__(in_streams, dtype)
        self.out_streams = Streams(out_streams)
        self.stride = square(stride, "stride")
        self.pool = HAvgPool2d(self.stride) if self.stride > 1 else None
        if rings is None:
            rings = "gaussian" if square(kernel_size, "kernel_size") > 3 else "exact"
        kinds = all_kernels(flag(mirror, "mirror"))
        like: dict[str, Any] = {"device": device, "dtype": dtype}
        mix: Make = partial(HConv2d, kernel_size=1, **kinds, **like)
        options = {"rings": rings} | kinds | like | options

        def conv(into: Streams, out: Streams, **fixed: Any) -> HConv2d:
            # What the block fixes is not among the options: giving both is an error.
            return HConv2d(into, out, kernel_size, padding="same", **fixed, **options)

        self.skip = None
        if self.in_streams != self.out_streams:
            if set(self.out_streams.orders) != set(self.in_streams.orders):
                raise ValueError(
                    f"{type(self).__name__} takes and gives the same orders, as its skip joins "
                    f'equal ones; "{self.in_streams}" → "{self.out_streams}" does not: make them '
                    "with an HConv2d first"
                )
            self.skip = mix(self.in_streams, self.out_streams)
        *layers, last = self._layers(conv, mix, like)
        if flag(squeeze, "squeeze"):
            layers.append(SqueezeExcite(last.in_streams, **like))
        self.body = nn.Sequential(*layers, last)
        self.reset_parameters()

    @abstractmethod
    def _layers(self, conv: Make, mix: Make, like: dict[str, Any]) -> list[Any]:
        """The body: layers made by these functions of input and output streams."""

    @property
    def mirror(self) -> bool:
        """Whether the block commutes with reflections."""
        return all(part.mirror for part in self.modules() if isinstance(part, HConv2d))

    def reset_parameters(self) -> None:
        """Draw new filters, those of the last convolution small."""
        for part in (self.skip, *self.body):
            if isinstance(part, HConv2d):
                part.reset_parameters()
        last = self.body[-1]
        assert isinstance(last, HConv2d)
        with torch.no_grad():
            for weight in last.filters.radial.values():
                weight.mul_(_GAIN)

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, channels, height, width)``, both smaller by the stride."""
        self.in_streams.check(x, type(self).__name__, image=True)
        if self.pool is not None:
            x = self.pool(x)
        return (x if self.skip is None else self.skip(x)) + self.body(x)


class ResidualBlock(_Block):
    """``skip(x) + conv(act(conv(act(x))))`` with dense k×k convolutions, as in ResNet v2.

    >>> block = ResidualBlock("8x0r + 8x1", "16x0r + 16x1", kernel_size=5, stride=2, mirror=True)
    >>> block(torch.randn(2, 24, 16, 16)).shape
    torch.Size([2, 48, 8, 8])

    Each ``act`` normalises first: `FourierAct(norm=True)` where the streams are a real order 0 and
    orders 1 to K of one multiplicity, else `HBatchNorm2d`. The sum has none, so put one before a
    read-out. The skip is the input, or a 1×1 convolution where the streams differ.

    Args:
        in_streams: layout of the input.
        out_streams: layout of the output, of the same orders.
        kernel_size: pixels along a side of the kernels, an odd number.
        stride: factor by which height and width shrink, by `HAvgPool2d` before all else: where it
            divides them, the centre of the image stays a centre of equivariance.
        mirror: also commute with reflections, as in `HConv2d`. The filters are all those that are
            equivariant: without mirrors with ``phase="free"``.
        rings: those of `HConv2d`; by default ``"gaussian"`` from 5×5.
        squeeze: gate the fields before the last convolution, as `SqueezeExcite` does.
        options: other arguments of the k×k `HConv2d`, such as ``phase`` or ``padding_mode``; the
            padding is ``"same"``.
    """

    def _layers(self, conv: Make, mix: Make, like: dict[str, Any]) -> list[Any]:
        into, out = self.in_streams, self.out_streams
        return [_act(into, like), conv(into, out), _act(out, like), conv(out, out)]


class LightBlock(_Block):
    """``skip(x) + mix(act(depthwise(x)))``: k×k convolutions of each field, then 1×1 between them.

    >>> block = LightBlock("16x0r + 16x1", "16x0r + 16x1", kernel_size=5, mirror=True)
    >>> block(torch.randn(2, 48, 9, 9)).shape
    torch.Size([2, 48, 9, 9])
    >>> import hnets
    >>> [hnets.cost(net, (48, 9, 9)).multiplications // 81          # per pixel
    ...  for net in (block, HConv2d("16x0r + 16x1", "16x0r + 16x1", 5, padding="same"))]
    [4368, 57600]

    The depthwise convolution mixes orders but not fields; the 1×1 one mixes fields but not orders.
    Arguments and ``act`` are those of `ResidualBlock`, without ``groups``, which are the
    multiplicity of the streams, or the greatest common divisor where multiplicities differ.
    """

    def _layers(self, conv: Make, mix: Make, like: dict[str, Any]) -> list[Any]:
        into = self.in_streams
        fields = math.gcd(*(stream.multiplicity for stream in into))
        return [conv(into, into, groups=fields), _act(into, like), mix(into, self.out_streams)]


def _act(streams: Streams, like: dict[str, Any]) -> FourierAct | HBatchNorm2d:
    if is_circle(streams):
        return FourierAct(streams, norm=True, **like)
    return HBatchNorm2d(streams, **like)
