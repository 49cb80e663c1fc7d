"""Which way edges run, read from the phases of a network's fields.

Rotate an image by θ, and a field of order m is multiplied by exp(imθ). An edge is its own rotation
by 180°, so its direction is the phase of a number of order 2: the networks of orders 0 to 2 have
such fields, and in the H-DSN they are products of two fields of order 1. How to weigh them is found
by least squares, over edges and some bars that are drawn here, for any weights of a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
import torch.nn.functional as tf
from torch import Tensor

from hnets.errors import InputError
from hnets.functional import crop, enlarge2d, gaussian_window
from hnets.models import HDSN, EdgeNetwork, HEdge

SMOOTHING = 2.0
"""Width of the Gaussian that averages z over neighbours, in pixels."""
_LEVELS = 2
"""Levels of a decoder that are read, from the finest on: a coarser one sees more than the edge."""
_ROWS = 128
"""Rows per strip: each field is copied several times on the way."""
_DRAWN, _SIDE = 1500, 11
"""Images that are drawn for a network's first stage, and their side in pixels."""
_WIDE_DRAWN, _WIDE_SIDE, _AT_ONCE = 60, 65, 20
"""Those for a whole network, which looks further, and how many it is given at once."""
_CHROMA, _CONTRAST = 0.55, 0.06
"""How much the colours of an edge differ from grey at most, and from one another at least."""
_BLURS, _WIDTHS, _BARS = (0.1, 2.5), (1.5, 6.0), 0.15
"""How blurred an edge is and how wide a bar, in pixels, and which share of the images are bars."""
_NEAR = 1.5
"""How far from the edge pixels count in the fit."""
_BORDER = 2
"""Pixels next to the border of an image, whose fields see beyond it and are ignored."""
REACH = 3 * round(SMOOTHING) + _BORDER
"""How many pixels away from a pixel fields decide on its z, at most."""
_RIDGE, _FIELDS_RIDGE = 1e-3, 0.1
"""The penalty on the squares of M, relative to the mean square of what they weigh, and that on the
weights of fields, which would otherwise cancel one another: photographs are not drawn."""


