"""How often `hnets digits` reads an image correctly, and the time beside the paper's network.

    HNETS_DATA=… python benchmarks/digits.py

Digits of MNIST that no part of `rotmnist-r` holds, drawn large and dark on light, at random angles,
are located, scaled, centred and reduced as the command does it, and then read by each network. The
time is that of reading alone, of as many images as the command makes of one: 36 are rotated.
"""

import argparse
from functools import partial

import numpy as np
from PIL import Image
from timing import interleaved

from hnets.data import mnist, rotmnist
from hnets.predict import DigitClassifier, as_digit

NETWORKS = (
    "hnet_mnist",
    "hnet_fourier_tiny",
    "hnet_fourier_base",
    "hnet_fourier_base.pointing",
)
ANGLES = 37


def main() -> None:
    """Print the error, how much of it is 6 taken for 9 or 9 for 6, and the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    images, labels = mnist.arrays()
    others = np.setdiff1d(np.arange(len(labels)), rotmnist.draw()[0])[: options.digits]
    angles = np.random.default_rng(0).uniform(0, 360, len(others))
    seen = [
        as_digit(Image.fromarray(255 - images[i]).resize((280, 280), Image.Resampling.BICUBIC), a)
        for i, a in zip(others, angles, strict=True)
    ]
    right, classifiers = labels[others], {name: DigitClassifier(name) for name in NETWORKS}
    print(f"{'':26}  error, %  6 and 9 mixed up")
    for name, classifier in classifiers.items():
        predictions = classifier.probabilities(seen).argmax(1)
        wrong = predictions != right
        mixed = wrong & np.isin(predictions, (6, 9)) & np.isin(right, (6, 9))
        print(f"{name:26}  {100 * wrong.mean():8.2f}  {mixed.sum():16d}")
    steps = {name: partial(each.probabilities, seen[:ANGLES]) for name, each in classifiers.items()}
    print(interleaved(steps, rounds=options.rounds, min_time=0.1).table(to=NETWORKS[0]))


if __name__ == "__main__":
    main()
