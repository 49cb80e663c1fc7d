"""The quick start's study: two networks learn from upright digits and read rotated ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from hnets._cost import cost
from hnets.data import Dataset
from hnets.data.spline import rotate, to_bytes
from hnets.studies.numbers import Numbers
from hnets.train import Recipe, Result, Run, Team, train, watching
from hnets.train.recipe import Data, Model, Optimiser, Training

ANGLES = tuple(range(0, 360, 15))
"""Degrees by which the test digits are rotated."""
SHOWN = {digit: 45 * (digit - 1) for digit in range(1, 10)}
"""Digits of the figure and their angles. There is no 0: it looks much the same at all of them."""


@dataclass(frozen=True)
class DigitReader:
    """A trained network, and its predictions for the test digits at every angle."""

    name: str
    predictions: NDArray[np.int64]
    """``(angles, digits)``."""
    labels: NDArray[np.int64]
    """``(digits,)``."""
    parameters: int
    multiplications: int
    seconds: float
    """Spent on its training."""

    @property
    def accuracies(self) -> list[float]:
        """How many per cent of the digits are read correctly at each angle."""
        shares: list[float] = (100 * (self.predictions == self.labels).mean(1)).tolist()
        return shares

    @property
    def upright(self) -> float:
        """The accuracy at the first angle, 0."""
        return self.accuracies[0]

    @property
    def rotated(self) -> float:
        """The mean accuracy over all angles."""
        return float(np.mean(self.accuracies))

    def mixed_up(self, one: int, other: int) -> float:
        """How many per cent of the mistakes take one of two digits for the other."""
        pair = np.isin(self.predictions, (one, other)) & np.isin(self.labels, (one, other))
        wrong = self.predictions != self.labels
        return 100 * float((pair & wrong).sum()) / max(1, int(wrong.sum()))

    def facts(self) -> dict[str, Any]:
        """What is written down about it, as JSON takes it."""
        return {
            "name": self.name,
            "parameters": self.parameters,
            "multiplications": self.multiplications,
            "training_seconds": round(self.seconds, 1),
            "upright": round(self.upright, 2),
            "rotated": round(self.rotated, 2),
            "accuracies": [round(share, 2) for share in self.accuracies],
        }


@dataclass(frozen=True)
class ReadDigit:
    """A rotated digit, and the prediction of each network."""

    image: NDArray[np.floating]
    """``(h, w)``, from 0 to 1."""
    degrees: float
    """By how much it was rotated, counter-clockwise."""
    label: str
    predictions: tuple[str, ...]


def quickstart_recipes(epochs: int, seed: int) -> dict[str, Recipe]:
    """How the two networks are trained, by the names that they have in the table.

    Both see the same upright digits in the same order. The H-Net has Gaussian rings: exact ones,
    the default, depend on the pixel grid where no rotated image forbids it.
    """
    networks = {
        "H-Net": (Model("hnet_mnist", {"rings": "gaussian"}), 0.02),
        "plain CNN": (Model("z2cnn"), 0.005),
    }
    return {
        name: Recipe(
            f"{name} on upright digits",
            model,
            Data("digits"),
            optimiser=Optimiser(rate, weight_decay=0.1),
            training=Training(epochs, seed=seed),
        )
        for name, (model, rate) in networks.items()
    }


def train_readers(epochs: int, seed: int, team: Team, console: Console) -> dict[str, Result]:
    """Both networks, trained, by their names."""
    recipes = quickstart_recipes(epochs, seed)
    runs = [Run(recipe, seed, name=recipe.model.name) for recipe in recipes.values()]
    with watching(runs, console) as watch:
        return dict(zip(recipes, train(runs, team, watch=watch), strict=True))


def rotated_digits(test: Dataset, degrees: float) -> Tensor:
    """Images ``(n, 1, h, w)``, rotated counter-clockwise by the spline that makes `digits-r`."""
    pixels = to_bytes(rotate(test.images[:, 0].numpy(), degrees))
    return torch.from_numpy(np.divide(pixels[:, None], 255, dtype=np.float32))


@torch.no_grad()
def read_rotated(networks: Mapping[str, Result], test: Dataset) -> list[DigitReader]:
    """The predictions of every network for every test digit, at every angle."""
    predictions: dict[str, list[Tensor]] = {name: [] for name in networks}
    for degrees in ANGLES:
        images = rotated_digits(test, degrees)
        for name, one in networks.items():
            device = next(one.model.parameters()).device
            predictions[name].append(one.model(images.to(device)).argmax(1).cpu())
    readers = []
    for name, one in networks.items():
        price = cost(one.model, tuple(test.images.shape[1:]))
        readers.append(
            DigitReader(name, torch.stack(predictions[name]).numpy(), test.labels.numpy(),
                        price.parameters, price.multiplications, one.seconds)
        )  # fmt: skip
    return readers


def shown_digits(readers: Sequence[DigitReader], test: Dataset) -> list[ReadDigit]:
    """The first test digit of each kind, none chosen, each at its own angle."""
    digits = []
    for digit, degrees in SHOWN.items():
        number = int((test.labels == digit).nonzero()[0])
        row = ANGLES.index(degrees % 360)
        image = rotated_digits(test.subset([number]), degrees)[0, 0].numpy()
        predictions = tuple(str(each.predictions[row, number]) for each in readers)
        digits.append(ReadDigit(image, degrees, str(digit), predictions))
    return digits


def accuracy_numbers(readers: Sequence[DigitReader]) -> Numbers:
    """What the networks can do and what they cost."""
    rows = []
    for each in readers:
        shares = (f"{share:.1f} %" for share in (each.upright, each.rotated))
        rows.append((each.name, *shares, f"{each.parameters:,}", f"{each.multiplications:,}"))
    header = ("network", "upright", "rotated by\nany angle", "parameters", "multiplications")
    return Numbers("", header, rows)
