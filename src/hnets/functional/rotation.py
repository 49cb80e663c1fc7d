"""Rotation and reflection of images and feature maps, and the direction of an image's mass."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._dispatch import autocast_device
from hnets.streams import Streams

_SMALL = 1e-6
"""Keeps the directions of black images, and of those in balance, from being NaN."""


def rotate_pixels(x: Tensor, theta: float, mode: str = "bicubic") -> Tensor:
    """Rotate the pixels of ``(batch, channels, height, width)`` counter-clockwise by θ radians.

    Multiples of 90 degrees of a square image are exact (``torch.rot90``); any other angle is
    interpolated about the centre, with zeros outside.

    >>> x = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).reshape(1, 1, 2, 2)
    >>> rotate_pixels(x, math.pi / 2).squeeze()
    tensor([[1., 3.],
            [0., 2.]])
    """
    quarters = theta / (math.pi / 2)
    height, width = x.shape[-2:]
    if abs(quarters - round(quarters)) < 1e-9 and (height == width or round(quarters) % 2 == 0):
        return torch.rot90(x, round(quarters), (-2, -1))
    cos, sin = math.cos(theta), math.sin(theta)
    # grid_sample asks where each output pixel comes from; its y axis points down.
    ratio = height / width
    with torch.autocast(autocast_device(x), enabled=False):  # 8 bits do not tell pixels apart
        wide = x.float() if x.dtype.itemsize < 4 else x
        matrix = wide.new_tensor([[cos, -sin * ratio, 0], [sin / ratio, cos, 0]])
        where = F.affine_grid(matrix.expand(len(x), 2, 3), list(x.shape), align_corners=False)
        rotated = F.grid_sample(wide, where, mode, padding_mode="zeros", align_corners=False)
    return rotated.to(x.dtype)


def rotate(x: Tensor, theta: float, streams: Streams, mode: str = "bicubic") -> Tensor:
    """A feature map as it is when the input is rotated by θ: pixels move and phases advance."""
    return streams.rotate(rotate_pixels(x, theta, mode), theta)


def reflect_pixels(x: Tensor, axis: float = 0.0, mode: str = "bicubic") -> Tensor:
    """Mirror the pixels of ``(batch, channels, height, width)`` across a line through the centre.

    ``axis`` is the angle of the line, in radians from +x. Multiples of 90 degrees are exact, and of
    45 degrees in a square image; other lines are interpolated.

    >>> x = torch.tensor([[0.0, 1.0], [2.0, 3.0]]).reshape(1, 1, 2, 2)
    >>> reflect_pixels(x).squeeze(), reflect_pixels(x, math.pi / 2).squeeze()
    (tensor([[2., 3.],
            [0., 1.]]), tensor([[1., 0.],
            [3., 2.]]))
    """
    return rotate_pixels(x.flip(-2), 2 * axis, mode)


def reflect(x: Tensor, streams: Streams, axis: float = 0.0, mode: str = "bicubic") -> Tensor:
    """A feature map as it is when the input is mirrored: pixels move and values are conjugated."""
    return streams.reflect(reflect_pixels(x, axis, mode), axis)


def centre_of_mass(images: Tensor) -> Tensor:
    """``(batch, 2)``: pixels to the right of the middle and above it; 0 for black images."""
    if images.dim() != 4:
        raise ValueError(
            "a centre of mass needs images of shape (batch, channels, height, width), "
            f"got {tuple(images.shape)}"
        )
    height, width = images.shape[2:]
    columns, rows = images.sum((1, 2)), images.sum((1, 3))
    right = torch.arange(width, device=images.device, dtype=images.dtype) - (width - 1) / 2
    up = (height - 1) / 2 - torch.arange(height, device=images.device, dtype=images.dtype)
    moments = torch.stack([(columns * right).sum(1), (rows * up).sum(1)], dim=1)
    return moments / rows.sum(1, keepdim=True).clamp_min(_SMALL)


def mass_direction(images: Tensor) -> Tensor:
    """``(batch, 2)``: from the middle of an image to its centre of mass, as a number of order 1.

    The real part points right and the imaginary part up. The length is nearly the distance in
    pixels for small distances, grows ever more slowly, and stays below 1.
    """
    with torch.autocast(autocast_device(images), enabled=False):  # as in `rotate_pixels`
        offset = centre_of_mass(images.float() if images.dtype.itemsize < 4 else images)
        return offset / (1 + offset.square().sum(1, keepdim=True)).sqrt()


def pointing(weight: Tensor, direction: Tensor, streams: Streams) -> Tensor:
    """``(batch, channels)``: fields ``(channels,)`` of an upright image, rotated to a direction.

    For a direction ``r·exp(iδ)``, those of order m are multiplied by ``r·exp(imδ)``. So they rotate
    as streams do, if the direction rotates as a number of order 1.
    """
    length = (direction.square().sum(1, keepdim=True) + _SMALL**2).sqrt()
    cos, sin = (direction / length).split(1, dim=1)
    rotated = []
    for stream, where in zip(streams, streams.slices, strict=True):
        part = weight[where]
        if stream.real:
            rotated.append(length * part)
            continue
        re, im = length, torch.zeros_like(length)
        side = sin if stream.order > 0 else -sin
        for _ in range(abs(stream.order)):
            re, im = re * cos - im * side, re * side + im * cos
        first, second = part.chunk(2)
        rotated += [re * first - im * second, im * first + re * second]
    return torch.cat(rotated, dim=1)
