"""Random changes to images, on the device that holds them.

Every image's random numbers for an epoch are drawn before it, from a seed made of the run's seed
and the epoch: they do not depend on the device, on the number of processes, or on whether the run
was interrupted.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional import centre_of_mass
from hnets.train.recipe import Augment

POINTS = 5
"""Points of the coarse grid along each side, by which images are deformed."""
PLAIN = 10
"""Numbers of a row before the deformation."""


def draw(
    recipe: Augment, count: int, size: tuple[int, int], generator: torch.Generator
) -> Tensor | None:
    """The changes to each of ``count`` images: a row of numbers each, or None for none.

    The first six are a matrix of 2×3, which says where an output pixel comes from, in the units of
    ``grid_sample``: from −1 to 1 along either side of an image of ``size`` (height, width),
    whatever its length. An exponent for all values and a factor for each of three colours follow,
    and, if images are deformed, the displacement of each point of a coarse grid, in these units.
    """
    if recipe == Augment():
        return None
    u = 2 * torch.rand(6, count, generator=generator, dtype=torch.float64) - 1
    angle = math.radians(recipe.rotate) * u[0]
    cos, sin = angle.cos(), angle.sin()
    scale = (math.log1p(recipe.zoom) * u[1]).exp()  # as often half as double
    shear_x, shear_y = recipe.shear * u[2], recipe.shear * u[3]
    rows = [
        torch.stack([cos + sin * shear_y, sin + cos * shear_x], 1) / scale[:, None],
        torch.stack([cos * shear_y - sin, cos - sin * shear_x], 1) / scale[:, None],
    ]
    half = torch.tensor([size[1] / 2, size[0] / 2], dtype=torch.float64)
    rotated = torch.stack(rows, 1) * half / half[:, None]
    moved = (recipe.shift * u[4:6].T / half)[:, :, None]
    if recipe.flip:
        rotated *= (2 * torch.randint(2, (count, 1, 2), generator=generator) - 1).double()
    gamma = 1 + torch.randn(count, 1, generator=generator, dtype=torch.float64)
    gamma = gamma.clamp(1 - recipe.gamma, 1 + recipe.gamma)
    gains = 2 * torch.rand(count, 3, generator=generator, dtype=torch.float64) - 1
    gains = (math.log1p(recipe.colour) * gains).exp()
    matrices = torch.cat([rotated, moved], dim=2).flatten(1)
    numbers = [matrices, gamma, gains]
    if recipe.elastic:
        steps = torch.randn(count, 2, POINTS, POINTS, generator=generator, dtype=torch.float64)
        # The middle as a whole stays: moving images is for `shift`.
        steps -= steps[:, :, 1:-1, 1:-1].mean((2, 3), keepdim=True)
        # √(π/2) deviations are the mean length of a step in the plane.
        bends = recipe.elastic / math.sqrt(math.pi / 2) * steps / half[:, None, None]
        numbers.append(bends.flatten(1))
    return torch.cat(numbers, dim=1).float()


def augment(images: Tensor, changes: Tensor, keep_centre: bool = False) -> Tensor:
    """Change images ``(n, channels, height, width)`` by one row of `draw` each.

    They are resampled bicubically, since the images of rotated sets have been resampled once
    already and a linear interpolation would blur them twice. Overshoots are clipped; outside is 0.
    ``keep_centre`` is that of `hnets.train.recipe.Augment`.
    """
    if keep_centre:
        changes = _keeping_centre(images, changes)
    return tone(move(images, changes, "bicubic", "zeros").clamp(0, 1), changes)


def move(images: Tensor, changes: Tensor, mode: str, outside: str) -> Tensor:
    """Resample images by the first part of `draw`, with a mode and padding of ``grid_sample``."""
    matrices = changes[:, :6].unflatten(1, (2, 3))
    with torch.autocast(images.device.type, enabled=False):  # 8 bits cannot address pixels
        where = F.affine_grid(matrices, list(images.shape), align_corners=False)
        if changes.shape[1] > PLAIN:
            bends = changes[:, PLAIN:].unflatten(1, (2, POINTS, POINTS))
            size = list(images.shape[2:])
            smooth = F.interpolate(bends, size, mode="bicubic", align_corners=True)
            where = where + smooth.movedim(1, -1)
    return F.grid_sample(images, where, mode=mode, padding_mode=outside, align_corners=False)


def _keeping_centre(images: Tensor, changes: Tensor) -> Tensor:
    """Changes with a shift added, so that centres of mass are only rotated and mirrored."""
    height, width = images.shape[2:]
    a, b, x, c, d, y = changes[:, :6].unbind(1)
    # The nearest matrix that only rotates and mirrors, [[u, v], [−sv, su]], in pixels.
    s = 1 - 2 * (a * d < b * c).to(a.dtype)
    u, v = a + s * d, b * (width / height) - s * c * (height / width)
    length = torch.hypot(u, v)
    u, v = u / length, v / length
    was_x, was_y = centre_of_mass(images).unbind(1)
    is_x, is_y = centre_of_mass(move(images, changes, "bilinear", "zeros")).unbind(1)
    # An output pixel p comes from Ap, so what was at q comes to lie at the transpose times q; y of
    # pixels goes down, and that of centres up.
    right = (u * was_x + s * v * was_y - is_x) / (width / 2)
    down = (v * was_x - s * u * was_y + is_y) / (height / 2)
    matrices = torch.stack([a, b, x - a * right - b * down, c, d, y - c * right - d * down], 1)
    return torch.cat([matrices, changes[:, 6:]], dim=1)


def tone(images: Tensor, changes: Tensor) -> Tensor:
    """Raise the values of images to their exponents, and multiply the colours."""
    gamma, gains = changes[:, 6, None, None, None], changes[:, 7:10, None, None]
    colours = gains if images.shape[1] == 3 else gains[:, :1]
    return (images**gamma * colours).clamp(0, 1)
