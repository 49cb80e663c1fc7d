"""Which way boundaries run, read from the phases of a network's streams of order 1.

Turn a picture by θ, and a field of order 1 is multiplied by exp(iθ). So a straight boundary whose
normal points at the angle α gives the fields F the values ``c·exp(iα)``, where c depends on all
that is not its direction: the colours on either side, the blur, the distance of the pixel. Any form

    z = Fᵀ M F,    M complex and symmetric

then turns by ``exp(2iα)``, whatever M is: twice the angle, so that a step from dark to bright and
one from bright to dark agree. What is left is to choose M so that ``cᵀ M c`` is a positive number
for all boundaries; then ``arg(z)/2`` is the direction of the normal. `Compass` finds such an M for
each of the finer stages of a network, whatever its weights are, by least squares over some hundred
edges that it draws: in which phase they answer is what their β and everything before them made it.

Beside z of one pixel those of its neighbours count: in the middle of a thin line all fields of
order 1 are zero, since the line is its own half turn, but on its two flanks they are not, and they
agree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as tf
from torch import Tensor

from hnets import functional as F
from hnets.errors import InputError
from hnets.models.boundary import HDSN, SideNetwork

__all__ = ["Compass"]

STAGES = 3
"""Finer stages, whose fields are read: the coarser ones say less precisely where and which way."""
SMOOTHING = (1, 4, 6, 4, 1)
"""Weights of the neighbours, along either axis."""
_EDGES, _SIDE = 96, 49
"""How many edges are drawn, and on how many pixels: the middle does not see the border."""
_CONTRAST, _BLURS = 0.12, (0.7, 2.5)
"""How much two colours differ at least, and how wide an edge is, in pixels."""
_NEAR, _ALONG = 1.5, 6.0
"""Which pixels are asked: how far from the edge, and from the middle of the picture along it."""
_RIDGE = 0.01
"""What the squares of M cost, in parts of the mean square of what M weighs."""


class Compass:
    """Reads orientations from the maps of an H-DSN, calibrated once for its weights.

    Args:
        network: an H-DSN, frozen or not.
    """

    reach = len(SMOOTHING) // 2
    """Pixels that are looked at beyond those that the network looks at."""

    def __init__(self, network: SideNetwork) -> None:
        if not isinstance(network, HDSN):
            raise InputError(
                f"orientations are read from streams of order 1, and {type(network).__name__} has "
                "none; use an H-DSN"
            )
        self._parts = [s.slices[s.orders.index(1)] for s in network.streams[:STAGES]]
        pictures, normals = _edges()
        with torch.inference_mode():
            maps = network.features(pictures.to(network.mean))
        fields = [maps[stage][:, part].double().cpu() for stage, part in enumerate(self._parts)]
        self._kernels = [
            _kernel(_fit(_asked(each, normals, 2**stage))).to(network.mean)
            for stage, each in enumerate(fields)
        ]

    def __call__(self, maps: Sequence[Tensor]) -> Tensor:
        """The real and imaginary part of z, ``(batch, 2, height, width)``, of the maps of stages.

        Its phase is twice the angle of the normal, its magnitude says how much there is to go by.
        """
        height, width = maps[0].shape[2:]
        z = maps[0].new_zeros(len(maps[0]), 2, height, width)
        for stage, (part, kernel) in enumerate(zip(self._parts, self._kernels, strict=True)):
            z += F.enlarge2d(_form(maps[stage][:, part], kernel), height, width, stage)
        taps = (z.new_tensor(SMOOTHING) / sum(SMOOTHING)).expand(2, 1, 1, -1)
        z = tf.conv2d(z, taps, padding=(0, self.reach), groups=2)
        return tf.conv2d(z, taps.mT, padding=(self.reach, 0), groups=2)


def _form(fields: Tensor, kernel: Tensor) -> Tensor:
    """Fᵀ M F in real numbers: ``(batch, 2, h, w)`` of fields ``(batch, 2·n, h, w)``."""
    re, im = fields.chunk(2, 1)
    by_re, by_im = tf.conv2d(fields, kernel).chunk(2, 1)  # M F
    return torch.stack([(re * by_re - im * by_im).sum(1), (re * by_im + im * by_re).sum(1)], 1)


def _kernel(form: Tensor) -> Tensor:
    """A complex matrix on complex channels as a 1×1 convolution of real ones."""
    re, im = form.real, form.imag
    return torch.cat([torch.cat([re, -im], 1), torch.cat([im, re], 1)])[..., None, None]


def _edges() -> tuple[Tensor, Tensor]:
    """Pictures of straight edges, ``(n, 3, side, side)``, and the angles of their normals.

    The same ones each time, between two colours that differ, in all directions, sharp or blurred.
    """
    random = np.random.default_rng(0)
    colours = random.random((8 * _EDGES, 2, 3))
    colours = colours[np.abs(colours[:, 0] - colours[:, 1]).mean(1) > _CONTRAST][:_EDGES]
    normals = torch.from_numpy(2 * math.pi * random.random(_EDGES))
    blurs = torch.from_numpy(random.uniform(*_BLURS, _EDGES))
    covered = 0.5 + 0.5 * torch.erf(_distances(normals, 1) / blurs[:, None, None])
    one, other = torch.from_numpy(colours)[..., None, None].unbind(1)  # (n, 3, 1, 1)
    return (one + (other - one) * covered[:, None]).float(), normals


def _distances(normals: Tensor, step: int) -> Tensor:
    """How far the pixels of a level of the pyramid lie from the edges, ``(n, side, side)``."""
    at = torch.arange(-(_SIDE // 2), _SIDE // 2 + 1, step, dtype=torch.float64)
    x, y = at, -at[:, None]
    return torch.cos(normals)[:, None, None] * x + torch.sin(normals)[:, None, None] * y


def _asked(fields: Tensor, normals: Tensor, step: int) -> Tensor:
    """What edges with the normal +x would give, ``(pixels, n)`` complex, where pixels are asked."""
    away = _distances(normals, step).abs()
    along = _distances(normals + math.pi / 2, step).abs()
    asked = (away <= max(_NEAR, step / 2)) & (along <= _ALONG)
    re, im = fields.chunk(2, 1)
    turned = torch.complex(re, im) * torch.exp(-1j * normals)[:, None, None, None]
    return turned.permute(0, 2, 3, 1)[asked]


def _fit(given: Tensor) -> Tensor:
    """The symmetric matrix M that comes closest to ``cᵀ M c = |c|²`` for all c, rows of ``given``.

    By least squares over c of length 1.
    """
    power = given.abs().square().sum(1)
    mean = power.mean()
    given = given[power > 1e-3 * mean] / power[power > 1e-3 * mean].sqrt()[:, None]
    row, column = torch.triu_indices(given.shape[1], given.shape[1])
    products = given[:, row] * given[:, column]
    normal = products.mH @ products
    normal += _RIDGE * normal.diagonal().real.mean() * torch.eye(len(normal), dtype=normal.dtype)
    solved = torch.linalg.solve(normal, products.mH.sum(1))
    form = torch.zeros(given.shape[1], given.shape[1], dtype=normal.dtype)
    form[row, column] = solved
    return (form + form.T) / (2 * mean)
