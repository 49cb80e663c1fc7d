"""Feature maps: magnitude as colour, phase as arrows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hnets.errors import InputError
from hnets.plot.style import INK, MUTED, bare, new_figure, style
from hnets.studies.networks import Network, find_network, model_input
from hnets.studies.trace import Maps, harmonic_layers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

__all__ = ["FeatureMaps", "Field", "features"]

_ARROWS = 28
"""Arrows along the longer side of a map, or fewer if it has fewer pixels."""
_FAINT = 0.12
"""Magnitudes below this part of the order's largest have no arrow: their phase says nothing."""
_PALE = 0.7
"""Magnitudes above this part of the largest are bright, and have dark arrows."""
_DEAD = 1e-3
"""A map with less than this part of the strongest one's energy is empty."""


@dataclass(frozen=True, eq=False)
class Field:
    """One complex feature map."""

    order: int
    number: int
    """Among the fields of its order, from 1."""
    values: NDArray[np.complex64]
    """``(height, width)``."""

    @property
    def energy(self) -> float:
        """The root mean square of its magnitude."""
        return float(np.sqrt((np.abs(self.values) ** 2).mean()))


@dataclass(frozen=True, eq=False)
class FeatureMaps:
    """The fields of a layer, strongest first within an order, and the picture they are of."""

    network: str
    layer: str
    picture: NDArray[np.float32]
    """``(height, width)`` or ``(height, width, 3)``, from 0 to 1, as the network sees it."""
    fields: tuple[Field, ...]
    weaker: int
    """Fields of these orders that are left out because there are enough stronger ones."""
    empty: int
    """Fields of these orders that are left out because the picture gives next to nothing there."""

    def figure(self) -> Figure:
        """Draw them beside the picture."""
        return _draw(self)


