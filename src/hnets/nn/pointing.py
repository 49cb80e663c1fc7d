"""Biases of every order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import StreamModule, flag
from hnets.streams import StreamsLike


class PointingBias(StreamModule):
    """Add a learned number to each field, rotated to a direction that each image has.

    A constant may be added to order 0 only: in any other it would not rotate with the image. It may
    be added to all orders if it is rotated too, and for that it needs a direction, such as that to
    the image's centre of mass, `hnets.functional.mass_direction`. A network with that direction
    knows where things lie in the image, and is as equivariant as before.

    >>> bias = PointingBias("4x0r + 4x1 + 4x2")
    >>> image, maps = torch.rand(2, 1, 28, 28), torch.randn(2, 20, 28, 28)
    >>> bias(maps, F.mass_direction(image)).shape
    torch.Size([2, 20, 28, 28])

    `hnets.testing.assert_equivariant` gives one input: test a module around it that takes the
    image and computes the direction itself, as `hnets.models.HNetFourier` does.

    Args:
        streams: layout of input and output.
        mirror: also commute with reflections: the numbers are then real, one per field.
    """

    def __init__(
        self,
        streams: StreamsLike,
        mirror: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(streams, dtype)
        self.mirror = flag(mirror, "mirror")
        numbers = self.in_streams.fields if mirror else self.in_streams.channels
        self.weight = nn.Parameter(torch.empty(numbers, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new numbers, smaller than the maps of a new network."""
        nn.init.normal_(self.weight, std=0.3)

    def forward(self, x: Tensor, direction: Tensor) -> Tensor:
        """Streams ``(batch, channels, height, width)`` and directions ``(batch, 2)``."""
        self.in_streams.check(x, "PointingBias", image=True)
        if direction.shape != (x.shape[0], 2):
            raise ValueError(
                f"PointingBias expects one direction per image, of shape ({x.shape[0]}, 2), "
                f"got {tuple(direction.shape)}"
            )
        weight: Tensor = self.weight
        if self.mirror:  # with imaginary parts of 0
            parts = weight.split([stream.multiplicity for stream in self.in_streams])
            weight = torch.cat(
                [
                    nn.functional.pad(part, (0, stream.channels - stream.multiplicity))
                    for part, stream in zip(parts, self.in_streams, strict=True)
                ]
            )
        bias = F.pointing(weight, direction.to(weight.dtype), self.in_streams)
        return x + bias[:, :, None, None].to(x.dtype)
