"""Test errors of the two networks of `hnets demo`, on upright and on rotated digits.

    HNETS_DATA=… python benchmarks/demo.py

On the digits of the MNIST test set, which the plain CNN was not trained on, without those in the
training set of `rotmnist-r`, which the Harmonic Network was trained on.
"""

import numpy as np
import torch

import hnets
from hnets.data import mnist, rotmnist, spline


def main() -> None:
    """Print the errors."""
    images, labels = mnist.arrays()
    trained = rotmnist.draw()[0][: sum(rotmnist.SIZES[:2])]
    unseen = np.setdiff1d(np.arange(sum(mnist.SIZES[:2]), len(labels)), trained)
    upright, targets = images[unseen] / 255, torch.from_numpy(labels[unseen]).long()
    angles = np.random.default_rng(0).uniform(0, 360, len(unseen))
    inputs = {"upright": upright, "rotated": np.clip(spline.rotate(upright, angles), 0, 1)}
    print(f"{len(unseen):,} digits, test error in %")
    for name in ("hnet_mnist", "z2cnn"):
        net = hnets.freeze(hnets.create_model(name, pretrained=True).eval())
        for angle, digits in inputs.items():
            x = torch.from_numpy(digits).float()[:, None]
            with torch.inference_mode():
                predictions = torch.cat([net(part).argmax(1) for part in x.split(500)])
            print(
                f"{name:10}  {angle:7}  {100 * float((predictions != targets).float().mean()):5.2f}"
            )


if __name__ == "__main__":
    main()
