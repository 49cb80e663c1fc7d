"""How fast recipes train: an epoch of the H-Net against one of a plain CNN, and seeds at once.

    python benchmarks/training.py                 # CPU: ratio of epochs, interleaved
    python benchmarks/training.py --device cuda   # and the paper's schedule, one seed and five
    python benchmarks/training.py --stream pictures-small --set data.size=128 --device cuda
    python benchmarks/training.py --networks hresnet18 resnet18 --device cuda

The plain CNN has as many multiplications as the H-Net; both go through the same loop. ``--stream``
trains a recipe on JPEGs of 500×375 that are made for it, or on the folder of ``--set data.name=…``,
in memory, from the cache and decoding every image again, and prints the share of each step's time
that it waited for images, and how long it took to begin. ``--networks`` prints how many random
images of 96×96 per second networks train on, by `pictures-small` with batches of 128; on a CPU in
float32 and, where it multiplies that, in bfloat16.
"""

import argparse
import copy
import io
import itertools
import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import torch
from peers import plain_cnn
from PIL import Image

import hnets
from hnets.data import Streamed
from hnets.models import hnet_mnist
from hnets.train import Recipe, Run, Team, joined, prepare, read_recipe, train
from hnets.train.loop import _set_precision
from hnets.train.step import Learner
from hnets.train.task import Classification, precision_on

EPOCHS = 200
"""The paper's, of 12,000 images each."""
SIDE = 96


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


def make_images(folder: Path, count: int) -> None:
    """JPEGs of 500×375, about 70 kB each, in ten classes; every hundred are alike."""
    random, files = np.random.default_rng(0), list[bytes]()
    for _ in range(100):
        coarse = Image.fromarray(random.integers(256, size=(24, 32, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), float)
        pixels = np.clip(smooth + random.normal(0, 8, smooth.shape), 0, 255).astype(np.uint8)
        file = io.BytesIO()
        Image.fromarray(pixels).save(file, "jpeg", quality=90)
        files.append(file.getvalue())
    for number in range(count):
        place = folder / "train" / str(number % 10)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.jpg").write_bytes(files[number % 100])


def streaming(name: str, changes: list[str], count: int, epochs: int, device: str) -> None:
    """Images per second of a recipe and the share of its steps that waits for images."""
    changes = ["data.val=", "data.test=", f"training.epochs={epochs}", *changes]
    with tempfile.TemporaryDirectory() as folder, joined(device) as team:
        if not any(change.startswith("data.name") for change in changes):
            make_images(Path(folder, "images"), count)
            changes.append(f"data.name={folder}/images")
        os.environ["HNETS_CACHE"] = f"{folder}/cache"
        for kind in ("in memory", "from the cache", "decoded each time"):
            recipe = read_recipe(
                name, [*changes, f"data.stream={str(kind != 'in memory').lower()}"]
            )
            began, run, ends = time.perf_counter(), Run(recipe, 1), list[float]()
            prepare([run], team)
            ready = time.perf_counter() - began
            data = run.data[recipe.data.train]
            if kind == "decoded each time" and isinstance(data, Streamed):
                data.files.cache.read = lambda row: None
            rows = train([run], team, watch=partial(_mark, ends))[0].history
            spent = rows[-1]["seconds"] - rows[0]["seconds"]  # the first epoch warms up
            waited = sum(row.get("seconds_waiting", 0.0) for row in rows[1:]) / spent
            speed = len(data) * (epochs - 1) / spent
            print(
                f"{kind:17}  {speed:8,.0f} images/s  waited {100 * waited:5.1f} %  "
                f"(ready after {ready:.1f} s, first epoch after {ends[0] - began:.1f} s)"
            )


def _mark(ends: list[float], run: Run, row: object) -> None:
    ends.append(time.perf_counter())


def networks(names: list[str], device: torch.device) -> None:
    """Images per second, the best of three epochs: of a captured step, or in both precisions."""
    team, gpu = Team(0, 1, device), device.type == "cuda"
    count = 128 * (20 if gpu else 1)
    images, labels = torch.rand(count, 3, SIDE, SIDE, device=device), torch.arange(count) % 7
    for name in names:
        net = hnets.create_model(name, in_chans=3, num_classes=7)
        size = hnets.cost(net, (3, SIDE, SIDE))
        print(f"{name}: {size.parameters:,} parameters, {size.multiplications / 1e9:.2f} G")
        learners, rates = dict[str, Learner](), dict[str, list[float]]()
        for precision in ("bfloat16",) if gpu else ("float32", "bfloat16"):
            changes = ["training.batch=128", f"training.precision={precision}"]
            recipe = read_recipe("pictures-small", changes)
            _set_precision(recipe, team)
            task = Classification(images, labels.to(device), 7, 0.1, recipe.augment)
            learners[precision_on(device, recipe)] = Learner(
                copy.deepcopy(net), task, recipe, 1, team
            )
        for epoch, (precision, one) in itertools.product(range(3), learners.items()):
            if gpu and not epoch:
                one.capture()
            one.begin_epoch(epoch, [0.0] * one.steps)
            began = time.perf_counter()
            for _ in range(one.steps):
                one.step()
            one.end_epoch()  # reads the losses, and so waits for the card
            seconds = time.perf_counter() - began
            rates.setdefault(precision, []).append(one.steps * 128 / seconds)
        for precision, each in rates.items():
            print(f"  {precision}: {max(each):,.4g} images/s")


def main() -> None:
    """Print the comparison, and on a GPU the times; or how a recipe is streamed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--images", type=int, default=920, help="in an epoch of the comparison")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sample", type=int, default=10, help="epochs that are timed (cuda)")
    parser.add_argument("--stream", metavar="RECIPE", help="measure this recipe only")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="with it")
    parser.add_argument("--epochs", type=int, default=3, help="of each kind (stream)")
    parser.add_argument("--networks", nargs="+", metavar="NAME", help="measure these only")
    options = parser.parse_args()
    if options.networks:
        networks(options.networks, torch.device(options.device))
        return
    if options.stream:
        streaming(options.stream, options.set, options.images, options.epochs, options.device)
        return
    epochs(options.images, options.rounds, torch.device(options.device))
    if options.device == "cuda":
        for count in (1, 5):
            schedule(count, options.sample)


if __name__ == "__main__":
    main()
