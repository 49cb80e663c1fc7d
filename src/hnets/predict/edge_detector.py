"""Where the boundaries in a picture are, and which way they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar, cast, overload

import numpy as np
import torch
from torch import Tensor, nn

from hnets.devices import usable
from hnets.errors import InputError
from hnets.export import freeze
from hnets.models import create_model
from hnets.models._hdsn import EdgeNetwork
from hnets.predict.contrast import Floats
from hnets.predict.image_input import colours
from hnets.predict.ink import Picture
from hnets.predict.orientation import Compass
from hnets.predict.thin import thin_across
from hnets.predict.tiles import View, answer, reach

__all__ = ["SCALES", "EdgeDetector", "Oriented"]

SCALES = (0.1, 4.0)
"""The smallest and the largest at which a picture can be shown."""

Answer = TypeVar("Answer")


class Oriented(NamedTuple):
    """Boundaries and their orientations."""

    strength: Floats
    """``(height, width)``, how sure the network is of a boundary, 0 to 1."""
    angle: Floats
    """``(height, width)``, the direction that a boundary runs in, in radians from 0 up to π,
    counter-clockwise from the x axis: 0 is horizontal, π/4 rises to the right, π/2 is vertical."""


class EdgeDetector:
    """Finds the boundaries in pictures of any size.

    A picture is a Pillow image, or an array ``(height, width)``, ``(height, width, 3)`` or, with
    alpha, ``(height, width, 4)``, of uint8, uint16, or floating point from 0 to 1. An array of four
    dimensions is a batch and gives a batch; a list of pictures, of any sizes, gives a list.

    ```python
    detector = hnets.EdgeDetector()
    strength = detector(image)                    # (height, width), from 0 to 1
    strength, angle = detector.oriented(image)    # and which way the boundaries run
    lines = detector.thinned(image)               # the strength where it is highest across them
    ```

    With several ``scales`` the picture is shown in several sizes, such as ``(0.5, 1, 1.5)``, and
    the answers are averaged. Large pictures are shown in overlapping parts, which bounds the memory
    that is needed and changes nothing else.

    Args:
        model: an `hnets.models.hdsn` of your own training, or a network to compare it with, such as
            `hnets.models.hed`; by default the pretrained H-DSN. A copy is frozen by `hnets.freeze`.
        device: where it runs.
    """

    def __init__(self, model: nn.Module | None = None, device: torch.device | str = "cpu") -> None:
        net = create_model("hdsn", pretrained=True) if model is None else model
        if not isinstance(net, EdgeNetwork):
            raise InputError(
                f"EdgeDetector expects an H-DSN or an HED of hnets.models, got a "
                f"{type(net).__name__}"
            )
        place = usable(device)
        self.model = cast(EdgeNetwork, freeze(net)).to(place)
        step = 2 ** (len(self.model.stages) - 1)
        self._view = View(reach(self.model), step, place)

    @overload
    def __call__(self, image: Sequence[Picture], scales: Sequence[float] = ...) -> list[Floats]: ...
    @overload
    def __call__(self, image: Picture, scales: Sequence[float] = ...) -> Floats: ...
    def __call__(
        self, image: Picture | Sequence[Picture], scales: Sequence[float] = (1.0,)
    ) -> Floats | list[Floats]:
        """How sure the network is of a boundary, ``(height, width)`` from 0 to 1."""
        return _each(image, lambda one, name: self._strength(one, name, scales), np.stack)

    @overload
    def oriented(
        self, image: Sequence[Picture], scales: Sequence[float] = ...
    ) -> list[Oriented]: ...
    @overload
    def oriented(self, image: Picture, scales: Sequence[float] = ...) -> Oriented: ...
    def oriented(
        self, image: Picture | Sequence[Picture], scales: Sequence[float] = (1.0,)
    ) -> Oriented | list[Oriented]:
        """The same, and which way boundaries run; `hnets.predict.orientation` says how it is read.

        Turn a picture by an angle, and that angle is added to all of them.
        """
        return _each(image, lambda one, name: self._oriented(one, name, scales), _stacked)

    @overload
    def thinned(
        self, image: Sequence[Picture], scales: Sequence[float] = ..., variant: str = ...
    ) -> list[Floats]: ...
    @overload
    def thinned(
        self, image: Picture, scales: Sequence[float] = ..., variant: str = ...
    ) -> Floats: ...
    def thinned(
        self,
        image: Picture | Sequence[Picture],
        scales: Sequence[float] = (1.0,),
        variant: str = "standard",
    ) -> Floats | list[Floats]:
        """Boundaries as lines: `thin_across` with the orientations that the network reports."""

        def lines(one: Picture, name: str) -> Floats:
            return thin_across(*self._oriented(one, name, scales), variant)

        return _each(image, lines, np.stack)

    @cached_property
    def _compass(self) -> Compass:
        return Compass(self.model)

    def _strength(self, picture: Picture, name: str, scales: Sequence[float]) -> Floats:
        return self._answer(self.model, lambda maps: maps, picture, name, scales)[0]

    def _oriented(self, picture: Picture, name: str, scales: Sequence[float]) -> Oriented:
        compass = self._compass

        def network(x: Tensor) -> Tensor:
            maps = self.model.features(x)
            logits = self.model.answers(maps, x.shape[2], x.shape[3])
            return torch.cat([logits[:, -1:].sigmoid(), compass(maps[0])], dim=1)

        return Oriented(*self._answer(network, _angles, picture, name, scales))

    def _answer(
        self,
        network: Callable[[Tensor], Tensor],
        finish: Callable[[Floats], Floats],
        picture: Picture,
        name: str,
        scales: Sequence[float],
    ) -> Floats:
        _check(scales)
        image = colours(picture, name)
        with torch.inference_mode():
            return answer(network, finish, image, scales, self._view)


def _angles(maps: Floats) -> Floats:
    """The strength and the angle of the line, of the strength and the compass's two numbers."""
    strength, re, im = maps
    across = np.arctan2(im, re) / 2
    return np.stack([strength, np.mod(across + np.float32(np.pi / 2), np.float32(np.pi))])


def _each(
    images: Picture | Sequence[Picture],
    one: Callable[[Picture, str], Answer],
    stack: Callable[[list[Answer]], Answer],
) -> Answer | list[Answer]:
    """The answer to a picture, to a batch, or to each of a list."""
    if isinstance(images, Sequence):
        return [one(each, f"picture {number}") for number, each in enumerate(images)]
    if isinstance(images, np.ndarray) and images.ndim == 4 and len(images):
        return stack([one(each, f"picture {number}") for number, each in enumerate(images)])
    return one(images, "the picture")


def _stacked(found: list[Oriented]) -> Oriented:
    return Oriented(np.stack([each.strength for each in found]), np.stack([e.angle for e in found]))


def _check(scales: Sequence[float]) -> None:
    low, high = SCALES
    if not scales or not all(low <= scale <= high for scale in scales):
        raise InputError(
            f"scales are numbers from {low:g} to {high:g}, at least one, got {tuple(scales)}"
        )
