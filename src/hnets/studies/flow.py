"""Which way things point at every depth of a boundary detector: the paper's orientation maps.

A field of order 1 turns by exp(iθ) with the picture, so its phase is a direction, up to an offset
that each field has of its own (the paper's figure shows single fields, whose colours therefore
differ between layers). Here the offsets are measured once, on a drawn edge from dark to bright, and
taken away; then all fields of a layer can be added up, and a colour means the same in all layers:
the direction from dark to bright.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from hnets.errors import InputError
from hnets.plot.style import INK, bare, new_figure, style
from hnets.predict.rendering import colour_wheel, phase_colours
from hnets.studies.networks import Network, find_network, model_input
from hnets.studies.trace import Maps, harmonic_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Flow", "FlowMap", "flow"]

LAYERS = (2, 4, 6, 8, 10)
_EDGE = 192
"""Side of the drawn edge, in pixels: deep fields see far."""


@dataclass(frozen=True, eq=False)
class FlowMap:
    """The direction in which a layer sees the picture get brighter, at every pixel of its maps."""

    layer: int
    values: NDArray[np.complex64]
    """``(height, width)``; the phase is the direction, counter-clockwise from the x axis."""


@dataclass(frozen=True, eq=False)
class Flow:
    """Orientation maps of some layers of a network."""

    network: str
    picture: NDArray[np.float32]
    """``(height, width, 3)``, from 0 to 1."""
    maps: tuple[FlowMap, ...]

    def figure(self) -> Figure:
        """Draw the picture, the maps and the colour wheel."""
        return _draw(self)


def flow(
    picture: Image.Image,
    network: Network | str = "hdsn",
    size: int = 320,
    name: str = "the picture",
) -> Flow:
    """The orientation maps of a picture in layers 2, 4, 6, 8 and 10 of an H-DSN.

    Args:
        picture: in colour, or made so.
        network: one with fields of order 1 and three input channels, or its name.
        size: pixels along the longer side that the network sees.
        name: what an error calls the picture.
    """
    one = find_network(network) if isinstance(network, str) else network
    x = model_input(one.module, picture, size, name)
    if x.shape[1] != 3:
        raise InputError(f"expected a network of colour pictures such as hdsn, got {one.name}")
    layers = harmonic_layers(one.module, x)
    edges = harmonic_layers(one.module, _edge())
    chosen = [number for number in LAYERS if number <= len(layers)]
    found = []
    for number in chosen:
        fields = _fields(layers[number - 1], one.name)
        offsets = _middle(_fields(edges[number - 1], one.name))
        z = (offsets.conj()[:, None, None] * fields).sum(0)
        found.append(FlowMap(number, z.numpy()))
    return Flow(one.title, x[0].permute(1, 2, 0).numpy(), tuple(found))


def _edge() -> Tensor:
    """Dark on the left, bright on the right: its direction is 0."""
    at = torch.arange(_EDGE) - (_EDGE - 1) / 2
    row = 0.2 + 0.6 * torch.sigmoid(2 * at)
    return row.expand(1, 3, _EDGE, _EDGE).clone()


def _fields(maps: Maps, name: str) -> Tensor:
    """The complex fields of order 1, ``(fields, height, width)``."""
    if 1 not in maps.streams.orders:
        raise InputError(f"expected fields of order 1 in {maps.name} of {name}, got {maps.streams}")
    where = maps.streams.slices[[stream.order for stream in maps.streams].index(1)]
    return torch.complex(*maps.values[0, where].chunk(2))


def _middle(fields: Tensor) -> Tensor:
    """The mean over the pixels of the drawn edge, away from the border of the picture."""
    height, width = fields.shape[1:]
    far = max(1, height // 8)
    rows, columns = (
        slice(height // 2 - far, height // 2 + far),
        slice(width // 2 - 1, width // 2 + 1),
    )
    return fields[:, rows, columns].mean((1, 2))


def _draw(study: Flow) -> Figure:
    height, width = study.picture.shape[:2]
    with style():
        wide = max(2.4, 3.0 * min(1.0, width / height))  # room for titles and for the note
        tall = wide * height / width
        gap, head = 0.12, 0.3
        total = (0.15 + 3 * (wide + gap), 0.08 + 2 * (tall + head) + 1.5)
        figure = new_figure(*total)

        def place(x: float, down: float, w: float, h: float) -> Axes:
            box = (x / total[0], 1 - (down + h) / total[1], w / total[0], h / total[1])
            axes = figure.add_axes(box)
            bare(axes)
            return axes

        panels: list[tuple[str, NDArray[np.floating]]] = [("picture", study.picture)]
        for each in study.maps:
            rows, columns = each.values.shape
            title = f"layer {each.layer}: {columns}×{rows} pixels"
            panels.append((title, phase_colours(each.values)))
        for number, (title, pixels) in enumerate(panels):
            row, column = divmod(number, 3)
            axes = place(
                0.15 + column * (wide + gap), 0.08 + row * (tall + head) + head, wide, tall
            )
            axes.imshow(pixels, interpolation="nearest", vmin=0, vmax=1)
            axes.set_title(title, size=9.5, weight="bold", pad=5)
        down = 0.08 + 2 * (tall + head) + 0.2
        wheel = place(0.25, down, 1.2, 1.2)
        wheel.imshow(colour_wheel())
        text = (
            f"{study.network}, fields of order 1. Colour is the direction from dark to bright:\n"
            "red where it gets brighter to the right, and on counter-clockwise. Brightness is\n"
            "magnitude. An offset that each field has of its own is taken away, so that one\n"
            "colour means one direction in all layers."
        )
        figure.text(1.7 / total[0], 1 - (down + 0.6) / total[1], text, va="center", size=9,
                    color=INK, linespacing=1.5)  # fmt: skip
    return figure
