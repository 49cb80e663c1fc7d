"""A network that `hnets train` trained on a folder of images, and the images that it takes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from hnets.data import LARGEST_SIZE, fit, read_image
from hnets.data.image_file import LARGEST
from hnets.devices import usable
from hnets.errors import InputError
from hnets.export import freeze
from hnets.models import load
from hnets.models._weights import unwrapped
from hnets.predict.image_input import ImageLike, rgb

_AT_ONCE = 1 << 20
"""Pixels that go through a network together."""


class TrainedNetwork:
    """A frozen network, and what its weights record of the images that it learned from.

    Args:
        weights: a file or the folder of a run, as `hnets.load` takes it; or a network, of which a
            copy is frozen.
        device: where it runs.
        subject: what it has to have learned: ``"classes"`` or ``"masks"``.
    """

    def __init__(
        self, weights: nn.Module | str | os.PathLike[str], device: torch.device | str, subject: str
    ) -> None:
        network = weights if isinstance(weights, nn.Module) else load(weights)
        learned, self.facts = learned_by(network, weights)
        if learned != subject:
            raise InputError(
                f"expected a network that learned {subject}, got {_name(weights)}, which learned "
                f"{learned}"
            )
        self.size, self.channels = self.facts["size"], self.facts["channels"]
        self.device = usable(device)
        self.model = freeze(network).to(self.device)

    def prepare(self, image: ImageLike, name: str = "the image") -> NDArray[np.uint8]:
        """An image as the network takes it, ``(channels, size, size)``; errors call it ``name``."""
        if isinstance(image, str | os.PathLike):  # decoded as for the training
            image = read_image(image, smallest=1, largest=2 * LARGEST, needed=2 * self.size)
        pixels = rgb(image, name)
        if pixels.dtype != np.uint8:
            pixels = (255 * pixels).round().astype(np.uint8)
        return fit(Image.fromarray(np.ascontiguousarray(pixels)), self.size, self.channels)

    def __call__(self, prepared: Sequence[NDArray[np.uint8]]) -> Tensor:
        """The outputs of the network, in float32 on the CPU, for images from `prepare`."""
        x = torch.from_numpy(np.stack(prepared))
        with torch.inference_mode():
            parts = x.split(max(1, _AT_ONCE // self.size**2))
            outputs = [self.model(part.to(self.device).float() / 255) for part in parts]
            return torch.cat(outputs).float().cpu()


def learned_by(network: nn.Module, weights: object) -> tuple[str, Mapping[str, Any]]:
    """``"classes"`` or ``"masks"``, and what the weights record of the training.

    A network that learned from no folder of images is an `InputError`, which names ``weights``.
    """
    network, config = unwrapped(network)
    facts = config.trained
    if not facts:
        raise InputError(
            f"expected a network that hnets train trained on a folder of images, got "
            f"{_name(weights)}, whose weights do not say what images it takes; for digits use "
            "hnets digits, for edges hnets edges, and for other networks hnets.load in Python"
        )
    learned = "classes" if "classes" in facts else "masks"
    if not _is_whole(facts, network):
        raise InputError(
            f"{_name(weights)} says what images it takes in a way that hnets train does not write; "
            "train it again"
        )
    return learned, facts


def _is_whole(facts: Mapping[str, Any], network: nn.Module) -> bool:
    """Whether all facts are there and fit the network: a file may come from anywhere."""
    sized = type(facts.get("size")) is int and 0 < facts["size"] <= LARGEST_SIZE
    channels, outputs = (getattr(network, name, None) for name in ("in_chans", "num_classes"))
    if not sized or facts.get("channels") not in (1, 3) or facts["channels"] != channels:
        return False
    if "classes" not in facts:
        return isinstance(facts.get("threshold"), float) and outputs == 1
    names = facts["classes"]
    return isinstance(names, list) and len(names) == outputs and all(type(n) is str for n in names)


def _name(weights: object) -> str:
    return f"a {type(weights).__name__}" if isinstance(weights, nn.Module) else str(weights)
