"""Which digit is in an image, and whether the prediction holds when the image is rotated."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import nn

from hnets.devices import usable
from hnets.errors import InputError
from hnets.export import freeze
from hnets.models import load
from hnets.predict.image_input import Floats, ImageLike
from hnets.predict.ink import SIDE, find_ink

DEFAULT = "hnet_fourier_tiny"
ANGLES = tuple(float(angle) for angle in range(0, 360, 10))
"""Every ten degrees."""


@dataclass(frozen=True, eq=False)
class DigitPrediction:
    """A network's prediction for one image."""

    probabilities: Floats
    """``(10,)``, one for each digit."""
    seen: Floats
    """``(28, 28)``, the input of the network."""

    @property
    def digit(self) -> int:
        """The most probable digit."""
        return int(self.probabilities.argmax())

    @property
    def confidence(self) -> float:
        """Its probability."""
        return float(self.probabilities.max())

    def __repr__(self) -> str:
        return f"DigitPrediction({self.digit}, {self.confidence:.1%})"


@dataclass(frozen=True, eq=False)
class RotatedPredictions:
    """The predictions for an image that is rotated."""

    original: DigitPrediction
    """For the image as it is."""
    angles: tuple[float, ...]
    """In degrees, counter-clockwise."""
    probabilities: Floats
    """``(angles, 10)``."""

    @property
    def digits(self) -> NDArray[np.int64]:
        """The most probable digit at each angle."""
        return self.probabilities.argmax(1)

    @property
    def same(self) -> NDArray[np.bool_]:
        """At which angles the digit is that of the image as it is."""
        return self.digits == self.original.digit

    @property
    def share(self) -> float:
        """The share of the angles at which it is the same."""
        return float(self.same.mean())

    @property
    def confidences(self) -> Floats:
        """At each angle, the probability of the digit of the image as it is."""
        return self.probabilities[:, self.original.digit]

    @property
    def lowest(self) -> float:
        """The lowest of the confidences."""
        return float(self.confidences.min())

    def __repr__(self) -> str:
        angles = f"the same at {self.share:.0%} of {len(self.angles)} angles"
        return f"RotatedPredictions({self.original!r}, {angles})"


class DigitClassifier:
    """Predicts which digit is in an image.

    A network whose prediction is invariant to rotation cannot know which way up an image was meant:
    a 6 and a 9 are rotations of each other by 180°, and differ only by how people write them.

    Args:
        weights: a network for digits by the name of its weights, a file or a run's folder, as
            `hnets.load` takes them; or any network from ``(batch, 1, 28, 28)`` to ten logits, of
            which a copy is frozen.
        device: where it runs.
    """

    def __init__(
        self,
        weights: nn.Module | str | os.PathLike[str] = DEFAULT,
        device: torch.device | str = "cpu",
    ) -> None:
        network = weights if isinstance(weights, nn.Module) else load(weights)
        if network is not weights and (network.in_chans != 1 or network.num_classes != 10):
            message = f"expected a network that reads digits, such as {DEFAULT}, got {weights}"
            raise InputError(message)
        self.device = usable(device)
        self.model = freeze(network).to(self.device)

    def __call__(self, image: ImageLike) -> DigitPrediction:
        """The digit in an image."""
        return self.classify([image])[0]

    def classify(self, images: Iterable[ImageLike]) -> list[DigitPrediction]:
        """The digit in each image, of any size; `hnets.predict.as_digit` locates it."""
        if isinstance(images, str | os.PathLike | Image.Image | np.ndarray):
            raise InputError("classify takes a list of images; for one, call the classifier itself")
        seen = [find_ink(image, f"image {i}").digit() for i, image in enumerate(images)]
        return [DigitPrediction(*each) for each in zip(self.probabilities(seen), seen, strict=True)]

    def rotated(
        self, image: ImageLike, angles: Sequence[float] = ANGLES, name: str = "the image"
    ) -> RotatedPredictions:
        """The predictions for an image rotated by angles in degrees, counter-clockwise.

        It is rotated at eight times the resolution of the network's input, so that rotation does
        not blur it. ``name`` is what an error calls it.
        """
        if not angles:
            raise ValueError("angles is a sequence of at least one angle, got none")
        ink = find_ink(image, name)
        seen = [ink.digit(angle) for angle in (0.0, *angles)]
        original, *rotated = self.probabilities(seen)
        return RotatedPredictions(
            DigitPrediction(original, seen[0]), tuple(angles), np.stack(rotated)
        )

    def probabilities(self, digits: ArrayLike | Sequence[Floats]) -> Floats:
        """``(n, 10)`` of digits that are prepared already: ``(n, 28, 28)``, light on black."""
        x = torch.from_numpy(np.asarray(digits, dtype=np.float32).reshape(-1, 1, SIDE, SIDE))
        with torch.inference_mode():
            parts = [self.model(part.to(self.device)).softmax(1) for part in x.split(256)]
        probabilities: Floats = torch.cat(parts).cpu().numpy()
        return probabilities
