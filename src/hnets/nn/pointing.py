"""Biases of every order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._checks import rank
from hnets.streams import Streams, StreamsLike

__all__ = ["PointingBias"]


class PointingBias(nn.Module):
    """Add a learned number to each field, turned into a direction that each picture has.

    A constant may be added to order 0 only: in any other it would stay as it is when the picture
    turns. It may be added to all if it turns too, and for that it needs a direction, such as that
    to the picture's centre of mass, `hnets.functional.mass_direction`. A network that is told of it
    sees where things lie in the picture, and turns with the picture as before.

    >>> bias = PointingBias("4x0r + 4x1 + 4x2")
    >>> picture, maps = torch.rand(2, 1, 28, 28), torch.randn(2, 20, 28, 28)
    >>> bias(maps, F.mass_direction(picture)).shape
    torch.Size([2, 20, 28, 28])

    `hnets.testing.assert_equivariant` gives one input: test a module around it that takes the
    picture and finds the direction itself, as `hnets.models.HNetFourier` does.

    Args:
        streams: layout of what it is added to.
        device: where the parameters are made.
        dtype: type of the parameters.
    """

    def __init__(
        self,
        streams: StreamsLike,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.in_streams = self.out_streams = Streams(streams)
        channels = self.in_streams.channels
        self.weight = nn.Parameter(torch.empty(channels, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the numbers anew, smaller than the maps of a new network."""
        nn.init.normal_(self.weight, std=0.3)

    def forward(self, x: Tensor, direction: Tensor) -> Tensor:
        """Streams ``(batch, channels, height, width)`` and directions ``(batch, 2)``."""
        rank(x, "PointingBias")
        self.in_streams.check(x, "PointingBias")
        if direction.shape != (x.shape[0], 2):
            raise ValueError(
                f"PointingBias expects a direction for each picture, of shape ({x.shape[0]}, 2), "
                f"got {tuple(direction.shape)}"
            )
        bias = F.pointing(self.weight, direction.to(self.weight.dtype), self.in_streams)
        return x + bias[:, :, None, None].to(x.dtype)

    def extra_repr(self) -> str:
        """The streams, for `print`."""
        return str(self.in_streams)
