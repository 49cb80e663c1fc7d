"""How fast recipes train: an epoch of the H-Net against one of a plain CNN, and seeds at once.

    python benchmarks/training.py                 # CPU: ratio of epochs, interleaved
    python benchmarks/training.py --device cuda   # and the paper's schedule, one seed and five

The plain CNN has as many multiplications as the H-Net; both go through the same loop.
"""

import argparse
import statistics
import time

import torch
from peers import plain_cnn

from hnets.models import hnet_mnist
from hnets.train import (
    Recipe,
    Run,
    Team,
    train,
)
from hnets.train.step import Learner
from hnets.train.task import Classification

EPOCHS = 200
"""The paper's, of 12,000 images each."""


def recipe(epochs: int = 1, batch: int = 46) -> Recipe:
    """The H-Net on the training and validation images, by the paper's batch size."""
    return Recipe.from_dict(
        {
            "title": "speed",
            "model": {"name": "hnet_mnist"},
            "data": {"name": "rotmnist-r", "train": "train+val", "val": ""},
            "training": {"epochs": epochs, "batch": batch},
        }
    )


def epochs(count: int, rounds: int, device: torch.device) -> None:
    """Epochs of both networks in turn, on random images."""
    team = Team(0, 1, device)
    images, labels = torch.rand(count, 1, 28, 28), torch.arange(count) % 10
    task = Classification(images.to(device), labels.to(device))
    learners = {
        name: Learner(net, task, recipe(), 1, team)
        for name, net in (("plain", plain_cnn()), ("hnet", hnet_mnist()))
    }
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for one in learners.values():
        if device.type == "cuda":
            one.capture()
    for number in range(rounds + 1):
        for name, one in learners.items():
            began = time.perf_counter()
            one.begin_epoch(number, [1.0] * one.steps)
            for _ in range(one.steps):
                one.step()
            one.end_epoch()
            if number:  # the first round warms up
                seconds[name].append(time.perf_counter() - began)
    ratios = [h / p for h, p in zip(seconds["hnet"], seconds["plain"], strict=True)]
    print(f"an epoch of the H-Net takes {statistics.median(ratios):.2f} of the plain CNN's")


def schedule(count: int, sample: int) -> None:
    """Seconds of the paper's schedule, from some epochs of the real data after the first."""
    team = Team(0, 1, torch.device("cuda"))
    runs = [Run(recipe(sample + 1), seed) for seed in range(1, count + 1)]
    history = train(runs, team)[0].history
    epoch = (history[-1]["seconds"] - history[0]["seconds"]) / sample
    print(f"{count} seed(s): {epoch:.3f} s an epoch, {EPOCHS} epochs {epoch * EPOCHS:.0f} s")


def main() -> None:
    """Print the comparison, and on a GPU the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--images", type=int, default=920, help="in an epoch of the comparison")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sample", type=int, default=10, help="epochs that are timed (cuda)")
    options = parser.parse_args()
    epochs(options.images, options.rounds, torch.device(options.device))
    if options.device == "cuda":
        for count in (1, 5):
            schedule(count, options.sample)


if __name__ == "__main__":
    main()
