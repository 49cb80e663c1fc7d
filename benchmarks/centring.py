"""How much of a network's error on rotated MNIST rests on where the digits are centred.

    HNETS_DATA=… python benchmarks/centring.py

MNIST puts the centre of mass of a digit at pixel (14, 14), but images of 28×28 pixels rotate about
(13.5, 13.5): a rotated digit is half a pixel off the centre, in a direction that rotates with it
and says which way is up. Digits that no part of `rotmnist-r` holds are moved before they rotate.
"""

import argparse

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage

import hnets
from hnets.data import mnist, rotmnist, spline

PLACES = (None, (0.5, 0.5), (0.0, 0.0), (0.5, -0.5), (-0.5, 0.5), (-0.5, -0.5))
"""Where the centre of mass goes, in pixels down and right of the middle; None leaves it."""


def moved(
    digits: NDArray[np.float64], place: tuple[float, float] | None
) -> NDArray[np.float64]:  # fmt: skip
    """Digits with their centre of mass at a place."""
    if place is None:
        return digits
    middle = (digits.shape[-1] - 1) / 2
    shifted = []
    for digit in digits:
        mass = np.array(ndimage.center_of_mass(digit))
        shifted.append(ndimage.shift(digit, middle + np.array(place) - mass, order=3))
    return np.clip(shifted, 0, 1)


def main() -> None:
    """Print the error and how much of it is 6 taken for 9 or 9 for 6, place by place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=1000)
    parser.add_argument("--model", default="hnet_mnist")
    options = parser.parse_args()
    count = options.digits
    images, classes = mnist.arrays()
    others = np.setdiff1d(np.arange(len(classes)), rotmnist.draw()[0])[:count]
    digits, labels = images[others] / 255, torch.from_numpy(classes[others]).long()
    angles = np.random.default_rng(0).uniform(0, 360, count)
    net = hnets.freeze(hnets.create_model(options.model, pretrained=True).eval())
    print(f"{'centre of mass':>18}  error, %  6 and 9 mixed up")
    for place in PLACES:
        rotated = np.clip(spline.rotate(moved(digits, place), angles), 0, 1)
        x = torch.from_numpy(rotated).float()[:, None]
        with torch.inference_mode():
            predictions = torch.cat([net(part).argmax(1) for part in x.split(250)])
        wrong = predictions != labels
        mixed = wrong & torch.isin(predictions, torch.tensor([6, 9]))
        mixed &= torch.isin(labels, torch.tensor([6, 9]))
        error = 100 * float(wrong.float().mean())
        name = "as in MNIST" if place is None else f"{place[0]:+.1f}, {place[1]:+.1f}"
        print(f"{name:>18}  {error:8.2f}  {int(mixed.sum()):16d}")


if __name__ == "__main__":
    main()
