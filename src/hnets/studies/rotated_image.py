"""Rotate an image: how the feature maps of a small network follow, beside a plain one's."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor, nn

from hnets import functional as F
from hnets import nn as hnn
from hnets.data.image_file import centre_crop
from hnets.streams import Streams
from hnets.studies.numbers import Numbers
from hnets.testing import equivariance_error

ANGLE = 60.0
"""Degrees by which the image of the figure is rotated."""
ANGLES = (15.0, 30.0, 45.0, 60.0, 90.0, 180.0)
"""Degrees of the table."""
BLUR = 2.0
"""Width in pixels of the Gaussian against aliasing: pixels cannot rotate what they barely hold."""
DISC = 0.9
"""Radius, in half images, of the disc that is shown and compared."""


@dataclass(frozen=True)
class RotatedMap:
    """One feature map of an image, and the same one of the rotated image."""

    title: str
    note: str
    """What to look at."""
    upright: NDArray[np.inexact]
    """``(h, w)``, complex, or real for a map without phases, which is drawn in greys."""
    rotated: NDArray[np.inexact]
    order: int
    degrees: float
    """By how much the image was rotated, counter-clockwise."""

    @property
    def moved_back(self) -> NDArray[np.inexact]:
        """The map of the rotated image with its pixels rotated back, its phases left alone."""
        parts = np.stack([self.rotated.real, self.rotated.imag])[None]
        back = F.rotate_pixels(torch.from_numpy(parts), -math.radians(self.degrees))[0].numpy()
        return back[0] + 1j * back[1] if np.iscomplexobj(self.rotated) else back[0]

    @property
    def difference(self) -> NDArray[np.inexact]:
        """What is left of the map when its phases are rotated back too: zero in the continuum."""
        phase = np.exp(-1j * self.order * math.radians(self.degrees))
        return self.moved_back * phase - self.upright

    @property
    def error(self) -> float:
        """The norm of the difference, relative to that of the map, inside the disc shown."""
        offsets = [(np.arange(n) - (n - 1) / 2) / (n / 2) for n in self.upright.shape]
        inside = np.hypot(*np.meshgrid(*offsets, indexing="ij")) < DISC
        norm = np.linalg.norm(self.upright * inside)
        return float(np.linalg.norm(self.difference * inside) / norm) if norm else 0.0


@dataclass(frozen=True, eq=False)
class RotatedImage:
    """An image before and after a rotation, ``(h, w, 3)`` from 0 to 1, and some of its maps."""

    upright: NDArray[np.float32]
    rotated: NDArray[np.float32]
    degrees: float
    maps: tuple[RotatedMap, ...]


def example_network(seed: int = 1) -> nn.Sequential:
    """The first network of the documentation, with random weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            hnn.HConv2d("3x0r", "8x0 + 8x1", kernel_size=5),
            hnn.ModReLU("8x0 + 8x1"),
            hnn.HConv2d("8x0 + 8x1", "16x0 + 16x1", kernel_size=5),
            hnn.HBatchNorm2d("16x0 + 16x1"),
            hnn.HAvgPool2d(2),
            hnn.Magnitude("16x0 + 16x1"),
        ).eval()


