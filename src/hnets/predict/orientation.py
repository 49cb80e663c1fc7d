"""Which way edges run, read from the phases of a network's fields of order 1."""

from __future__ import annotations

import math

import numpy as np
import torch
import torch.nn.functional as tf
from torch import Tensor

from hnets.errors import InputError
from hnets.functional import gaussian_window
from hnets.models import HDSN, EdgeNetwork

SMOOTHING = 2.0
"""Width of the Gaussian that averages z over neighbours, in pixels."""
_ROWS = 128
"""Rows per strip: each field is copied several times on the way."""
_DRAWN, _SIDE = 1500, 11
"""Images that are drawn, and their side in pixels."""
_CHROMA, _CONTRAST = 0.55, 0.06
"""How much the colours of an edge differ from grey at most, and from one another at least."""
_BLURS, _WIDTHS, _BARS = (0.1, 2.5), (1.5, 6.0), 0.15
"""How blurred an edge is and how wide a bar, in pixels, and which share of the images are bars."""
_NEAR = 1.5
"""How far from the edge pixels count in the fit."""
_BORDER = 2
"""Pixels next to the border of an image, whose fields see beyond it and are ignored."""
_RIDGE = 1e-3
"""The penalty on the squares of M, relative to the mean square of what they weigh."""


class OrientationReader:
    """Reads orientations from the maps of an H-DSN, calibrated once for its weights.

    Rotate an image by θ, and a field of order 1 is multiplied by exp(iθ). So a straight edge whose
    normal points at the angle α gives the fields F the values ``c·exp(iα)``, where c depends on
    everything but its direction: the colours on either side, the blur, the distance. Then

        z = Fᵀ M F = exp(2iα)·cᵀ M c,    M complex and symmetric

    rotates twice as fast for any M, so that a step from dark to bright and one from bright to dark
    agree. If M is such that ``cᵀ M c`` is positive for edges of all kinds, ``arg(z)/2`` is the
    direction of the normal. M is found by least squares, over edges and some bars that are drawn
    here, for any weights of a network. The fields are those of the first stage, the only ones at
    full resolution, and each of them a second time with the strong ones emphasised:
    ``F·|F|/‖F‖``, since functions of magnitudes keep the order.

    The z of neighbours are averaged: in the middle of a thin bar, which is its own rotation by
    180°, all fields of order 1 are zero; on its two flanks they are not, and agree.
    """

    def __init__(self, network: EdgeNetwork) -> None:
        if not isinstance(network, HDSN):
            raise InputError(
                f"orientations are read from fields of order 1, and {type(network).__name__} has "
                "none; use an H-DSN"
            )
        streams = network.streams[0]
        self._fields = streams.slices[streams.orders.index(1)]
        images, normals, away = _draw()
        with torch.inference_mode():
            maps = network.stages[0]((images.to(network.mean) - network.mean) / network.std)
            fields = _emphasised(maps[:, self._fields].cpu().double())
        upright = torch.complex(*fields.chunk(2, 1)) * torch.exp(-1j * normals)[:, None, None, None]
        inside = slice(_BORDER, -_BORDER)
        near = away[:, inside, inside] <= _NEAR
        form = _fit(upright[:, :, inside, inside].permute(0, 2, 3, 1)[near])
        re, im = form.real, form.imag  # a complex matrix, as a 1×1 convolution of real channels
        kernel = torch.cat([torch.cat([re, -im], 1), torch.cat([im, re], 1)])[..., None, None]
        self._kernel = kernel.to(network.mean)

    def __call__(self, maps: Tensor) -> Tensor:
        """z of the maps of the first stage, as its real and imaginary part ``(batch, 2, h, w)``.

        Its phase is twice the angle of the normal, its magnitude how much evidence there is.
        """
        strips = maps[:, self._fields].split(_ROWS, 2)
        z = torch.cat([_form(_emphasised(strip), self._kernel) for strip in strips], 2)
        taps = gaussian_window(6 * round(SMOOTHING) + 1, SMOOTHING).to(z).expand(2, 1, 1, -1)
        cut = _BORDER if min(z.shape[2:]) > 2 * _BORDER else 0
        z = z[:, :, cut : z.shape[2] - cut, cut : z.shape[3] - cut]
        pad = cut + taps.shape[-1] // 2
        z = tf.conv2d(z, taps, padding=(0, pad), groups=2)
        return tf.conv2d(z, taps.mT, padding=(pad, 0), groups=2)


