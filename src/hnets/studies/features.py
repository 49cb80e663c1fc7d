"""Feature maps of an image, and the directions that they hold: the paper's orientation maps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from hnets.errors import InputError
from hnets.studies.networks import Network, find_network, model_input
from hnets.studies.trace import Maps, harmonic_layers

_DEAD = 1e-3
"""A map with less than this part of the strongest one's energy is empty."""
_FLOW_LAYERS = (2, 4, 6, 8, 10)
_EDGE = 192
"""Side of the drawn edge, in pixels: deep fields see far."""


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
    """The fields of a layer, strongest first within an order, and the image they are of."""

    network: str
    layer: str
    image: NDArray[np.float32]
    """``(height, width)`` or ``(height, width, 3)``, from 0 to 1, as the network sees it."""
    fields: tuple[Field, ...]
    weaker: int
    """Fields of these orders that are left out because there are enough stronger ones."""
    empty: int
    """Fields of these orders that are left out because the image gives next to nothing there."""


@dataclass(frozen=True, eq=False)
class FlowMap:
    """The direction in which a layer sees the image get brighter, at every pixel of its maps."""

    layer: int
    values: NDArray[np.complex64]
    """``(height, width)``; the phase is the direction, counter-clockwise from the x axis."""


@dataclass(frozen=True, eq=False)
class Flow:
    """Orientation maps of some layers of a network."""

    network: str
    image: NDArray[np.float32]
    """``(height, width, 3)``, from 0 to 1."""
    maps: tuple[FlowMap, ...]


def measure_features(
    image: Image.Image,
    network: Network | nn.Module | str = "hnet_mnist",
    layer: int = 2,
    order: int | None = None,
    most: int = 16,
    size: int = 192,
    name: str = "the image",
) -> FeatureMaps:
    """The feature maps of an image in one layer of a network.

    Args:
        image: of a digit for hnet_mnist, of anything for others.
        network: one with harmonic convolutions, or its name.
        layer: counted from 1; its maps are taken after its nonlinearity.
        order: only the stream of this rotation order; by default all of them.
        most: how many fields; the strongest of each order.
        size: pixels along the longer side of an image that is not a digit.
        name: what an error calls the image.
    """
    one = find_network(network)
    x = model_input(one.module, image, size, name)
    layers = harmonic_layers(one.module, x)
    if not 1 <= layer <= len(layers):
        raise InputError(f"{one.name} has layers 1 to {len(layers)}, got {layer}")
    maps = layers[layer - 1]
    if order is not None and order not in maps.streams.orders:
        orders = " and ".join(map(str, maps.streams.orders))
        raise InputError(
            f"expected an order that {maps.name} of {one.name} has ({orders}), got {order}"
        )
    wanted = maps.streams.orders if order is None else (order,)
    by_order = [_strongest(maps, each) for each in wanted]
    floor = _DEAD * max(fields[0].energy for fields in by_order)
    awake = [[field for field in fields if field.energy > floor] for fields in by_order]
    if not any(awake):  # an image of nothing
        awake = [by_order[0][:1]]
    share = max(1, most // len(wanted))
    every, alive = sum(map(len, by_order)), sum(map(len, awake))
    fields = tuple(field for fields in awake for field in fields[:share])
    pixels = x[0].permute(1, 2, 0).numpy()
    pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    return FeatureMaps(one.title, maps.name, pixels, fields, alive - len(fields), every - alive)


def measure_flow(
    image: Image.Image,
    network: Network | nn.Module | str = "hdsn",
    size: int = 320,
    name: str = "the image",
) -> Flow:
    """The orientation maps of an image in layers 2, 4, 6, 8 and 10 of an H-DSN.

    A field of order 1 is multiplied by exp(iθ) when the image is rotated by θ, so its phase is a
    direction, up to an offset of each field (in the paper's figure of single fields, colours
    therefore differ between layers). Here the offsets are measured once, on a drawn edge from dark
    to bright, and subtracted; all fields of a layer are then added up, and a phase is the
    direction from dark to bright in all layers.

    Args:
        image: in colour, or made so.
        network: one with fields of order 1 and three input channels, or its name.
        size: pixels along the longer side that the network sees.
        name: what an error calls the image.
    """
    one = find_network(network)
    x = model_input(one.module, image, size, name)
    if x.shape[1] != 3:
        raise InputError(f"expected a network of colour images such as hdsn, got {one.name}")
    layers = harmonic_layers(one.module, x)
    # Dark on the left, bright on the right: its direction is 0.
    row = 0.2 + 0.6 * torch.sigmoid(2 * (torch.arange(_EDGE) - (_EDGE - 1) / 2))
    edges = harmonic_layers(one.module, row.expand(1, 3, _EDGE, _EDGE).clone())
    maps = []
    for number in _FLOW_LAYERS:
        if number <= len(layers):
            fields = _order_one(layers[number - 1], one.name)
            offsets = _on_the_edge(_order_one(edges[number - 1], one.name))
            z = (offsets.conj()[:, None, None] * fields).sum(0)
            maps.append(FlowMap(number, z.numpy()))
    return Flow(one.title, x[0].permute(1, 2, 0).numpy(), tuple(maps))


def _strongest(maps: Maps, order: int) -> list[Field]:
    fields: list[Field] = []
    for stream, where in zip(maps.streams, maps.streams.slices, strict=True):
        if stream.order == order:
            part = maps.values[0, where].numpy()
            values = part if stream.real else part[: len(part) // 2] + 1j * part[len(part) // 2 :]
            fields += [Field(order, len(fields) + n, each) for n, each in enumerate(values, 1)]
    return sorted(fields, key=lambda field: -field.energy)


def _order_one(maps: Maps, name: str) -> Tensor:
    """The complex fields of order 1, ``(fields, height, width)``."""
    if 1 not in maps.streams.orders:
        raise InputError(f"expected fields of order 1 in {maps.name} of {name}, got {maps.streams}")
    where = maps.streams.slices[[stream.order for stream in maps.streams].index(1)]
    return torch.complex(*maps.values[0, where].chunk(2))


def _on_the_edge(fields: Tensor) -> Tensor:
    """The mean over the pixels of the drawn edge, away from the border of the image."""
    height, width = fields.shape[1:]
    far = max(1, height // 8)
    rows = slice(height // 2 - far, height // 2 + far)
    return fields[:, rows, width // 2 - 1 : width // 2 + 1].mean((1, 2))
