"""Where the mass of a picture lies: a direction that turns with it, and what points along it."""

from __future__ import annotations

import torch
from torch import Tensor

from hnets.streams import Streams

__all__ = ["centre_of_mass", "mass_direction", "pointing"]

_SMALL = 1e-6
"""Keeps the directions of black pictures, and of those in balance, from being no number."""


def centre_of_mass(images: Tensor) -> Tensor:
    """``(batch, 2)``: how far right of the middle and above it, in pixels; 0 for black pictures."""
    if images.dim() != 4:
        raise ValueError(
            "a centre of mass is that of pictures of shape (batch, channels, height, width), "
            f"got {tuple(images.shape)}"
        )
    height, width = images.shape[2:]
    columns, rows = images.sum((1, 2)), images.sum((1, 3))
    right = torch.arange(width, device=images.device, dtype=images.dtype) - (width - 1) / 2
    up = (height - 1) / 2 - torch.arange(height, device=images.device, dtype=images.dtype)
    moments = torch.stack([(columns * right).sum(1), (rows * up).sum(1)], dim=1)
    return moments / rows.sum(1, keepdim=True).clamp_min(_SMALL)


def mass_direction(images: Tensor) -> Tensor:
    """``(batch, 2)``: from the middle of a picture to its centre of mass, as a number of order 1.

    The real part points to the right and the imaginary one up. Its length grows with the distance
    in pixels, first as that and then ever more slowly, and stays below 1.
    """
    with torch.autocast(images.device.type, enabled=False):  # 8 bits do not tell pixels apart
        offset = centre_of_mass(images.float() if images.dtype.itemsize < 4 else images)
        return offset / (1 + offset.square().sum(1, keepdim=True)).sqrt()


def pointing(weight: Tensor, direction: Tensor, streams: Streams) -> Tensor:
    """``(batch, channels)``: fields ``(channels,)`` of an upright world, turned into a direction.

    For a direction ``r·exp(iδ)``, those of order m are multiplied by ``r·exp(imδ)``. So they turn
    as streams do, if the direction turns as a number of order 1.
    """
    length = (direction.square().sum(1, keepdim=True) + _SMALL**2).sqrt()
    cos, sin = (direction / length).split(1, dim=1)
    turned = []
    for stream, where in zip(streams, streams.slices, strict=True):
        part = weight[where]
        if stream.real:
            turned.append(length * part)
            continue
        re, im = length, torch.zeros_like(length)
        side = sin if stream.order > 0 else -sin
        for _ in range(abs(stream.order)):
            re, im = re * cos - im * side, re * side + im * cos
        first, second = part.chunk(2)
        turned += [re * first - im * second, im * first + re * second]
    return torch.cat(turned, dim=1)