def plain_network(seed: int = 1) -> nn.Sequential:
    """Ordinary layers with as many real channels, and so as many multiplications."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(3, 32, kernel_size=5),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=5),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.AvgPool2d(2),
        ).eval()


def measure_rotation(
    image: Image.Image, net: nn.Sequential, plain: nn.Sequential, size: int
) -> RotatedImage:
    """An image, rotated by 60°, and its strongest maps in the example and the plain network.

    Of some streams the strongest field, and the plain channel that is most like order 1.
    """
    upright, rotated = (_input(image, size, degrees) for degrees in (0.0, ANGLE))
    shown: list[tuple[nn.Module, int, str, str]] = [
        (net[:2], 0, "order 0", "moves, keeps its colours"),
        (net[:2], 1, "order 1", f"moves, colours rotate by {ANGLE:g}°"),
        (net[:5], 1, "order 1, deeper", "the same after two layers"),
    ]
    maps = []
    for part, order, title, note in shown:
        before, after = _fields(part, upright, order), _fields(part, rotated, order)
        best = int(np.abs(before).mean((1, 2)).argmax())
        maps.append(RotatedMap(title, note, before[best], after[best], order, ANGLE))
    with torch.no_grad():
        before, after = plain[:2](upright)[0].numpy(), plain[:2](rotated)[0].numpy()
    best, note = _most_alike(before, np.abs(maps[1].upright)), "its map most like order 1"
    maps.append(RotatedMap("plain convolution", note, before[best], after[best], 0, ANGLE))
    return RotatedImage(_pixels(upright), _pixels(rotated), ANGLE, tuple(maps))


def compared_numbers(net: nn.Sequential, plain: nn.Sequential) -> Numbers:
    """Errors of both networks on a random smooth image at some angles."""
    streams = equivariance_error(net[:-1], ANGLES)
    magnitudes = equivariance_error(net, ANGLES)
    ordinary = equivariance_error(plain, ANGLES, in_streams="3x0r", out_streams="64x0r")
    orders = (f"order {stream.order}\n{stream}" for stream in streams.streams)
    header = ("rotated by", *orders, f"magnitudes\n{magnitudes.streams}", "plain\nnetwork")
    rows = []
    for row, angle in enumerate(ANGLES):
        errors = [*streams.errors[row], *magnitudes.errors[row], *ordinary.errors[row]]
        cells = (f"exact ({e:.0e})" if e < 1e-12 else f"{100 * e:.1f} %" for e in errors)
        rows.append((f"{angle:g}°", *cells))
    return Numbers("", header, rows)


def _input(image: Image.Image, size: int, degrees: float) -> Tensor:
    """The middle of an image, rotated, as ``(1, 3, size, size)`` from −0.5 to 0.5.

    It is rotated at twice the resolution, blurred against aliasing, and fades to grey at the rim of
    a disc, so that there is nothing in the corners that a rotation would lose.
    """
    big = centre_crop(image).resize((2 * size, 2 * size), Image.Resampling.LANCZOS)
    big = big.rotate(degrees, Image.Resampling.BICUBIC)
    small = big.filter(ImageFilter.GaussianBlur(2 * BLUR)).reduce(2)
    x = torch.from_numpy(np.asarray(small, dtype=np.float32) / 255 - 0.5)
    offset = (torch.arange(size) - (size - 1) / 2) / (size / 2)
    radius = offset[:, None].hypot(offset[None, :])
    window = torch.cos(math.pi / 2 * ((radius - 0.9) / 0.1).clamp(0, 1)) ** 2
    return (x * window[..., None]).permute(2, 0, 1)[None]


def _pixels(x: Tensor) -> NDArray[np.float32]:
    pixels: NDArray[np.float32] = (x[0].permute(1, 2, 0) + 0.5).clamp(0, 1).numpy()
    return pixels


def _fields(part: nn.Module, x: Tensor, order: int) -> NDArray[np.complex64]:
    """The complex feature maps of one order, ``(fields, h, w)``."""
    named = [getattr(layer, "out_streams", None) for layer in part.children()]
    streams = [s for s in named if isinstance(s, Streams)][-1]
    with torch.no_grad():
        re, im = part(x)[0, streams.slices[streams.orders.index(order)]].chunk(2)
    fields: NDArray[np.complex64] = torch.complex(re, im).numpy()
    return fields


def _most_alike(maps: NDArray[np.floating], model: NDArray[np.floating]) -> int:
    """Which of the maps correlates best with the model, among those that are not nearly empty."""
    flat, wanted = maps.reshape(len(maps), -1), model.reshape(-1)
    flat = flat - flat.mean(1, keepdims=True)
    alike = flat @ (wanted - wanted.mean()) / (np.linalg.norm(flat, axis=1) + 1e-12)
    awake = np.percentile(maps, 94, axis=(1, 2)) > 0
    return int(np.where(awake, alike, -np.inf).argmax())
