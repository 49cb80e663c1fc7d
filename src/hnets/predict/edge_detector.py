"""Where the edges in an image are, and which way they run."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from numbers import Real
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from hnets.devices import Replayed, cpu_has_bfloat16, usable
from hnets.errors import InputError, suggest
from hnets.export import freeze
from hnets.metrics.suppression import ridge_normals, suppress
from hnets.models import EdgeNetwork, list_models, load
from hnets.predict import EDGE_MODEL, EDGE_MODELS, SCALES
from hnets.predict.image_input import Floats, ImageLike, Images, rgb
from hnets.predict.orientation import REACH, OrientationReader
from hnets.predict.rendering import edges_image, orientation_image, overlay_image
from hnets.predict.tiles import Cut, View, at_once, predict_tiled, split

_FRINGE = 8
"""Pixels around a tile that suppression depends on: a map fades within 5 pixels of its border,
neighbours are read up to 3 pixels away, and directions are those of 13 pixels, smoothing
included."""

_FAINTEST = 0.5 / 255
"""Strength below which a line is black in an image of 8 bits."""

DRAWN = ("edges", "thin", "orientation", "overlay")
"""Kinds of images of edges."""

Output = TypeVar("Output")
Batch: TypeAlias = list[NDArray[Any]]
"""Images of one size and type, as `rgb` gives them."""


class OrientedEdges(NamedTuple):
    """Edges and their orientations."""

    strength: Floats
    """``(height, width)``, how sure the network is of an edge, 0 to 1."""
    angle: Floats
    """``(height, width)``, the direction that an edge runs in, in radians from 0 up to π,
    counter-clockwise from the x axis: 0 is horizontal, π/4 rises to the right, π/2 is vertical."""


class EdgeDetector:
    """Finds the edges in images of any size.

    An image is the path of a file, a Pillow image, or an array or tensor ``(height, width)``,
    ``(height, width, 3)`` or, with alpha, ``(height, width, 4)``, of uint8, uint16, or floating
    point from 0 to 1. An array of four dimensions is a batch and gives a batch; a list of images,
    of any sizes, gives a list. On a GPU neighbours of equal size go through the network together,
    as many as memory is meant for.

    ```python
    detector = hnets.EdgeDetector()
    strength = detector(image)                    # (height, width), from 0 to 1
    strength, angle = detector.oriented(image)    # and which way the edges run
    lines = detector.suppressed(image)            # the strength where it is highest across them
    detector.draw("photo.jpg").save("edges.png")  # a Pillow image
    ```

    With several ``scales`` the image is resized to several sizes, such as ``(0.5, 1, 1.5)``, and
    the outputs are averaged. Large images are processed in overlapping tiles, which bounds the
    memory that is needed and changes nothing else.

    Args:
        weights: as `edge_network` takes them; a copy of a network is frozen.
        device: where it runs.
        fast: whether it computes in bfloat16, on a GPU or a CPU with instructions for it. Strengths
            differ by up to about 0.05, and rotations by 90 degrees are no longer exact.
    """

    def __init__(
        self,
        weights: nn.Module | str | os.PathLike[str] = EDGE_MODEL,
        device: torch.device | str = "cpu",
        fast: bool = False,
    ) -> None:
        network, place = edge_network(weights), usable(device)
        self.model = model = cast(EdgeNetwork, freeze(network)).to(place)
        self._half = fast and (place.type != "cpu" or cpu_has_bfloat16())
        self._network = Replayed(lambda x, cut: self._strength(x, cut)[0])
        margins = model.receptive_radius(), model.decoder_radius() + REACH
        self._view = View(*margins, model.halvings, place)

    @overload
    def __call__(self, image: Images, scales: Sequence[float] = ...) -> list[Floats]: ...
    @overload
    def __call__(self, image: ImageLike, scales: Sequence[float] = ...) -> Floats: ...
    def __call__(
        self, image: ImageLike | Images, scales: Sequence[float] = (1.0,)
    ) -> Floats | list[Floats]:
        """How sure the network is of an edge, ``(height, width)`` from 0 to 1."""

        def strengths(batch: Batch) -> list[Floats]:
            return list(self._predict(self._network, lambda maps: maps, batch, scales)[0])

        return self._each(image, scales, strengths, np.stack)

    @overload
    def oriented(self, image: Images, scales: Sequence[float] = ...) -> list[OrientedEdges]: ...
    @overload
    def oriented(self, image: ImageLike, scales: Sequence[float] = ...) -> OrientedEdges: ...
    def oriented(
        self, image: ImageLike | Images, scales: Sequence[float] = (1.0,)
    ) -> OrientedEdges | list[OrientedEdges]:
        """The same, and which way edges run; `hnets.predict.orientation` says how that is read.

        Rotate an image by an angle, and that angle is added to all of them.
        """

        def stack(edges: list[OrientedEdges]) -> OrientedEdges:
            return OrientedEdges(*(np.stack(maps) for maps in zip(*edges, strict=True)))

        return self._each(image, scales, lambda batch: self._oriented(batch, scales), stack)

    @overload
    def suppressed(
        self, image: Images, scales: Sequence[float] = ..., variant: str = ...
    ) -> list[Floats]: ...
    @overload
    def suppressed(
        self, image: ImageLike, scales: Sequence[float] = ..., variant: str = ...
    ) -> Floats: ...
    def suppressed(
        self,
        image: ImageLike | Images,
        scales: Sequence[float] = (1.0,),
        variant: str = "standard",
    ) -> Floats | list[Floats]:
        """Edges as lines: `suppress_edges` of the strengths."""

        def lines(batch: Batch) -> list[Floats]:
            strengths = self._predict(self._network, lambda maps: maps, batch, scales)[0]
            return [suppress_edges(strength, variant=variant) for strength in strengths]

        return self._each(image, scales, lines, np.stack)

    def draw(
        self, image: ImageLike, kind: str = "edges", scales: Sequence[float] = (1.0,)
    ) -> Image.Image:
        """A Pillow image of the edges, of the size of the image.

        Args:
            image: as above.
            kind: ``"edges"``, white on black; ``"thin"``, as lines one pixel wide;
                ``"orientation"``, coloured by their direction; or ``"overlay"``, on the image.
            scales: as above.
        """
        if kind not in DRAWN:
            raise InputError(f"there is no kind {kind!r} of edges{suggest(str(kind), DRAWN)}")
        pixels = rgb(image)
        if kind == "orientation":
            strength, angle = self.oriented(pixels, scales)
        else:  # networks without orientations have these too
            strength = angle = self(pixels, scales)
        return draw_edges(kind, pixels, strength, angle)

    @cached_property
    def _oriented_network(self) -> Replayed:
        """Strengths, and the two parts of what orientations are read from."""
        orientation = OrientationReader(self.model)

        def network(x: Tensor, cut: Cut) -> Tensor:
            strength, features = self._strength(x, cut)
            wide = [maps.float() for maps in features]
            return torch.cat([strength, orientation(wide, *strength.shape[2:])], dim=1)

        return Replayed(network)

    def _strength(self, x: Tensor, cut: Cut) -> tuple[Tensor, list[Tensor]]:
        """How sure the network is in what a cut leaves of an image, and what says so."""
        height, width = x.shape[2] - sum(cut[2:]), x.shape[3] - sum(cut[:2])
        # Without its cache of rounded weights: a recording would go on reading them.
        with torch.autocast(x.device.type, torch.bfloat16, self._half, cache_enabled=False):
            features = self.model.forward_features(x, cut)
            logits = self.model.forward_head(features, height, width)
        return self.model.probability(logits[:, -1:].float()), features

    def _oriented(self, batch: Batch, scales: Sequence[float]) -> list[OrientedEdges]:
        strengths, angles = self._predict(self._oriented_network, _angles, batch, scales)
        return [OrientedEdges(*edges) for edges in zip(strengths, angles, strict=True)]

    def _predict(
        self,
        network: Callable[[Tensor, Cut], Tensor],
        finish: Callable[[Tensor], Tensor],
        batch: Batch,
        scales: Sequence[float],
    ) -> Floats:
        images = np.stack(batch) if len(batch) > 1 else batch[0][None]
        with torch.inference_mode():
            return predict_tiled(network, finish, images, scales, self._view)

    def at_once(self, shape: tuple[int, ...], scales: Sequence[float] = (1.0,)) -> int:
        """How many images of a shape, ``(height, width, ...)``, go through the network together."""
        return at_once(shape[0], shape[1], scales, self._view.device)

    def _each(
        self,
        images: ImageLike | Images,
        scales: Sequence[float],
        outputs: Callable[[Batch], list[Output]],
        stack: Callable[[list[Output]], Output],
    ) -> Output | list[Output]:
        """The output for an image, for a batch, or for each of a list, equal neighbours at once."""
        _check_scales(scales)
        stacked = isinstance(images, np.ndarray | Tensor) and images.ndim == 4 and len(images) > 0
        if not (stacked or isinstance(images, list | tuple)):
            return outputs([rgb(images)])[0]
        results, batch = list[Output](), list[NDArray[Any]]()
        for number, image in enumerate(cast(Images, images)):
            pixels = rgb(image, f"image {number}")
            alike = batch and (pixels.shape, pixels.dtype) == (batch[0].shape, batch[0].dtype)
            if batch and not (alike and len(batch) < self.at_once(pixels.shape, scales)):
                results += outputs(batch)
                batch = []
            batch.append(pixels)
        results += outputs(batch) if batch else []
        return stack(results) if stacked else results


def _check_scales(scales: object) -> None:
    low, high = SCALES
    values: tuple[object, ...] = tuple(scales) if isinstance(scales, Iterable) else ()
    if not values or not all(isinstance(x, Real) and low <= float(x) <= high for x in values):
        raise InputError(
            f"scales are numbers from {low:g} to {high:g}, at least one, as in (0.5, 1, 1.5), got "
            f"{scales!r}"
        )


def edge_network(weights: nn.Module | str | os.PathLike[str]) -> EdgeNetwork:
    """A network that finds edges, with its weights.

    Args:
        weights: ``"tiny"``, ``"small"`` or ``"base"``; ``"hdsn"``, the paper's; other weights by
            their name, a file or a run's folder, as `hnets.load` takes them; or a network.
    """
    if isinstance(weights, str | os.PathLike):
        name = EDGE_MODELS.get(str(weights), weights)
        if str(name).isidentifier() and not os.path.exists(name) and name not in list_models():
            wanted = suggest(str(weights), [*EDGE_MODELS, "hdsn"])
            raise InputError(f"no edge detector is called {weights!r}{wanted}")
        weights = load(name)
    if not isinstance(weights, EdgeNetwork):
        raise InputError(
            "expected a network that finds edges, such as small or hdsn, got a "
            f"{type(weights).__name__}"
        )
    return weights


def suppress_edges(
    strength: NDArray[np.floating],
    angle: NDArray[np.floating] | None = None,
    variant: str = "standard",
) -> Floats:
    """Edges as lines one pixel wide: their strength where it is highest across them, 0 elsewhere.

    Non-maximum suppression as in `hnets.metrics.suppression`, but across the ridges of the map,
    whichever way they run; and the skeleton of what is left, without the corners of staircases and
    the patches of equal strength.

    Args:
        strength: ``(height, width)``.
        angle: ``(height, width)``, directions of the edges to go across, as `EdgeDetector` gives
            them; by default those of the ridges, which keep more of what people drew.
        variant: a name in `hnets.metrics.suppression.VARIANTS`.
    """
    from hnets.metrics.skeleton import skeletonise  # its tables are made at import

    height, width = strength.shape
    lines = np.array(strength, dtype=np.float32)
    if min(height, width) < 2:  # nothing lies across
        return lines
    for rows, columns in split(height, width, _FRINGE):
        top, left = max(0, rows.start - _FRINGE), max(0, columns.start - _FRINGE)
        window = np.s_[top : rows.stop + _FRINGE, left : columns.stop + _FRINGE]
        normal: NDArray[np.floating] = (
            ridge_normals(strength[window].astype(np.float64))
            if angle is None
            else -(angle[window] + np.pi / 2)  # the convention of suppression: y down
        )
        tile = suppress(strength[window], variant, normal)
        tile = tile[rows.start - top :, columns.start - left :][: len(rows), : len(columns)]
        lines[rows.start : rows.stop, columns.start : columns.stop] = tile
    if variant != "none":
        lines *= skeletonise(lines > _FAINTEST)
    return lines


def draw_edges(kind: str, image: NDArray[Any], strength: Floats, angle: Floats) -> Image.Image:
    """One of `DRAWN`, of an image ``(height, width, 3)`` as `rgb` gives it and its edges."""
    if kind == "overlay":
        return overlay_image(image, strength)
    if kind == "orientation":
        return orientation_image(strength, angle)
    return edges_image(suppress_edges(strength) if kind == "thin" else strength)


def _angles(maps: Tensor) -> Tensor:
    """The strength and the angle of the line, from the strength and the two parts of z."""
    strength, re, im = maps
    across = torch.atan2(im, re) / 2
    return torch.stack([strength, torch.remainder(across + math.pi / 2, math.pi)])
