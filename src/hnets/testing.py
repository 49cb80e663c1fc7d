"""Tests of the equivariance of a module: ours, or your own.

The test image is a random band-limited function, given by a formula, so it can be mirrored and
rotated by any angle without interpolation. At multiples of 90 degrees it fills the square, and all
of the output is compared. At other angles it falls to zero inside the square, and the output is
compared inside a disc. The comparison then allows for the error of interpolating the output,
measured by rotating it by the angle and back.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.streams import Stream, Streams, StreamsLike

ANGLES = (15.0, 30.0, 45.0, 60.0, 75.0, 90.0, 180.0, 270.0)
_EXACT = 1e-9


class Motion(NamedTuple):
    """A flip upside down, if ``mirrored``, and then a rotation by ``angle`` degrees.

    >>> print(Motion(30), Motion(0, mirrored=True), Motion(30, mirrored=True), sep=", ")
    at 30 degrees, in a mirror, in a mirror and at 30 degrees
    """

    angle: float
    mirrored: bool = False

    @property
    def exact(self) -> bool:
        """Whether it moves pixels to pixels of a square."""
        return self.angle % 90 == 0

    def __str__(self) -> str:
        angle = f"at {self.angle:g} degrees"
        if not self.mirrored:
            return angle
        return f"in a mirror and {angle}" if self.angle else "in a mirror"


@dataclass(frozen=True)
class Equivariance:
    """Errors of equivariance: one row per motion of the image, one column per stream."""

    motions: tuple[Motion, ...]
    streams: Streams
    errors: tuple[tuple[float, ...], ...]
    """‖f(moved x) − moved f(x)‖ / ‖f(x)‖ per motion and stream."""
    interpolation: tuple[tuple[float, ...], ...]
    """The same for moving the output and back: the error of resampling it."""

    @property
    def max(self) -> float:
        """The largest error; NaN if one is."""
        return float(torch.tensor(self.errors, dtype=torch.float64, device="cpu").max())

    def excess(self, tolerance: float) -> tuple[float, Motion, Stream, float, float]:
        """The entry furthest above its bound: (error/bound, motion, stream, error, bound)."""
        entries = []
        for motion, errors, floors in zip(
            self.motions, self.errors, self.interpolation, strict=True
        ):
            for stream, error, floor in zip(self.streams, errors, floors, strict=True):
                bound = _EXACT if motion.exact else tolerance + floor
                entries.append((error / bound, motion, stream, error, bound))
        # A NaN is not below any bound.
        return max(entries, key=lambda entry: math.inf if math.isnan(entry[0]) else entry[0])

    def __str__(self) -> str:
        labels = [f"{angle:5g}°{' mirrored' * mirrored}" for angle, mirrored in self.motions]
        width = 2 + max(map(len, labels))
        head = f"{'angle':{width}}" + "".join(f"{s!s:>12}" for s in self.streams)
        rows = [
            f"{label:{width}}" + "".join(f"{error:12.2e}" for error in errors)
            for label, errors in zip(labels, self.errors, strict=True)
        ]
        return "\n".join([head, *rows])


def equivariance_error(
    module: nn.Module,
    angles: Sequence[float] = ANGLES,
    *,
    mirror: bool = False,
    in_streams: StreamsLike | None = None,
    out_streams: StreamsLike | None = None,
    size: int = 64,
    wavelength: float = 16.0,
    seed: int = 0,
) -> Equivariance:
    """Measure how a module's output follows motions of its input, stream by stream.

    Runs a float64 copy of the module in evaluation mode. The output is ``(batch, channels)`` or
    ``(batch, channels, height, width)``.

    Args:
        module: any module on plain tensors.
        angles: of rotations, in degrees, counter-clockwise.
        mirror: also flip the input, and rotate the mirror image by these angles.
        in_streams: layout of the input; by default that of the first submodule that has it.
        out_streams: layout of the output; by default that of the last submodule that has it.
        size: height and width of the test image.
        wavelength: shortest wavelength in it, in pixels.
        seed: of the random image.
    """
    into = _streams(module, in_streams, "in_streams", first=True)
    out = _streams(module, out_streams, "out_streams", first=False)
    net = copy.deepcopy(module).double().eval()
    device = next((t.device for t in [*net.parameters(), *net.buffers()]), torch.device("cpu"))
    if not all(map(math.isfinite, angles)) or not (len(angles) or mirror):
        raise ValueError(
            f"angles are finite numbers of degrees, at least one without mirror, got {angles!r}"
        )
    motions = tuple(Motion(angle) for angle in angles)
    if mirror:
        motions += tuple(Motion(angle, mirrored=True) for angle in dict.fromkeys((0.0, *angles)))
    errors, floors = [], []

    def response(motion: Motion, window: bool) -> Tensor:
        theta = math.radians(motion.angle)
        image = band_limited(into, size, theta, wavelength, seed, motion.mirrored, window)
        return _checked(net(image.to(device)), out)

    with torch.no_grad():
        upright = {w: response(Motion(0.0), w) for w in {not motion.exact for motion in motions}}
        for motion in motions:
            window = not motion.exact
            straight, moved = upright[window], response(motion, window)
            expected, back = _move(straight, motion, out), straight
            if not motion.exact:  # a reflection is its own inverse
                back = _move(expected, motion if motion.mirrored else Motion(-motion.angle), out)
            errors.append(_distance(moved, expected, straight, out, window))
            floors.append(_distance(back, straight, straight, out, window))
    return Equivariance(motions, out, tuple(errors), tuple(floors))


def assert_equivariant(
    module: nn.Module,
    angles: Sequence[float] = ANGLES,
    *,
    mirror: bool = False,
    tolerance: float = 0.2,
    in_streams: StreamsLike | None = None,
    out_streams: StreamsLike | None = None,
    size: int = 64,
    wavelength: float = 16.0,
    seed: int = 0,
) -> None:
    """Raise AssertionError unless the module is equivariant.

    At multiples of 90 degrees, and with ``mirror`` at flips, the output must agree to 1e-9, at
    other angles to ``tolerance`` (of the output's norm) plus the error of interpolating the output.
    Arguments are those of `equivariance_error`.

    >>> from hnets import nn as hnn
    >>> assert_equivariant(hnn.HConv2d("3x0r", "8x0 + 8x1", kernel_size=5))
    >>> assert_equivariant(hnn.HConv2d("3x0r", "8x0 + 8x1", 5, mirror=True), mirror=True)
    """
    report = equivariance_error(
        module,
        angles,
        mirror=mirror,
        in_streams=in_streams,
        out_streams=out_streams,
        size=size,
        wavelength=wavelength,
        seed=seed,
    )
    ratio, motion, stream, error, bound = report.excess(tolerance)
    if ratio <= 1:
        return
    hint = ""
    if motion.exact:
        what = "a flip" if motion.mirrored else "a rotation by 90 degrees"
        hint = (
            f"; {what} is exact unless a layer breaks the symmetry, "
            "or a stride or pooling does not divide the size evenly"
        )
    not_mirrored = [  # layers that could commute with reflections, and do not
        name or "it"
        for name, part in module.named_modules()
        if getattr(part, "mirror", True) is False
    ]
    if motion.mirrored and not_mirrored:
        hint += f"; layers without mirror=True: {', '.join(not_mirrored)}"
    raise AssertionError(
        f"{type(module).__name__} is not equivariant: {motion} stream {stream} of "
        f"{report.streams} is off by {error:.3g} of its norm, allowed {bound:.3g}{hint}\n{report}"
    )


def band_limited(
    streams: Streams,
    size: int,
    theta: float = 0.0,
    wavelength: float = 16.0,
    seed: int = 0,
    mirrored: bool = False,
    window: bool = True,
) -> Tensor:
    """A random smooth feature map, rotated by θ radians exactly: ``(1, channels, size, size)``.

    Sixteen plane waves per field, none shorter than ``wavelength`` pixels; in float64 on the CPU.
    With ``window`` they fall to zero inside the image, so that rotations move nothing in or out.
    ``mirrored``, it is flipped upside down before it is rotated.
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    waves, fields = 16, streams.fields

    def random(low: float, high: float) -> Tensor:
        unit = torch.rand(fields, waves, generator=generator, dtype=torch.float64, device="cpu")
        return low + (high - low) * unit

    frequency, direction = 2 * math.pi / wavelength * random(0, 1).sqrt(), random(0, 2 * math.pi)
    amplitude, shift = random(0, 1), random(0, 2 * math.pi)
    offset = torch.arange(size, dtype=torch.float64, device="cpu") - (size - 1) / 2
    y, x = torch.meshgrid(-offset, offset, indexing="ij")
    # The rotated function at a point is the function at the point rotated back.
    along = (-direction if mirrored else direction)[..., None, None] + theta
    wave = frequency[..., None, None] * (along.cos() * x + along.sin() * y)  # (fields, waves, h, w)
    wave = torch.polar(amplitude[..., None, None].expand_as(wave), wave + shift[..., None, None])
    values = wave.sum(1)
    if window:
        radius = torch.hypot(x, y) / (size / 2)
        values *= torch.cos(math.pi / 2 * ((radius - 0.3) / 0.6).clamp(0, 1)) ** 2
    parts, start = [], 0
    for stream in streams:
        block = values[start : start + stream.multiplicity]
        parts += [block.real] if stream.real else [block.real, block.imag]
        start += stream.multiplicity
    image = torch.cat(parts)[None]
    return streams.reflect(image, theta / 2) if mirrored else streams.rotate(image, theta)


def _streams(module: nn.Module, streams: StreamsLike | None, name: str, first: bool) -> Streams:
    if streams is not None:
        return Streams(streams)
    layouts = [getattr(part, name, None) for part in module.modules()]
    if isinstance(layouts[0], Streams):  # the module's own
        return layouts[0]
    known = [layout for layout in layouts if isinstance(layout, Streams)]
    if not known:
        raise ValueError(
            f"cannot tell the {name} of {type(module).__name__}: no part of it has that attribute; "
            f'give {name}="3x0r" or the like'
        )
    return known[0 if first else -1]


def _checked(y: object, streams: Streams) -> Tensor:
    """The output of a module, if it can be compared."""
    if not isinstance(y, Tensor):
        raise ValueError(
            f"the output should be one tensor, got a {type(y).__name__}: test a module around it "
            "that gives one of its tensors, and name its out_streams"
        )
    if y.dim() not in (2, 4) or y.shape[1] != streams.channels:
        raise ValueError(
            f"the output should have {streams} = {streams.channels} channels, as (batch, channels) "
            f"or (batch, channels, height, width), got {tuple(y.shape)}; name its out_streams"
        )
    return y


def _move(y: Tensor, motion: Motion, streams: Streams) -> Tensor:
    theta, flat = math.radians(motion.angle), y.dim() == 2
    if motion.mirrored:  # a flip, then a rotation by θ: a reflection across an axis at θ/2
        return streams.reflect(y, theta / 2) if flat else F.reflect(y, streams, theta / 2)
    return streams.rotate(y, theta) if flat else F.rotate(y, theta, streams)


def _distance(
    a: Tensor, b: Tensor, scale: Tensor, streams: Streams, disc: bool
) -> tuple[float, ...]:
    """Relative distance per stream; of a ``disc``, what every rotation keeps in the image."""
    inside = torch.ones((), dtype=a.dtype, device=a.device)
    if disc and a.dim() == 4:
        offsets = [(torch.arange(n, device=a.device) - (n - 1) / 2) / (n / 2) for n in a.shape[2:]]
        inside = (offsets[0][:, None].hypot(offsets[1][None, :]) < 1).to(a.dtype)
    return tuple(
        float(
            ((a - b)[:, where] * inside).norm() / (scale[:, where] * inside).norm().clamp_min(1e-30)
        )
        for where in streams.slices
    )
