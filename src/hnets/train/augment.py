"""Random changes to pictures, on the device where they lie.

Every picture's random numbers for an epoch are drawn before it, from a seed made of the run's seed
and the epoch: they do not depend on the device, on the number of processes, or on whether the run
was interrupted.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.train.recipe import Augment

__all__ = ["augment", "draw"]


def draw(
    recipe: Augment, count: int, size: tuple[int, int], generator: torch.Generator
) -> Tensor | None:
    """What happens to each of ``count`` pictures: matrices ``(count, 2, 3)``, or None for nothing.

    A matrix says where an output pixel comes from, in the units of ``grid_sample``: from −1 to 1
    along either side of a picture of ``size`` (height, width), whatever its length.
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
    turned = torch.stack(rows, 1) * half / half[:, None]
    moved = (recipe.shift * u[4:6].T / half)[:, :, None]
    return torch.cat([turned, moved], dim=2).float()


def augment(images: Tensor, matrices: Tensor) -> Tensor:
    """Resample pictures ``(n, channels, height, width)`` by one matrix each.

    Bicubically, since the pictures of rotated sets have been resampled once already and a linear
    interpolation would blur them twice. Overshoots are clipped; outside is 0.
    """
    where = F.affine_grid(matrices, list(images.shape), align_corners=False)
    return F.grid_sample(images, where, mode="bicubic", align_corners=False).clamp(0, 1)
