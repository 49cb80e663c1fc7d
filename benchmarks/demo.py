"""How often the two networks of `hnets demo` are wrong, upright and turned.

    HNETS_DATA=… python benchmarks/demo.py

Digits of the MNIST test set, from which the plain CNN has not learned, without those that the
training set of `rotmnist-r` holds, from which the Harmonic Network has.
"""

import numpy as np
import torch

import hnets
from hnets.data import mnist, rotmnist, spline


def main() -> None:
    """Print the errors."""
    images, labels = mnist.arrays()
    learned = rotmnist.draw()[0][: sum(rotmnist.SIZES[:2])]
    unseen = np.setdiff1d(np.arange(sum(mnist.SIZES[:2]), len(labels)), learned)
    upright, right = images[unseen] / 255, torch.from_numpy(labels[unseen]).long()
    angles = np.random.default_rng(0).uniform(0, 360, len(unseen))
    ways = {"upright": upright, "turned": np.clip(spline.rotate(upright, angles), 0, 1)}
    print(f"{len(unseen):,} digits, % wrong")
    for name in ("hnet_mnist", "z2cnn"):
        net = hnets.freeze(hnets.create_model(name, pretrained=True).eval())
        for way, digits in ways.items():
            x = torch.from_numpy(digits).float()[:, None]
            with torch.inference_mode():
                answers = torch.cat([net(part).argmax(1) for part in x.split(500)])
            print(f"{name:10}  {way:7}  {100 * float((answers != right).float().mean()):5.2f}")


if __name__ == "__main__":
    main()
