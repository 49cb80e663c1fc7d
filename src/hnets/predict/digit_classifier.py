"""Which digit is in a picture, and whether the answer holds when the picture is turned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from hnets.devices import usable
from hnets.errors import InputError
from hnets.export import freeze
from hnets.models import create_model
from hnets.predict.contrast import Floats
from hnets.predict.ink import SIDE, Picture, find_ink

__all__ = ["ROUND", "DigitClassifier", "DigitPrediction", "Turning"]

DEFAULT = "hnet_fourier_tiny"
ROUND = tuple(float(angle) for angle in range(0, 360, 10))
"""Every ten degrees."""


@dataclass(frozen=True, eq=False)
class DigitPrediction:
    """A network's answer to one picture."""

    probabilities: Floats
    """``(10,)``, one for each digit."""
    seen: Floats
    """``(28, 28)``, what the network was given."""

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
class Turning:
    """The answers to a picture that is turned."""

    given: DigitPrediction
    """The answer to the picture as it is."""
    angles: tuple[float, ...]
    """In degrees, counter-clockwise."""
    probabilities: Floats
    """``(angles, 10)``."""

    @property
    def digits(self) -> NDArray[np.int64]:
        """The answer at each angle."""
        return self.probabilities.argmax(1)

    @property
    def same(self) -> NDArray[np.bool_]:
        """At which angles the answer is that to the picture as it is."""
        return self.digits == self.given.digit

    @property
    def share(self) -> float:
        """The part of the angles at which it is the same."""
        return float(self.same.mean())

    @property
    def confidences(self) -> Floats:
        """At each angle, the probability of the answer to the picture as it is."""
        return self.probabilities[:, self.given.digit]

    @property
    def lowest(self) -> float:
        """The lowest of the confidences."""
        return float(self.confidences.min())

    def __repr__(self) -> str:
        return f"Turning({self.given!r}, {self.share:.0%} of {len(self.angles)} angles alike)"


class DigitClassifier:
    """Says which digit is in a picture.

    A network that gives a turned picture the same answer cannot know which way up it was meant: a 6
    and a 9 are one another's half turns, and are told apart only by how people write them.

    Args:
        model: any network from ``(batch, 1, 28, 28)`` to ten logits, such as one of your own
            training, or the name of a trained one. A copy is frozen by `hnets.freeze`.
        device: where it runs.
    """

    def __init__(
        self, model: nn.Module | str = DEFAULT, device: torch.device | str = "cpu"
    ) -> None:
        net = _named(model) if isinstance(model, str) else model
        self.device = usable(device)
        self.model = freeze(net).to(self.device)

    def classify(self, images: Iterable[Picture]) -> list[DigitPrediction]:
        """The digit in each picture, of any size; `hnets.predict.as_digit` finds it."""
        seen = [find_ink(image, f"picture {i}").digit() for i, image in enumerate(images)]
        return [DigitPrediction(*each) for each in zip(self.probabilities(seen), seen, strict=True)]

    def turning(
        self, image: Picture, angles: Sequence[float] = ROUND, name: str = "the picture"
    ) -> Turning:
        """The answers to a picture turned by angles in degrees, counter-clockwise.

        It is turned at eight times the resolution that the network sees, so that turning blurs
        nothing. ``name`` is what an error calls it.
        """
        if not angles:
            raise ValueError("angles is a sequence of at least one angle, got none")
        ink = find_ink(image, name)
        seen = [ink.digit(angle) for angle in (0.0, *angles)]
        given, *turned = self.probabilities(seen)
        return Turning(DigitPrediction(given, seen[0]), tuple(angles), np.stack(turned))

    def probabilities(self, digits: ArrayLike | Sequence[Floats]) -> Floats:
        """``(n, 10)`` of digits that are prepared already: ``(n, 28, 28)``, light on black."""
        x = torch.from_numpy(np.asarray(digits, dtype=np.float32).reshape(-1, 1, SIDE, SIDE))
        with torch.inference_mode():
            parts = [self.model(part.to(self.device)).softmax(1) for part in x.split(256)]
        probabilities: Floats = torch.cat(parts).cpu().numpy()
        return probabilities


def _named(name: str) -> nn.Module:
    try:
        net = create_model(name, pretrained=True)
    except ValueError as error:
        raise InputError(str(error)) from None
    if getattr(net, "in_channels", 0) != 1:
        raise InputError(f"expected a network that reads digits, such as {DEFAULT}, got {name}")
    return net
