"""Which class an image is of, by a network that was trained on a folder of classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from hnets.errors import InputError
from hnets.predict.image_input import Floats, ImageLike
from hnets.predict.trained_network import TrainedNetwork


@dataclass(frozen=True, eq=False)
class ClassPrediction:
    """A network's prediction for one image."""

    classes: tuple[str, ...]
    probabilities: Floats
    """One for each class."""

    @property
    def name(self) -> str:
        """The most probable class."""
        return self.classes[int(self.probabilities.argmax())]

    @property
    def confidence(self) -> float:
        """Its probability."""
        return float(self.probabilities.max())

    def ranked(self, count: int | None = None) -> list[tuple[str, float]]:
        """Classes with their probabilities, the most probable first: all, or so many."""
        order = np.argsort(-self.probabilities, kind="stable")[:count]
        return [(self.classes[i], float(self.probabilities[i])) for i in order]

    def __repr__(self) -> str:
        return f"ClassPrediction({self.name!r}, {self.confidence:.1%})"


class ImageClassifier:
    """Predicts the class of images of any size.

    ```python
    classifier = hnets.ImageClassifier("runs/pictures-small")
    prediction = classifier("new.jpg")            # or a Pillow image, or an array
    prediction.name, prediction.confidence        # ('oak', 0.98)
    ```

    Args:
        weights: what `hnets train` wrote for a folder of images, as `hnets.load` takes it: a file,
            or the folder of a run; or such a network, of which a copy is frozen.
        device: where it runs.
    """

    def __init__(
        self, weights: nn.Module | str | os.PathLike[str], device: torch.device | str = "cpu"
    ) -> None:
        self.network = TrainedNetwork(weights, device, "classes")
        self.classes: tuple[str, ...] = tuple(self.network.facts["classes"])

    def __call__(self, image: ImageLike) -> ClassPrediction:
        """The class of an image."""
        return self.classify([image])[0]

    def classify(self, images: Iterable[ImageLike]) -> list[ClassPrediction]:
        """The class of each image."""
        if isinstance(images, str | os.PathLike | Image.Image | np.ndarray):
            raise InputError("classify takes a list of images; for one, call the classifier itself")
        prepare = self.network.prepare
        return self.predictions([prepare(each, f"image {i}") for i, each in enumerate(images)])

    def predictions(self, prepared: Sequence[NDArray[np.uint8]]) -> list[ClassPrediction]:
        """The class of each image that ``network.prepare`` has brought to size."""
        if not prepared:
            return []
        probabilities = self.network(prepared).softmax(1).numpy()
        return [ClassPrediction(self.classes, row) for row in probabilities]
