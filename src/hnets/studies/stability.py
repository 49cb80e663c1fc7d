"""How steady the magnitude of a response is while the input rotates: the paper's sanity check."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as tf
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.basis import Rings
from hnets.errors import InputError
from hnets.streams import Streams
from hnets.studies.numbers import Numbers, percent
from hnets.testing import band_limited

ORDERS = (0, 1, 2)
FILTERS, PATCHES = 16, 12
WAVELENGTH = 6.0
"""The shortest in a random patch, in pixels."""
_COARSE, _BLUR = 4, 0.7
"""Pixels of the photograph in one of a natural patch, and the width of its blur in the latter."""
_LAYERS = {"gaussian": "H-Net layer, Gaussian rings", "exact": "H-Net layer, exact rings"}
PLAIN = "plain convolution"


@dataclass(frozen=True, eq=False)
class Response:
    """Magnitudes of the responses of one order of one layer to rotated patches."""

    layer: str
    patches: str
    """"random" or "natural"."""
    order: int | None
    """None for a plain convolution, which has none."""
    magnitudes: NDArray[np.float64]
    """``(patches, filters, angles)``."""

    @property
    def deviation(self) -> float:
        """Root mean square of the deviation from the mean over the angles, relative to that."""
        mean = self.magnitudes.mean(-1, keepdims=True)
        return float(np.sqrt(((self.magnitudes - mean) ** 2).mean() / (mean**2).mean()))

    @property
    def curves(self) -> NDArray[np.float64]:
        """``(patches · filters, angles)``, each over its mean."""
        flat = self.magnitudes.reshape(-1, self.magnitudes.shape[-1])
        return flat / flat.mean(1, keepdims=True)


@dataclass(frozen=True, eq=False)
class Stability:
    """Responses of layers to patches that rotate."""

    degrees: NDArray[np.float64]
    responses: tuple[Response, ...]
    shown: dict[str, NDArray[np.float64]]
    """One patch per kind ``(size, size)``, from 0 to 1."""
    kernel_size: int

    def find(self, layer: str, patches: str) -> list[Response]:
        """The responses of one layer to one kind of patch, by order."""
        return [r for r in self.responses if (r.layer, r.patches) == (layer, patches)]

    def numbers(self) -> Numbers:
        """Deviations by layer and order, one column per kind of patch."""
        rows = []
        for layer in dict.fromkeys(response.layer for response in self.responses):
            columns = [self.find(layer, kind) for kind in self.shown]
            for row in zip(*columns, strict=True):
                name = layer if row[0].order is None else f"{layer}, m = {row[0].order}"
                rows.append((name, *(percent(each.deviation) for each in row)))
        title = "deviation of the magnitude from its mean over a full rotation"
        return Numbers(title, ("layer", *(f"{kind} patches" for kind in self.shown)), rows)


def measure_stability(
    photo: Image.Image | None = None, kernel_size: int = 5, step: float = 5.0, seed: int = 0
) -> Stability:
    """Responses of harmonic layers and a plain one, all with random weights, to rotated patches.

    Patches are rotated without resampling what the layer sees: random ones are formulas
    (`hnets.testing.band_limited`), natural ones are read from a photograph of four times the
    resolution.

    Args:
        photo: where natural patches are cut from; without one there are none.
        kernel_size: of all layers.
        step: between the angles, in degrees.
        seed: which weights and patches.

    >>> study = measure_stability(step=45)
    >>> harmonic, plain = study.responses[0], study.responses[-1]
    >>> harmonic.deviation < 0.01 < plain.deviation
    True
    """
    degrees = np.arange(0, 360, step)
    patches = {"random": _random_patches(kernel_size, degrees, seed)}
    shown = {"random": band_limited(Streams("1x0r"), 65, 0.0, 4 * WAVELENGTH, seed)[0, 0].numpy()}
    if photo is not None:
        patches["natural"], shown["natural"] = _natural_patches(photo, kernel_size, degrees, seed)
    shown = {name: (p - p.min()) / max(np.ptp(p), 1e-12) for name, p in shown.items()}
    responses = []
    for layer, net in _layers(kernel_size, seed).items():
        for kind, x in patches.items():
            with torch.no_grad():
                y = net(x.flatten(0, 1)[:, None])[..., 0, 0].unflatten(0, x.shape[:2])
            responses += _by_order(layer, kind, net, y)
    return Stability(degrees, tuple(responses), shown, kernel_size)


def _layers(kernel_size: int, seed: int) -> dict[str, nn.Module]:
    out = Streams(" + ".join(f"{FILTERS}x{order}" for order in ORDERS))
    layers: dict[str, nn.Module] = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        rings: Rings
        for rings in ("gaussian", "exact"):
            layers[_LAYERS[rings]] = hnn.HConv2d("1x0r", out, kernel_size, rings=rings).double()
        layers[PLAIN] = nn.Conv2d(1, FILTERS, kernel_size, bias=False).double()
    return layers


def _by_order(layer: str, kind: str, net: nn.Module, y: Tensor) -> list[Response]:
    """Magnitudes of responses ``(patches, angles, channels)``."""
    if not isinstance(net, hnn.HConv2d):
        return [Response(layer, kind, None, y.abs().transpose(1, 2).numpy())]
    responses = []
    for stream, where in zip(net.out_streams, net.out_streams.slices, strict=True):
        size = torch.hypot(*y[..., where].chunk(2, -1)).transpose(1, 2)
        responses.append(Response(layer, kind, stream.order, size.numpy()))
    return responses


def _random_patches(size: int, degrees: NDArray[np.float64], seed: int) -> Tensor:
    """``(patches, angles, size, size)``, cut from the middle of larger ones that fade out."""
    large = 6 * size + size % 2
    inside = slice((large - size) // 2, (large - size) // 2 + size)
    images = [
        band_limited(Streams(f"{PATCHES}x0r"), large, theta, WAVELENGTH, seed)[0]
        for theta in np.radians(degrees)
    ]
    return torch.stack(images, 1)[:, :, inside, inside]


def _natural_patches(
    photo: Image.Image, size: int, degrees: NDArray[np.float64], seed: int
) -> tuple[Tensor, NDArray[np.float64]]:
    """The same from a photograph, and the first of them with its surroundings."""
    grey = photo.convert("L").filter(ImageFilter.GaussianBlur(_COARSE * _BLUR))
    pixels = torch.from_numpy(np.asarray(grey, dtype=np.float64) / 255)
    reach = math.ceil(size * _COARSE / math.sqrt(2)) + 2
    room = [side - 2 * reach for side in pixels.shape]
    if min(room) < 1:
        raise InputError(
            f"natural patches need a photograph of at least {2 * reach + 1} pixels per side, got "
            f"{photo.width}×{photo.height}"
        )
    random = np.random.default_rng(seed)
    drawn = np.stack([random.integers(side, size=8 * PATCHES) + reach for side in room], 1)
    # Of so many, those with the most contrast: a blank wall is steady in front of any filter.
    spread = [float(pixels[y - 8 : y + 9, x - 8 : x + 9].std()) for y, x in drawn]
    centres = drawn[np.argsort(spread)[::-1][:PATCHES]]
    offset = (torch.arange(size, dtype=torch.float64) - (size - 1) / 2) * _COARSE
    down, right = torch.meshgrid(offset, offset, indexing="ij")
    patches = []
    for theta in np.radians(degrees).tolist():
        cos, sin = math.cos(theta), math.sin(theta)
        # The rotated patch at a point is the photograph at the point rotated back, y being down.
        x, y = cos * right - sin * down, sin * right + cos * down
        patches.append(_read(pixels, centres, x, y))
    row, column = centres[0]
    near = pixels[row - reach : row + reach + 1, column - reach : column + reach + 1]
    return torch.stack(patches, 1), near.numpy()


def _read(pixels: Tensor, centres: NDArray[Any], x: Tensor, y: Tensor) -> Tensor:
    """Pixels at offsets from centres, interpolated: ``(centres, size, size)``."""
    height, width = pixels.shape
    middle = torch.from_numpy(centres).double()[:, :, None, None]
    places = torch.stack(
        [2 * (middle[:, 1] + x) / (width - 1) - 1, 2 * (middle[:, 0] + y) / (height - 1) - 1], -1
    )
    source = pixels[None, None].expand(len(centres), 1, height, width)
    return tf.grid_sample(source, places, mode="bicubic", align_corners=True)[:, 0]