def _form(fields: Tensor, kernel: Tensor) -> Tensor:
    """Fᵀ M F, with M as a convolution of real channels."""
    re, im = fields.chunk(2, 1)
    by_re, by_im = tf.conv2d(fields, kernel).chunk(2, 1)  # M F
    return torch.stack([(re * by_re - im * by_im).sum(1), (re * by_im + im * by_re).sum(1)], 1)


def _emphasised(fields: Tensor) -> Tensor:
    """Fields ``(batch, 2·n, h, w)``, real parts then imaginary ones, each followed by F·|F|/‖F‖."""
    re, im = fields.chunk(2, 1)
    square = re.square() + im.square()
    share = (square / square.sum(1, keepdim=True).clamp(min=1e-12)).sqrt()
    return torch.cat([re, re * share, im, im * share], 1)


def _draw() -> tuple[Tensor, Tensor, Tensor]:
    """Images ``(n, 3, side, side)``, the angles of their normals, and how far off pixels are.

    The same ones each time: edges and some bars, sharp and blurred, in all directions, between
    greys and colours that differ.
    """
    random = np.random.default_rng(0)
    greys, tint = random.random((8 * _DRAWN, 2, 1)), _CHROMA * random.random((8 * _DRAWN, 1, 1))
    colours = np.clip(greys + tint * random.standard_normal((8 * _DRAWN, 2, 3)), 0, 1)
    differ = np.abs(colours[:, 0] - colours[:, 1]).mean(1) > _CONTRAST
    one, other = torch.from_numpy(colours[differ][:_DRAWN])[..., None, None].unbind(1)

    def uniform(low: float, high: float) -> Tensor:
        return torch.from_numpy(random.uniform(low, high, (_DRAWN, 1, 1)))

    at = torch.arange(_SIDE, dtype=torch.float64) - _SIDE // 2
    normals, blur, half = uniform(0, 2 * math.pi), uniform(*_BLURS), uniform(*_WIDTHS) / 2
    distance = torch.cos(normals) * at - torch.sin(normals) * at[:, None] + uniform(-0.5, 0.5)

    def beyond(edge: Tensor) -> Tensor:
        return 0.5 + 0.5 * torch.erf((distance - edge) / (math.sqrt(2) * blur))

    bar = beyond(-half) - beyond(half)
    share = torch.where(uniform(0, 1) < _BARS, bar, beyond(torch.zeros(()))).unsqueeze(1)
    return (one + (other - one) * share).float(), normals[:, 0, 0], distance.abs()


def _fit(c: Tensor) -> Tensor:
    """The symmetric M for which ``cᵀ M c`` is closest to ``|c|²``, over the rows ``c``.

    Differences count relative to ``|c|²``, and those of a strong c for somewhat more.
    """
    size = c.abs().square().sum(1, keepdim=True).sqrt()
    strong = size[:, 0] > 0.01 * size.mean()
    c, size = c[strong], size[strong]
    row, column = torch.triu_indices(c.shape[1], c.shape[1])
    products = c[:, row] * c[:, column] / size**2
    weighed = (products * size.sqrt()).mH
    normal = weighed @ products
    normal += _RIDGE * normal.diagonal().real.mean() * torch.eye(len(normal))
    form = torch.zeros(c.shape[1], c.shape[1], dtype=c.dtype)
    form[row, column] = torch.linalg.solve(normal, weighed.sum(1))
    return (form + form.T) / (2 * size.mean() ** 2)
