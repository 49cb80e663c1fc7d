"""The quick start: boundaries in a photograph at once, then two networks that learn digits.

They learn from upright digits and are asked about turned ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hnets import data
from hnets import plot as inspect
from hnets._cost import cost
from hnets.data import Dataset
from hnets.data.spline import rotate, to_bytes
from hnets.errors import MissingExtra
from hnets.predict import EdgeDetector
from hnets.train import (
    Recipe,
    Result,
    Run,
    joined,
    train,
    watching,
)
from hnets.train.recipe import Data, Model, Optimiser, Training
from hnets.train.result import versions, write_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["ANGLES", "Answers", "ask", "quickstart", "recipes", "turned"]

ANGLES = tuple(range(0, 360, 15))
"""Degrees at which the networks are asked."""
SHOWN = {digit: 45 * (digit - 1) for digit in range(1, 10)}
"""Digits of the figure and their angles. There is no 0: it looks much the same at all of them."""
EPOCH, ASKING = 4.5, 18.0
"""Seconds for an epoch of both networks, and for their answers, on two CPU cores."""


def recipes(epochs: int, seed: int) -> dict[str, Recipe]:
    """How the two networks are trained, by the names that they have in the table.

    Both see the same upright digits in the same order. The H-Net has Gaussian rings: exact ones,
    the default, lean on the pixel grid where no turned picture forbids it.
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


@dataclass(frozen=True)
class Answers:
    """A trained network, and what it takes the test digits for at every angle."""

    name: str
    said: NDArray[np.int64]
    """``(angles, digits)``."""
    truth: NDArray[np.int64]
    """``(digits,)``."""
    parameters: int
    multiplications: int
    seconds: float
    """Spent on its training."""

    @property
    def accuracies(self) -> list[float]:
        """How many per cent of the digits are read correctly at each angle."""
        shares: list[float] = (100 * (self.said == self.truth).mean(1)).tolist()
        return shares

    @property
    def upright(self) -> float:
        """The accuracy at the first angle, 0."""
        return self.accuracies[0]

    @property
    def turned(self) -> float:
        """The mean accuracy over all angles."""
        return float(np.mean(self.accuracies))

    def mixed_up(self, one: int, other: int) -> float:
        """How many per cent of the mistakes take one of two digits for the other."""
        pair = np.isin(self.said, (one, other)) & np.isin(self.truth, (one, other))
        wrong = self.said != self.truth
        return 100 * float((pair & wrong).sum()) / max(1, int(wrong.sum()))


def quickstart(out: Path, epochs: int, seed: int, console: Console) -> Path:
    """Train both networks, print what they can do, and draw it; returns the path of the figure."""
    with inspect.style():  # before any work: is there something to draw with, and to learn from?
        pass
    test = data.load("digits", "test")
    edges = _edges(out)
    _say(console, "The H-DSN that ships with hnets finds the boundaries in a photograph, and in")
    _say(console, "the phases of its feature maps which way they run.")
    _wrote(console, edges)
    runs = {
        name: Run(recipe, seed, name=recipe.model.name)
        for name, recipe in recipes(epochs, seed).items()
    }
    with joined() as team:
        _say(
            console,
            "An H-Net (hnet_mnist) and a plain CNN (z2cnn) learn to read 1,000 handwritten digits, "
            f"all upright. This takes {_time(epochs, team.device)}.",
        )
        with watching(list(runs.values()), console) as watch:
            results = train(list(runs.values()), team, watch=watch)
        _say(console, f"Now {len(test)} digits that they have not seen, turned all round:")
        with console.status("asking both networks"):
            answers = ask(dict(zip(runs, results, strict=True)), test)
        used = versions(team.device)
    console.print(_table(answers))
    figure = inspect.accuracy_figure(
        "Two networks that learned from upright digits, asked about turned ones",
        ANGLES,
        {each.name: each.accuracies for each in answers},
        _pictures(answers, test),
        guessing=100 / len(test.classes),
    )
    facts = {"epochs": epochs, "seed": seed, "versions": used, "angles": ANGLES}
    write_json({**facts, "networks": [_facts(each) for each in answers]}, out / "quickstart.json")
    path = inspect.save(figure, out / "quickstart.png", compact=True)
    _say(console, _seen(*answers))
    _wrote(console, path)
    _say(console, "Try next: hnets edges photo.jpg, hnets digits photo.png, hnets demo")
    return path


