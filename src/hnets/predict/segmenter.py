"""Which pixels of an image show what a network learned from masks."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from hnets.data.listing import frame
from hnets.errors import InputError, suggest
from hnets.predict.image_input import Floats, ImageLike, rgb
from hnets.predict.rendering import edges_image, overlay_image
from hnets.predict.trained_network import TrainedNetwork

DRAWN = ("mask", "probability", "overlay")
"""Kinds of images of a segmentation."""


class Segmenter:
    """Finds the pixels of images, of any size, that show what a network learned from masks.

    ```python
    segmenter = hnets.Segmenter("runs/pictures-segment")
    probability = segmenter("new.jpg")                      # (height, width), from 0 to 1
    segmenter.draw("new.jpg", "overlay").save("found.png")  # a Pillow image
    ```

    The network looks at an image at the size that it learned from, and its output is resized to
    the size of the image.

    Args:
        weights: what `hnets train` wrote for a folder of images with masks, as `hnets.load` takes
            it: a file, or the folder of a run; or such a network, of which a copy is frozen.
        device: where it runs.
    """

    def __init__(
        self, weights: nn.Module | str | os.PathLike[str], device: torch.device | str = "cpu"
    ) -> None:
        self.network = TrainedNetwork(weights, device, "masks")
        self.threshold = float(self.network.facts["threshold"])
        """The probability from which on a pixel is marked: the best for the validation images."""

    def __call__(self, image: ImageLike) -> Floats:
        """The probability of each pixel, ``(height, width)``."""
        pixels = rgb(image)
        height, width = pixels.shape[:2]
        output = self.network([self.network.prepare(pixels)])[0, 0].sigmoid().numpy()
        left, top, wide, high = frame((width, height), self.network.size)
        inside = np.ascontiguousarray(output[top : top + high, left : left + wide])
        resized = Image.fromarray(inside).resize((width, height), Image.Resampling.BILINEAR)
        probability: Floats = np.asarray(resized, np.float32)
        return probability

    def draw(self, image: ImageLike, kind: str = "mask") -> Image.Image:
        """A Pillow image of the segmentation, of the size of the image.

        Args:
            image: a path, a Pillow image or an array.
            kind: ``"mask"``, white from the threshold on; ``"probability"``, black to white; or
                ``"overlay"``, the mask in red on the image.
        """
        pixels = rgb(image)
        return self.render(pixels, self(pixels), kind)

    def render(self, pixels: NDArray[Any], probability: Floats, kind: str) -> Image.Image:
        """The same, of an image as an array and of its probabilities."""
        if kind not in DRAWN:
            raise InputError(f"there is no kind {kind!r} of image{suggest(str(kind), DRAWN)}")
        if kind == "probability":
            return edges_image(probability)
        marked = (probability >= self.threshold).astype(np.float32)
        if kind == "mask":
            return edges_image(marked)
        return overlay_image(pixels, 0.5 * marked)  # what is below shows through
