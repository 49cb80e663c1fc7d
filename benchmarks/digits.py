"""How often `hnets digits` reads a picture rightly, and the time beside the paper's network.

    HNETS_DATA=… python benchmarks/digits.py

Digits of MNIST that no part of `rotmnist-r` holds, drawn large and dark on light, at random angles,
go through all of the command: found, scaled, centred, reduced, classified.
"""

import argparse
import time

import numpy as np
from PIL import Image

from hnets.data import mnist, rotmnist
from hnets.predict import DigitClassifier, as_digit

NETWORKS = ("hnet_mnist", "hnet_fourier_tiny", "hnet_fourier_base")
AT_ONCE = 37
"""Pictures: as many as the command looks at for one, as it is and at 36 angles."""


def main() -> None:
    """Print the error, how much of it is 6 taken for 9 or 9 for 6, and the time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=1000)
    images, labels = mnist.arrays()
    others = np.setdiff1d(np.arange(len(labels)), rotmnist.draw()[0])[: parser.parse_args().digits]
    angles = np.random.default_rng(0).uniform(0, 360, len(others))
    seen = [
        as_digit(Image.fromarray(255 - images[i]).resize((280, 280), Image.Resampling.BICUBIC), a)
        for i, a in zip(others, angles, strict=True)
    ]
    right, seconds = labels[others], []
    print(f"{'':18}  error, %  6 and 9 mixed up  time")
    for name in NETWORKS:
        classifier = DigitClassifier(name)
        classifier.probabilities(seen[:AT_ONCE])  # warms up
        began = time.perf_counter()
        parts = [seen[i : i + AT_ONCE] for i in range(0, len(seen), AT_ONCE)]
        answers = np.concatenate([classifier.probabilities(part) for part in parts]).argmax(1)
        seconds.append(time.perf_counter() - began)
        wrong = answers != right
        mixed = wrong & np.isin(answers, (6, 9)) & np.isin(right, (6, 9))
        times = seconds[-1] / seconds[0]
        print(f"{name:18}  {100 * wrong.mean():8.2f}  {mixed.sum():16d}  {times:4.1f}")


if __name__ == "__main__":
    main()
