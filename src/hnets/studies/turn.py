"""Turn a picture: the example network on it, as tables and as a figure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter
from torch import Tensor, nn

from hnets import nn as hnn
from hnets import plot as inspect
from hnets._cost import cost
from hnets.data.image_file import centre_crop, read_image
from hnets.errors import MissingExtra
from hnets.streams import Streams
from hnets.testing import equivariance_error

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["example_network", "load", "plain_network", "turn"]

ANGLE = 60.0
"""Degrees by which the picture of the figure is turned."""
ANGLES = (15.0, 30.0, 45.0, 60.0, 90.0, 180.0)
"""Degrees of the table."""
BLUR = 2.0
"""Width in pixels of the Gaussian against aliasing: pixels cannot turn what they barely hold."""


def example_network(seed: int = 1) -> nn.Sequential:
    """The network of the README, with random weights."""
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


def load(path: Path | None) -> Image.Image:
    """A picture of the user's, or one that comes with scikit-image."""
    if path is not None:
        return read_image(path)
    try:
        from skimage import data
    except ImportError:
        raise MissingExtra("pictures to turn, if you give none,", "scikit-image", "plot") from None
    return Image.fromarray(data.astronaut())


def turn(picture: Image.Image, out: Path, size: int, seed: int, console: Console) -> Path:
    """Print what the example network costs and how it turns, and draw it on a picture."""
    with inspect.style():  # before any work: is there something to draw with?
        pass
    net, plain = example_network(seed), plain_network(seed)

    _say(console, f"The network: two harmonic layers, for a picture of {size}×{size} pixels")
    report, plain_report = cost(net, (3, size, size)), cost(plain, (3, size, size))
    console.print(report)
    _say(
        console,
        f"A plain network of the same widths does as many multiplications and learns "
        f"{plain_report.parameters:,} values instead of {report.parameters:,}.\n",
    )

    _say(console, "Does it turn? A random smooth picture and its feature maps, by several angles")
    console.print(_table(net, plain))
    _say(
        console,
        "Each number is ‖f(turned x) − turned f(x)‖ / ‖f(x)‖. The weights are random: the network "
        "has learned nothing about rotation, and need not. Quarter turns are exact; between them "
        "is the error of working with pixels.\n",
    )

    _say(console, f"Drawing the picture and its feature maps, turned by {ANGLE:g}°")
    upright, turned = (_input(picture, size, degrees) for degrees in (0.0, ANGLE))
    maps = _maps(net, plain, upright, turned)
    figure = inspect.turning_figure(_pixels(upright), _pixels(turned), maps, ANGLE)
    path = inspect.save(figure, out / "turn.png", compact=True)
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)
    return path


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)


def _input(picture: Image.Image, size: int, degrees: float) -> Tensor:
    """The middle of a picture, turned, as ``(1, 3, size, size)`` from −0.5 to 0.5.

    It is turned at twice the resolution, blurred against aliasing, and fades to grey at the rim of
    a disc, so that there is nothing in the corners that a turn would lose.
    """
    big = centre_crop(picture).resize((2 * size, 2 * size), Image.Resampling.LANCZOS)
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


def _maps(
    net: nn.Sequential, plain: nn.Sequential, upright: Tensor, turned: Tensor
) -> list[inspect.TurnedMap]:
    """The strongest field of some streams, and the plain channel that is most like order 1."""
    shown: list[tuple[nn.Module, int, str, str]] = [
        (net[:2], 0, "order 0", "moves, keeps its colours"),
        (net[:2], 1, "order 1", f"moves, colours turn by {ANGLE:g}°"),
        (net[:5], 1, "order 1, deeper", "the same after two layers"),
    ]
    maps = []
    for part, order, title, note in shown:
        before, after = _fields(part, upright, order), _fields(part, turned, order)
        best = int(np.abs(before).mean((1, 2)).argmax())
        maps.append(inspect.TurnedMap(title, note, before[best], after[best], order, ANGLE))
    with torch.no_grad():
        before, after = plain[:2](upright)[0].numpy(), plain[:2](turned)[0].numpy()
    best = _most_alike(np.abs(before), np.abs(maps[1].upright))
    note = "its map most like order 1"
    return [
        *maps,
        inspect.TurnedMap("plain convolution", note, before[best], after[best], 0, ANGLE),
    ]


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


def _table(net: nn.Sequential, plain: nn.Sequential) -> Table:
    from rich.table import Table

    streams = equivariance_error(net[:-1], ANGLES)
    magnitudes = equivariance_error(net, ANGLES)
    ordinary = equivariance_error(plain, ANGLES, in_streams="3x0r", out_streams="64x0r")
    table = Table()
    table.add_column("turned by", justify="right")
    for stream in streams.streams:
        table.add_column(f"order {stream.order}\n{stream}", justify="right", style="green")
    table.add_column(f"magnitudes\n{magnitudes.streams}", justify="right", style="green")
    table.add_column("plain\nnetwork", justify="right", style="red")
    for row, angle in enumerate(streams.angles):
        errors = [*streams.errors[row], *magnitudes.errors[row], *ordinary.errors[row]]
        table.add_row(f"{angle:g}°", *map(_percent, errors))
    return table


def _percent(error: float) -> str:
    return f"exact ({error:.0e})" if error < 1e-12 else f"{100 * error:.1f} %"