def features(
    picture: Image.Image,
    network: Network | str = "hnet_mnist",
    layer: int = 2,
    order: int | None = None,
    most: int = 16,
    size: int = 192,
    name: str = "the picture",
) -> FeatureMaps:
    """The feature maps of a picture in one layer of a network.

    Args:
        picture: of a digit for hnet_mnist, of anything for others.
        network: one with harmonic convolutions, or its name.
        layer: counted from 1; its maps are taken after its nonlinearity.
        order: only the stream of this rotation order; by default all of them.
        most: how many fields; the strongest of each order.
        size: pixels along the longer side of a picture that is not a digit.
        name: what an error calls the picture.
    """
    one = find_network(network) if isinstance(network, str) else network
    x = model_input(one.module, picture, size, name)
    layers = harmonic_layers(one.module, x)
    if not 1 <= layer <= len(layers):
        raise InputError(f"{one.name} has layers 1 to {len(layers)}, got {layer}")
    maps = layers[layer - 1]
    if order is not None and order not in maps.streams.orders:
        there = " and ".join(map(str, maps.streams.orders))
        raise InputError(
            f"expected an order that {maps.name} of {one.name} has ({there}), got {order}"
        )
    orders = maps.streams.orders if order is None else (order,)
    every = [field for each in orders for field in _strongest(maps, each)]
    most_energy = max(field.energy for field in every)
    awake = [field for field in every if field.energy > _DEAD * most_energy] or every[:1]
    share = max(1, most // len(orders))
    kept = [
        field
        for each in orders
        for field in [field for field in awake if field.order == each][:share]
    ]
    shown = x[0].permute(1, 2, 0).numpy()
    return FeatureMaps(
        one.title,
        maps.name,
        shown[..., 0] if shown.shape[-1] == 1 else shown,
        tuple(kept),
        len(awake) - len(kept),
        len(every) - len(awake),
    )


def _strongest(maps: Maps, order: int) -> list[Field]:
    found: list[Field] = []
    for stream, where in zip(maps.streams, maps.streams.slices, strict=True):
        if stream.order != order:
            continue
        part = maps.values[0, where].numpy()
        fields = part if stream.real else part[: len(part) // 2] + 1j * part[len(part) // 2 :]
        found += [Field(order, len(found) + n, each) for n, each in enumerate(fields, 1)]
    return sorted(found, key=lambda field: -field.energy)


def _draw(study: FeatureMaps) -> Figure:
    orders = list(dict.fromkeys(field.order for field in study.fields))
    lines: list[tuple[int, list[Field]]] = []
    for order in orders:
        mine = [field for field in study.fields if field.order == order]
        per = len(mine) if len(mine) <= 4 else -(-len(mine) // math.ceil(len(mine) / 4))
        lines += [(order, mine[at : at + per]) for at in range(0, len(mine), per)]
    across = max(len(line) for _, line in lines)
    height, width = study.picture.shape[:2]
    with style():
        side, gap, top, left, head = 2.3, 0.12, 0.66, 0.15, 0.26
        tall = side * height / width if height < width else side
        wide = side * width / height if height > width else side
        total = (left + (across + 1) * (wide + gap) + 0.9, top + len(lines) * (tall + head + gap))
        figure = new_figure(*total)

        def place(x: float, down: float, w: float, h: float) -> Axes:
            box = (x / total[0], 1 - (down + h) / total[1], w / total[0], h / total[1])
            return figure.add_axes(box)

        title = f"{study.layer} of {study.network}"
        figure.text(left / total[0], 1 - 0.3 / total[1], title, size=11, weight="bold")
        note = "arrows are phases"
        out = ((study.weaker, "weaker"), (study.empty, "empty"))
        missing = " and ".join(f"{count} {what}" for count, what in out if count)
        note += f"; {missing} maps are not shown" if missing else ""
        figure.text(left / total[0], 1 - 0.52 / total[1], note, size=8.5, color=MUTED)
        axes = place(left, top + head, wide, tall)
        bare(axes)
        axes.imshow(study.picture, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
        axes.set_title("what the network sees", size=8.5, color=MUTED, pad=4)
        ceilings = {order: _largest(study, order) for order in orders}
        for row, (order, line) in enumerate(lines):
            for column, field in enumerate(line):
                x, down = left + (column + 1) * (wide + gap), top + row * (tall + head + gap) + head
                axes = place(x, down, wide, tall)
                shown = _field(axes, field, ceilings[order])
                axes.set_title(f"m = {order}, map {field.number}", size=8.5, pad=4)
        bar = place(total[0] - 0.8, top + head, 0.14, tall)
        figure.colorbar(shown, cax=bar)
        bar.tick_params(labelsize=7.5, length=0)
        bar.set_ylabel("magnitude / largest of its order", size=8, color=MUTED)
        bar.spines[:].set_visible(False)
    return figure


def _largest(study: FeatureMaps, order: int) -> float:
    fields = [field for field in study.fields if field.order == order]
    return max(float(np.abs(field.values).max()) for field in fields) or 1.0


def _field(axes: Axes, field: Field, ceiling: float) -> AxesImage:
    bare(axes)
    size = np.abs(field.values) / ceiling
    shown = axes.imshow(size, cmap="viridis", vmin=0, vmax=1, interpolation="nearest")
    height, width = size.shape
    step = max(1, math.ceil(max(height, width) / _ARROWS))
    y, x = np.mgrid[step // 2 : height : step, step // 2 : width : step]
    z = field.values[y, x] / ceiling
    for wanted, colour in (
        ((np.abs(z) > _FAINT) & (np.abs(z) <= _PALE), "white"),
        (np.abs(z) > _PALE, INK),
    ):
        unit = z[wanted] / np.abs(z[wanted])
        axes.quiver(
            x[wanted], y[wanted], unit.real, unit.imag, color=colour, pivot="middle",
            angles="uv", scale=1 / (0.85 * step), scale_units="x", units="x",
            width=0.09 * step, headwidth=4, headlength=4, headaxislength=3.6,
        )  # fmt: skip
    return shown
