"""How far every layer of a network is from turning with its input, and where that comes from.

The test picture is a disc of smooth random texture that fades into an even background
(`hnets.testing.band_limited`), written down as a formula: it is turned by any angle without
interpolation. Of the error of a layer, in squares,

- *padding* is what goes away when the background is continued far beyond the picture and the maps
  are cut back to their size;
- *resampling* is the error of the comparison itself, for which the map has to be turned: half of
  what is lost by turning it there and back;
- *pooling* is what the pooling steps up to that layer have each added to the rest, less what later
  layers have evened out;
- *filters* is what remains: filters that are sampled on pixels or not bound to turn at all, and
  nonlinearities between samples.

Errors of maps are relative to how much the maps vary over the picture: a constant turns by itself.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hnets import functional as F
from hnets.errors import InputError
from hnets.plot.style import INK, MUTED, new_figure, style
from hnets.streams import Streams, StreamsLike
from hnets.studies.networks import Network, find_network
from hnets.studies.trace import Kind, Maps, trace
from hnets.testing import band_limited

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

__all__ = ["SOURCES", "LayerError", "NetworkErrors", "equivariance", "equivariance_figure"]

ANGLES = tuple(22.5 * number for number in range(17))
SOURCES = ("filters", "pooling", "resampling", "padding")
_COLOURS = {
    "filters": "#1b5fa8",
    "pooling": "#c27c0e",
    "resampling": "#afb8c1",
    "padding": "#c0392b",
}
_DISC = 0.9
"""Radius, in half pictures, of the disc that is compared."""
_CONTINUED = 3
"""Angles at which the background is continued: that takes several times as long."""
_CONTRAST = 0.2
"""Root mean square of the texture about mid-grey, where 1 is white."""
_SPREAD = math.sqrt(16 / 6)
"""That of a sum of sixteen waves, whose amplitudes are drawn from 0 to 1."""


@dataclass(frozen=True, eq=False)
class LayerError:
    """How far one step of a network is from turning as it should."""

    name: str
    kind: Kind
    streams: Streams
    shape: tuple[int, ...]
    """Height and width of its maps; empty of an answer without pixels."""
    errors: tuple[float, ...]
    """‖f(turned x) − turned f(x)‖ / ‖f(x) − its mean‖ at every angle; / ‖f(x)‖ without pixels."""
    sources: dict[str, float]
    """Root mean square over the angles between quarter turns, by `SOURCES`; squares add up to that
    of `total`. Padding is not a number where it cannot be told."""

    @property
    def total(self) -> float:
        """Root mean square of the error over the angles between quarter turns."""
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

    def figure(self) -> Figure:
        """Draw error against angle, and where it comes from."""
        return equivariance_figure([self])


def equivariance(
    network: Network | nn.Module | str,
    angles: Sequence[float] = ANGLES,
    *,
    in_streams: StreamsLike | None = None,
    size: int = 64,
    wavelength: float = 16.0,
    background: float | None = None,
    seed: int = 0,
) -> NetworkErrors:
    """Measure how every layer of a network follows turns of its input.

    Runs a copy in evaluation mode, quarter turns in float64. Maps of layers that name no
    ``out_streams`` are held to the rule of order 0: they should turn with the picture, and nothing
    else.

    Args:
        network: any module on plain tensors, or the name of one as `find_network` takes it.
        angles: in degrees, counter-clockwise, with at least one between quarter turns.
        in_streams: layout of the input; by default as the network says, or real channels.
        size: height and width of the test picture.
        wavelength: shortest wavelength in it, in pixels.
        background: of the test picture, 0 to 1; by default black for one channel, as around
            digits, and mid-grey for others.
        seed: which random picture.
    """
    if isinstance(network, str):
        network = find_network(network)
    elif isinstance(network, nn.Module):
        network = Network(type(network).__name__, network, trained=True)
    runs = _Runs(network)
    into = _input_streams(network, in_streams)
    between = [i for i, angle in enumerate(angles) if angle % 90]
    if not between:
        raise InputError("expected an angle between quarter turns too, such as 45")
    if background is None:
        background = 0.0 if into.channels == 1 else 0.5
    texture = _Texture(into, size, wavelength, background, seed)
    found = [runs.errors(texture, angle) for angle in angles]  # (error, floor) of every step
    errors, floors = ([[step[part] for step in row] for row in found] for part in (0, 1))
    some = between[:: math.ceil(len(between) / _CONTINUED)]
    steps = runs.steps(texture, 0.0, torch.float64)
    continued = runs.continued(texture, [angles[i] for i in some])
    padding = np.square(errors)[some].mean(0) - np.square(continued).mean(0)
    squares = np.square(errors)[between].mean(0)
    sources = _sources(steps, squares, np.square(floors)[between].mean(0), padding)
    layers = [
        LayerError(
            maps.name,
            maps.kind,
            maps.streams,
            tuple(maps.values.shape[2:]),
            tuple(row[number] for row in errors),
            sources[number],
        )
        for number, maps in enumerate(steps)
    ]
    return NetworkErrors(network.title, tuple(map(float, angles)), tuple(layers))


class _Runs:
    """A network that is shown pictures, in the precision that the comparison needs."""

    def __init__(self, network: Network) -> None:
        self.name = network.name
        # Of a quarter turn, rounding is all there is to see; at other angles float32 will do.
        self.nets = {
            dtype: copy.deepcopy(network.module).to(dtype).eval()
            for dtype in (torch.float64, torch.float32)
        }
        self.known: dict[torch.dtype, list[Maps]] = {}

    def steps(self, texture: _Texture, theta: float, dtype: torch.dtype) -> list[Maps]:
        """The maps of the turned picture."""
        if theta == 0 and dtype in self.known:
            return self.known[dtype]
        x = texture(theta).to(dtype)
        try:
            found = trace(self.nets[dtype], x)
        except InputError:
            raise
        except Exception as error:  # a user's module raises anything
            reason = " ".join(str(error).split())
            raise InputError(
                f"{self.name} does not take an input of shape {tuple(x.shape)} ({reason}); try "
                "another size or in_streams"
            ) from error
        return self.known.setdefault(dtype, found) if theta == 0 else found

    def errors(self, texture: _Texture, angle: float) -> list[tuple[float, float]]:
        """The error and the floor of every step at an angle in degrees."""
        dtype = torch.float32 if angle % 90 else torch.float64
        theta = math.radians(angle % 360)
        pairs = zip(self.steps(texture, 0.0, dtype), self.steps(texture, theta, dtype), strict=True)
        return [_compare(a, b, theta) for a, b in pairs]

    def continued(self, texture: _Texture, angles: Sequence[float]) -> list[list[float]]:
        """The errors where the background goes on beyond the picture; NaN where that cannot be."""
        net, like = self.nets[torch.float32], self.steps(texture, 0.0, torch.float64)
        # A multiple of 64 keeps pooled pixels where they are.
        margin = 64 * math.ceil(texture.size / 128)
        try:
            straight = trace(net, texture(0.0, margin).float())
        except Exception:  # a network that takes one size only, which it has been given before
            return [[math.nan] * len(like)]
        rows = []
        for angle in angles:
            theta = math.radians(angle)
            turned = trace(net, texture(theta, margin).float())
            triples = zip(straight, turned, like, strict=True)
            rows.append([_compare(_cut(a, c), _cut(b, c), theta)[0] for a, b, c in triples])
        return rows


class _Texture:
    """The test picture, turned by any angle and with any margin around it."""

    def __init__(
        self, streams: Streams, size: int, wavelength: float, background: float, seed: int
    ) -> None:
        self.streams, self.size, self.background = streams, size, background
        self.wavelength, self.seed = wavelength, seed
        self.picture = all(stream.real for stream in streams)

    def __call__(self, theta: float, margin: int = 0) -> Tensor:
        x = band_limited(self.streams, self.size, theta, self.wavelength, self.seed)
        if self.picture:  # other fields have no grey, and stay as they are
            offset = (torch.arange(self.size, dtype=x.dtype) - (self.size - 1) / 2) / (
                self.size / 2
            )
            radius = offset[:, None].hypot(offset)
            disc = torch.cos(math.pi / 2 * ((radius - 0.3) / 0.6).clamp(0, 1)) ** 2
            x = (0.5 - self.background) * disc + _CONTRAST * x / _SPREAD
        x = nn.functional.pad(x, (margin,) * 4)
        return x + self.background if self.picture else x


def _input_streams(network: Network, given: StreamsLike | None) -> Streams:
    try:
        if given is not None:
            return Streams(given)
    except ValueError as error:
        raise InputError(str(error)) from None
    for part in network.module.modules():
        found = getattr(part, "in_streams", None)
        if isinstance(found, Streams):
            return found
        channels = getattr(part, "in_chans", getattr(part, "in_channels", None))
        if isinstance(channels, int):
            return Streams(f"{channels}x0r")
    raise InputError(
        f"cannot tell how many channels {network.name} takes: give its in_streams, such as 3x0r "
        "for colour pictures"
    )


def _cut(maps: Maps, like: Maps) -> Maps:
    if maps.values.dim() != 4:
        return maps
    values = F.crop(maps.values, like.values.shape[2], like.values.shape[3])
    return Maps(maps.name, maps.kind, maps.streams, values)


def _compare(straight: Maps, turned: Maps, theta: float) -> tuple[float, float]:
    """The relative error, and the part of it that is made by turning the map to compare it."""
    streams, y = straight.streams, straight.values
    if y.dim() == 2:
        return _distance(turned.values, streams.rotate(y, theta), y), 0.0
    expected = F.rotate(y, theta, streams)
    back = F.rotate(expected, -theta, streams)
    return _distance(turned.values, expected, y), _distance(back, y, y) / 2


def _distance(a: Tensor, b: Tensor, scale: Tensor) -> float:
    inside = torch.ones((), dtype=a.dtype)
    if a.dim() == 4:
        offsets = [(torch.arange(n) - (n - 1) / 2) / (n / 2) for n in a.shape[2:]]
        inside = (offsets[0][:, None].hypot(offsets[1]) < _DISC).to(a.dtype)
        scale = scale - (scale * inside).sum((2, 3), keepdim=True) / inside.sum()
    norm = float((scale * inside).norm())
    return float(((a - b) * inside).norm()) / norm if norm else 0.0


def _sources(
    steps: Sequence[Maps],
    squares: NDArray[np.float64],
    floors: NDArray[np.float64],
    padding: NDArray[np.float64],
) -> list[dict[str, float]]:
    """Split the mean squared error of every step; the parts add up to it."""
    found = []
    pooled = before = 0.0
    for maps, square, floor, border in zip(steps, squares, floors, padding, strict=True):
        told = maps.values.dim() == 4 and not np.isnan(border)
        border = min(max(border, 0.0), square) if told else 0.0
        resampled = min(square - border, floor)
        rest = square - border - resampled
        if rest < before:
            pooled *= rest / before
        elif maps.kind == "pooling":
            pooled += rest - before
        before = rest
        parts = {
            "filters": max(0.0, rest - pooled),
            "pooling": pooled,
            "resampling": resampled,
            "padding": border if told else math.nan,
        }
        found.append({name: float(np.sqrt(part)) for name, part in parts.items()})
    return found


# The figure ----------------------------------------------------------------------------------


def equivariance_figure(studies: Sequence[NetworkErrors]) -> Figure:
    """Draw networks side by side: error against angle above, where it comes from below."""
    with style():
        from matplotlib import colormaps

        left, panel, gap, top, high, low, bottom = 0.85, 4.9, 0.75, 0.72, 2.5, 2.2, 1.05
        between = 1.0
        width = left + len(studies) * (panel + gap)
        height = top + high + between + low + bottom
        figure = new_figure(width, height)
        ceiling = 100 * max(max(max(layer.errors) for layer in study.layers) for study in studies)
        ceiling = min(max(1.08 * ceiling, 1.0), 160.0)
        bars = 100 * max(layer.total for study in studies for layer in study.layers)
        for column, study in enumerate(studies):
            x = left + column * (panel + gap)

            def place(down: float, tall: float, x: float = x) -> Axes:
                box = (x / width, 1 - (down + tall) / height, panel / width, tall / height)
                return figure.add_axes(box)

            figure.text(x / width, 1 - 0.32 / height, study.network, size=11, weight="bold",
                        parse_math=False)  # fmt: skip
            text = "error against the angle of the input, layer by layer"
            figure.text(x / width, 1 - 0.54 / height, text, size=8.5, color=MUTED)
            _curves(place(top, high), study, ceiling, colormaps["viridis"])
            down = top + high + between
            text = "where it comes from: squares of the parts add up to the square of the bar"
            figure.text(x / width, 1 - (down - 0.13) / height, text, size=8.5, color=MUTED)
            _bars(place(down, low), study, min(1.12 * bars, ceiling), legend=column == 0)
    return figure


def _curves(axes: Axes, study: NetworkErrors, ceiling: float, colours: Colormap) -> None:
    layers = [layer for layer in study.layers if layer.kind == "layer"]
    for number, layer in enumerate(layers):
        colour = colours(0.92 * number / max(1, len(layers) - 1))
        label = layer.name if number in (0, len(layers) - 1) or len(layers) <= 7 else None
        axes.plot(study.angles, [100 * e for e in layer.errors], color=colour, label=label,
                  linewidth=1.3)  # fmt: skip
    answer = study.layers[-1]
    axes.plot(study.angles, [100 * e for e in answer.errors], color=INK, linestyle=(0, (3, 2)),
              linewidth=1.3, label="answer")  # fmt: skip
    axes.set(xlim=(min(study.angles), max(study.angles)), ylim=(0, ceiling))
    if max(study.angles) == 360:
        axes.set_xticks(range(0, 361, 90), [f"{angle}°" for angle in range(0, 361, 90)])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    _plain_axes(axes)
    axes.legend(frameon=False, fontsize=7.5, ncols=4, loc="upper left", handlelength=1.4,
                bbox_to_anchor=(-0.02, -0.09), columnspacing=1.2)  # fmt: skip


def _bars(axes: Axes, study: NetworkErrors, ceiling: float, legend: bool) -> None:
    names = [layer.name.replace("layer ", "").replace("pooling ", "p") for layer in study.layers]
    base = np.zeros(len(names))
    totals = np.array([100 * layer.total for layer in study.layers])
    for source in SOURCES:
        squares = np.nan_to_num([100 * layer.sources[source] for layer in study.layers]) ** 2
        parts = np.divide(squares, totals, out=np.zeros_like(totals), where=totals > 0)
        axes.bar(range(len(names)), parts, 0.72, base, color=_COLOURS[source], label=source)
        base += parts
    for number, total in enumerate(totals):
        if total > ceiling:
            axes.text(number, 0.97 * ceiling, f"{total:.0f}", size=7, ha="center", va="top",
                      color="white")  # fmt: skip
    axes.set_xticks(range(len(names)), names, size=8 if len(names) < 12 else 7)
    axes.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, ceiling))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g} %")
    axes.set_xlabel("layer; p is the pooling after it", size=8.5, color=MUTED)
    _plain_axes(axes)
    if legend:
        axes.legend(frameon=False, fontsize=8, ncols=4, loc="upper left", handlelength=1,
                    bbox_to_anchor=(-0.02, -0.22), columnspacing=1.2)  # fmt: skip


def _plain_axes(axes: Axes) -> None:
    axes.grid(axis="y", color="#d8dee4", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, labelsize=8)
    for edge in axes.spines.values():
        edge.set_visible(False)