class OrientationReader:
    """Reads orientations from the features of an edge detector, calibrated once for its weights.

    A straight edge whose normal points at the angle α gives fields of order 2 the values
    ``c·exp(2iα)``, where c depends on everything but its direction: the colours on either side, the
    blur, the distance. With weights w for which ``w·c`` is positive for edges of all kinds, half of
    the phase of z = w·F is the direction of the normal.
    """

    def __init__(self, network: EdgeNetwork) -> None:
        if isinstance(network, HEdge):
            self._read: _Fields | _Products = _Fields(network)
        elif isinstance(network, HDSN):
            self._read = _Products(network)
        else:
            raise InputError(
                f"orientations are read from the phases of fields, and {type(network).__name__} "
                "has none; use a harmonic network"
            )

    def __call__(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        """z as its real and imaginary part, ``(batch, 2, height, width)``, from the features.

        Its phase is twice the angle of the normal, its magnitude how much evidence there is.
        """
        return self._read(features, height, width)


class _Fields:
    """A weighted sum of fields of order 2, of the decoder's finest levels.

    The weights are real: a mirror conjugates the fields and z alike, which complex weights would
    not allow.
    """

    def __init__(self, network: HEdge) -> None:
        self._levels = network.levels[:_LEVELS]
        streams = network.decoder_streams[:_LEVELS]
        self._where = [each.slices[each.orders.index(2)] for each in streams]
        images, normals, away = _draw(_WIDE_DRAWN, _WIDE_SIDE)
        middle = slice(_WIDE_SIDE // 2 - _SIDE // 2, _WIDE_SIDE // 2 + _SIDE // 2 + 1)
        parts = []
        with torch.inference_mode():
            for some in images.to(network.mean).split(_AT_ONCE):
                features = network.forward_features(network.pad(some))
                levels = [
                    enlarge2d(fields, _WIDE_SIDE, _WIDE_SIDE, level)[:, :, middle, middle]
                    for fields, level in self._fields(features)
                ]
                parts.append(torch.cat([_complex(maps) for maps in levels], 1))
        upright = torch.cat(parts) * torch.exp(-2j * normals)[:, None, None, None]
        c = upright.permute(0, 2, 3, 1)[away[:, middle, middle] <= _NEAR]
        products = (c.mH @ c).real
        products += _FIELDS_RIDGE * products.diagonal().mean() * torch.eye(len(products))
        weights = torch.linalg.solve(products, c.sum(0).real)
        weights = (weights / weights.norm()).to(network.mean)[:, None, None]
        self._weights = weights.split([maps.shape[1] // 2 for maps in levels])

    def __call__(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        levels = [
            enlarge2d(_weighted(fields, weights), height, width, level)
            for (fields, level), weights in zip(self._fields(features), self._weights, strict=True)
        ]
        return _smoothed(torch.stack(levels).sum(0))

    def _fields(self, features: Sequence[Tensor]) -> list[tuple[Tensor, int]]:
        """Those of each level that is read, and how often it is halved."""
        levels = zip(features, self._where, self._levels, strict=False)
        return [(maps[:, where], level) for maps, where, level in levels]


def _complex(fields: Tensor) -> Tensor:
    return torch.complex(*fields.cpu().double().chunk(2, 1))


def _weighted(fields: Tensor, weights: Tensor) -> Tensor:
    return torch.stack([(part * weights).sum(1) for part in fields.chunk(2, 1)], 1)


class _Products:
    """A weighted sum of products of fields of order 1: z = Fᵀ M F, M complex and symmetric.

    The fields are those of the first stage, the only ones at full resolution, and each of them a
    second time with the strong ones emphasised: ``F·|F|/‖F‖``, since functions of magnitudes keep
    the order. The z of neighbours are averaged: in the middle of a thin bar, which is its own
    rotation by 180°, all fields of order 1 are zero; on its two flanks they are not, and agree.
    """

    def __init__(self, network: HDSN) -> None:
        streams = network.streams[0]
        self._fields = streams.slices[streams.orders.index(1)]
        images, normals, away = _draw(_DRAWN, _SIDE)
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

    def __call__(self, features: Sequence[Tensor], height: int, width: int) -> Tensor:
        strips = crop(features[0], height, width)[:, self._fields].split(_ROWS, 2)
        z = torch.cat([_form(_emphasised(strip), self._kernel) for strip in strips], 2)
        return _smoothed(z)


@cache
def _taps(dtype: torch.dtype, device: torch.device) -> Tensor:
    """The window that smooths a direction; kept, since a CUDA graph may not copy from the CPU."""
    return gaussian_window(6 * round(SMOOTHING) + 1, SMOOTHING).to(device, dtype)


def _smoothed(z: Tensor) -> Tensor:
    taps = _taps(z.dtype, z.device).expand(2, 1, 1, -1)
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


def _draw(count: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images ``(count, 3, side, side)``, the angles of their normals, and how far off pixels are.

    The same ones each time: edges and some bars, sharp and blurred, in all directions, between
    greys and colours that differ.
    """
    random = np.random.default_rng(0)
    greys, tint = random.random((8 * count, 2, 1)), _CHROMA * random.random((8 * count, 1, 1))
    colours = np.clip(greys + tint * random.standard_normal((8 * count, 2, 3)), 0, 1)
    differ = np.abs(colours[:, 0] - colours[:, 1]).mean(1) > _CONTRAST
    one, other = torch.from_numpy(colours[differ][:count])[..., None, None].unbind(1)

    def uniform(low: float, high: float) -> Tensor:
        return torch.from_numpy(random.uniform(low, high, (count, 1, 1)))

    at = torch.arange(side, dtype=torch.float64) - side // 2
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
