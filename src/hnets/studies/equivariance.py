"""How far every layer of a network is from rotating with its input, and where that comes from.

The test image is a disc of smooth random texture that fades into an even background
(`hnets.testing.band_limited`), given by a formula: it is rotated by any angle without
interpolation. Errors of maps are relative to how much the maps vary over the image: a constant
rotates by itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import functional as F
from hnets.errors import InputError
from hnets.streams import Streams, StreamsLike
from hnets.studies.networks import Network, find_network
from hnets.studies.numbers import Numbers, percent
from hnets.studies.trace import Kind, Maps, trace
from hnets.testing import band_limited

ANGLES = tuple(22.5 * number for number in range(17))
SOURCES = ("filters", "pooling", "resampling", "padding")
"""Parts of an error, in squares:

- *padding* is what goes away when the background is continued far beyond the image and the maps
  are cut back to their size;
- *resampling* is the error of the comparison itself, for which the map has to be rotated: half of
  what is lost by rotating it there and back;
- *pooling* is what the pooling steps up to that layer have each added to the rest, less what later
  layers have evened out;
- *filters* is what remains: filters that are sampled on pixels or not equivariant at all, and
  nonlinearities between samples.
"""
_DISC = 0.9
"""Radius, in half images, of the disc that is compared."""
_CONTINUED = 3
"""Angles at which the background is continued: that takes several times as long."""
_CONTRAST = 0.2
"""Root mean square of the texture about mid-grey, where 1 is white."""
_SPREAD = math.sqrt(16 / 6)
"""That of a sum of sixteen waves, whose amplitudes are drawn from 0 to 1."""


@dataclass(frozen=True, eq=False)
class LayerError:
    """How far one step of a network is from rotating as it should."""

    name: str
    kind: Kind
    streams: Streams
    shape: tuple[int, ...]
    """Height and width of its maps; empty for an output without pixels."""
    errors: tuple[float, ...]
    """‖f(rotated x) − rotated f(x)‖ / ‖f(x) − its mean‖ per angle; / ‖f(x)‖ without pixels."""
    sources: dict[str, float]
    """Root mean square over the angles between multiples of 90°, by `SOURCES`; squares add up to
    that of `total`. Padding is NaN where it cannot be measured."""

    @property
    def total(self) -> float:
        """Root mean square of the error over the angles between multiples of 90°."""
        return math.sqrt(sum(v * v for v in self.sources.values() if not math.isnan(v)))


@dataclass(frozen=True, eq=False)
class NetworkErrors:
    """The errors of all steps of a network."""

    network: str
    angles: tuple[float, ...]
    layers: tuple[LayerError, ...]

    def at(self, angle: float) -> list[float]:
        """The error of every step at one of the angles."""
        return [layer.errors[self.angles.index(angle)] for layer in self.layers]

    def numbers(self) -> Numbers:
        """Errors at some angles, and where they come from, in percent."""
        shown = [angle for angle in (45.0, 90.0, 180.0) if angle in self.angles]
        rows = []
        for layer in self.layers:
            errors = [layer.errors[self.angles.index(angle)] for angle in shown]
            numbers = [*errors, layer.total, *(layer.sources[source] for source in SOURCES)]
            rows.append((layer.name, *(percent(number).removesuffix(" %") for number in numbers)))
        title = f"{self.network}: error of rotated maps in percent, and where it comes from"
        header = ("step", *(f"{angle:g}°" for angle in shown), "all", *SOURCES)
        return Numbers(title, header, rows)


def measure_equivariance(
    network: Network | nn.Module | str,
    angles: Sequence[float] = ANGLES,
    *,
    in_streams: StreamsLike | None = None,
    size: int = 64,
    wavelength: float = 16.0,
    background: float | None = None,
    seed: int = 0,
) -> NetworkErrors:
    """The error of every layer of a network when its input is rotated.

    Runs a copy in evaluation mode, multiples of 90° in float64. Maps of layers that name no
    ``out_streams`` are compared by the rule of order 0: they should rotate with the image, and
    nothing else.

    Args:
        network: any module on plain tensors, or the name of one as `find_network` takes it.
        angles: in degrees, counter-clockwise, with at least one between multiples of 90°.
        in_streams: layout of the input; by default as the network says, or real channels.
        size: height and width of the test image.
        wavelength: shortest wavelength in it, in pixels.
        background: of the test image, 0 to 1; by default black for one channel, as around
            digits, and mid-grey for others.
        seed: which random image.
    """
    network = find_network(network)
    streams = _input_streams(network, in_streams)
    between = [i for i, angle in enumerate(angles) if angle % 90]
    if not between:
        raise InputError("expected an angle between multiples of 90 too, such as 45")
    if background is None:
        background = 0.0 if streams.channels == 1 else 0.5
    texture = partial(_texture, streams, size, wavelength, background, seed)
    # A multiple of 64 keeps pooled pixels where they are.
    runs = _Runs(network, texture, margin=64 * math.ceil(size / 128))
    pairs = np.array([runs.errors(angle) for angle in angles])  # (angles, steps, error and floor)
    errors, floors = pairs[..., 0], pairs[..., 1]
    some = between[:: math.ceil(len(between) / _CONTINUED)]
    continued = runs.continued([angles[i] for i in some])
    padding = np.square(errors)[some].mean(0) - np.square(continued).mean(0)
    steps = runs.upright(torch.float64)
    squares, floors = (np.square(each)[between].mean(0) for each in (errors, floors))
    sources = _sources(steps, squares, floors, padding)
    layers = [
        LayerError(maps.name, maps.kind, maps.streams, tuple(maps.values.shape[2:]),
                   tuple(map(float, own)), parts)
        for maps, own, parts in zip(steps, errors.T, sources, strict=True)
    ]  # fmt: skip
    return NetworkErrors(network.title, tuple(map(float, angles)), tuple(layers))


def _texture(
    streams: Streams, size: int, wavelength: float, background: float, seed: int,
    theta: float, margin: int = 0,
) -> Tensor:  # fmt: skip
    """The test image, rotated by any angle and with any margin around it."""
    x = band_limited(streams, size, theta, wavelength, seed)
    if not all(stream.real for stream in streams):  # fields have no grey
        return nn.functional.pad(x, (margin,) * 4)
    disc = torch.cos(math.pi / 2 * ((_radius(x) - 0.3) / 0.6).clamp(0, 1)) ** 2
    x = (0.5 - background) * disc + _CONTRAST * x / _SPREAD
    return nn.functional.pad(x, (margin,) * 4) + background


class _Runs:
    """A network on the test image, in the precision that the comparison needs."""

    def __init__(self, network: Network, texture: Callable[..., Tensor], margin: int) -> None:
        self.name, self.texture, self.margin = network.name, texture, margin
        # At multiples of 90° rounding is all there is; at other angles float32 is enough.
        self.nets = {
            dtype: copy.deepcopy(network.module).to(dtype).eval()
            for dtype in (torch.float64, torch.float32)
        }
        self.known: dict[torch.dtype, list[Maps]] = {}

    def upright(self, dtype: torch.dtype) -> list[Maps]:
        """The maps of the image as it is."""
        if dtype not in self.known:
            self.known[dtype] = self.rotated(0.0, dtype)
        return self.known[dtype]

    def rotated(self, theta: float, dtype: torch.dtype) -> list[Maps]:
        """The maps of the rotated image."""
        x = self.texture(theta).to(dtype)
        try:
            return trace(self.nets[dtype], x)
        except InputError:
            raise
        except Exception as error:  # a user's module raises anything
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.name} does not take an input of shape {tuple(x.shape)} ({reason}); try "
                "another size or in_streams"
            ) from error

    def errors(self, angle: float) -> list[tuple[float, float]]:
        """The error of every step at an angle in degrees, and what the comparison adds to it."""
        dtype = torch.float32 if angle % 90 else torch.float64
        theta = math.radians(angle % 360)
        rotated = self.rotated(theta, dtype) if theta else self.upright(dtype)
        return [_compare(a, b, theta) for a, b in zip(self.upright(dtype), rotated, strict=True)]

    def continued(self, angles: Sequence[float]) -> list[list[float]]:
        """The errors where the background goes on beyond the image; NaN where that cannot be."""
        net, like = self.nets[torch.float32], self.upright(torch.float64)
        try:
            upright = trace(net, self.texture(0.0, self.margin).float())
        except Exception:  # a network that takes one size only, at which it has run before
            return [[math.nan] * len(like)]
        rows = []
        for theta in map(math.radians, angles):
            rotated = trace(net, self.texture(theta, self.margin).float())
            triples = zip(upright, rotated, like, strict=True)
            rows.append([_compare(_cut(a, c), _cut(b, c), theta)[0] for a, b, c in triples])
        return rows


def _input_streams(network: Network, streams: StreamsLike | None) -> Streams:
    if streams is not None:
        try:
            return Streams(streams)
        except ValueError as error:
            raise InputError(str(error)) from None
    for part in network.module.modules():
        if isinstance(own := getattr(part, "in_streams", None), Streams):
            return own
        channels = getattr(part, "in_chans", getattr(part, "in_channels", None))
        if isinstance(channels, int):
            return Streams(f"{channels}x0r")
    raise InputError(
        f"cannot tell how many channels {network.name} takes: give its in_streams, such as 3x0r "
        "for colour images"
    )


def _cut(maps: Maps, like: Maps) -> Maps:
    if maps.values.dim() != 4:
        return maps
    return replace(maps, values=F.crop(maps.values, *like.values.shape[2:]))


def _compare(upright: Maps, rotated: Maps, theta: float) -> tuple[float, float]:
    """The relative error, and the part of it that is made by rotating the map to compare it."""
    streams, y = upright.streams, upright.values
    if y.dim() == 2:
        return _distance(rotated.values, streams.rotate(y, theta), y), 0.0
    expected = F.rotate(y, theta, streams)
    back = F.rotate(expected, -theta, streams)
    return _distance(rotated.values, expected, y), _distance(back, y, y) / 2


def _distance(a: Tensor, b: Tensor, scale: Tensor) -> float:
    inside = torch.ones((), dtype=a.dtype)
    if a.dim() == 4:
        inside = (_radius(a) < _DISC).to(a.dtype)
        scale = scale - (scale * inside).sum((2, 3), keepdim=True) / inside.sum()
    norm = float((scale * inside).norm())
    return float(((a - b) * inside).norm()) / norm if norm else 0.0


def _radius(maps: Tensor) -> Tensor:
    """Distance of every pixel from the centre, in half heights and widths."""
    y, x = ((torch.arange(n, dtype=torch.float64) - (n - 1) / 2) / (n / 2) for n in maps.shape[2:])
    return y[:, None].hypot(x)


def _sources(
    steps: Sequence[Maps],
    squares: NDArray[np.float64],
    floors: NDArray[np.float64],
    padding: NDArray[np.float64],
) -> list[dict[str, float]]:
    """Split the mean squared error of every step; the parts add up to it."""
    sources = []
    pooled = before = 0.0
    for maps, square, floor, border in zip(steps, squares, floors, padding, strict=True):
        measured = maps.values.dim() == 4 and not np.isnan(border)
        border = min(max(border, 0.0), square) if measured else 0.0
        resampled = min(square - border, floor)
        rest = square - border - resampled
        if rest < before:
            pooled *= rest / before
        elif maps.kind == "pooling":
            pooled += rest - before
        before = rest
        parts = (max(0.0, rest - pooled), pooled, resampled, border if measured else math.nan)
        sources.append({k: float(np.sqrt(v)) for k, v in zip(SOURCES, parts, strict=True)})
    return sources