def _edges(out: Path) -> Path:
    """Draw the boundaries in a picture that comes with scikit-image, and their orientations."""
    try:
        from skimage.data import coffee
    except ImportError:
        raise MissingExtra("a photograph to start with", "scikit-image", "plot") from None
    photograph = coffee()
    figure = inspect.edges_figure(photograph, *EdgeDetector().oriented(photograph))
    return inspect.save(figure, out / "edges.png", compact=True)


def turned(test: Dataset, degrees: float) -> Tensor:
    """Pictures ``(n, 1, h, w)``, turned counter-clockwise by the spline that makes `digits-r`."""
    pixels = to_bytes(rotate(test.images[:, 0].numpy(), degrees))
    return torch.from_numpy(np.divide(pixels[:, None], 255, dtype=np.float32))


@torch.no_grad()
def ask(networks: Mapping[str, Result], test: Dataset) -> list[Answers]:
    """Show every test digit to every network, at every angle."""
    said: dict[str, list[Tensor]] = {name: [] for name in networks}
    for degrees in ANGLES:
        images = turned(test, degrees)
        for name, one in networks.items():
            there = images.to(next(one.model.parameters()).device)
            said[name].append(one.model(there).argmax(1).cpu())
    answers = []
    for name, one in networks.items():
        price = cost(one.model, tuple(test.images.shape[1:]))
        answers.append(
            Answers(
                name,
                torch.stack(said[name]).numpy(),
                test.labels.numpy(),
                price.parameters,
                price.multiplications,
                one.seconds,
            )
        )
    return answers


def _pictures(answers: Sequence[Answers], test: Dataset) -> list[inspect.AnsweredPicture]:
    """The first test digit of each kind, none chosen, each at its own angle."""
    pictures = []
    for digit, degrees in SHOWN.items():
        number = int((test.labels == digit).nonzero()[0])
        row = ANGLES.index(degrees % 360)
        pictures.append(
            inspect.AnsweredPicture(
                turned(test.subset([number]), degrees)[0, 0].numpy(),
                degrees,
                str(digit),
                tuple(str(each.said[row, number]) for each in answers),
            )
        )
    return pictures


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False)


def _wrote(console: Console, path: Path) -> None:
    console.print(f"wrote {path}", markup=False, highlight=False, soft_wrap=True)


def _time(epochs: int, device: torch.device) -> str:
    if device.type == "cuda":
        return "less than a minute on a GPU"
    seconds = epochs * EPOCH + ASKING
    about = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{round(seconds, -1):.0f} seconds"
    return f"about {about} on two CPU cores"


def _table(answers: Sequence[Answers]) -> Table:
    from rich.table import Table

    table = Table()
    table.add_column("network")
    for title in ("upright", "turned by\nany angle", "parameters", "multiplications"):
        table.add_column(title, justify="right")
    for each in answers:
        shares = (f"{share:.1f} %" for share in (each.upright, each.turned))
        table.add_row(each.name, *shares, f"{each.parameters:,}", f"{each.multiplications:,}")
    return table


def _facts(each: Answers) -> dict[str, Any]:
    return {
        "name": each.name,
        "parameters": each.parameters,
        "multiplications": each.multiplications,
        "training_seconds": round(each.seconds, 1),
        "upright": round(each.upright, 2),
        "turned": round(each.turned, 2),
        "accuracies": [round(share, 2) for share in each.accuracies],
    }


def _seen(hnet: Answers, plain: Answers) -> str:
    """The result in words that hold whatever it is."""
    return (
        f"Neither has learned from a turned digit. When digits turn, the {hnet.name} goes from "
        f"{hnet.upright:.1f} to {hnet.turned:.1f} %, the {plain.name} from {plain.upright:.1f} to "
        f"{plain.turned:.1f} %. A 6 and a 9 are each other's half turn: of the {hnet.name}'s "
        f"mistakes, {hnet.mixed_up(6, 9):.0f} % mix them up."
    )
