"""Vessels of the retina, from one network and a few patches of DRIVE.

    python examples/segment_vessels.py [--out vessels.png]

A small `hunet` learns on a CPU, in about a minute, from patches of the 16 training images, and is
scored on whole validation images, upright and rotated. `hnets train drive-hunet` trains the full
one. DRIVE is looked for in the folder that HNETS_DATA names.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

import hnets
from hnets.data import load
from hnets.metrics.segmentation import segmentation_scores

PATCH = 64
OUTSIDE = 255
"""The label of pixels outside the field of view."""


def patches(images: Tensor, labels: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Random patches of random images, and their labels."""
    rows = torch.randint(len(images), (count,)).tolist()
    tops = torch.randint(60, 520 - PATCH, (count,)).tolist()
    lefts = torch.randint(60, 500 - PATCH, (count,)).tolist()
    places = [
        (row, slice(top, top + PATCH), slice(left, left + PATCH))
        for row, top, left in zip(rows, tops, lefts, strict=True)
    ]
    drawn = torch.stack([labels[row, down, across] for row, down, across in places])
    return torch.stack([images[row, :, down, across] for row, down, across in places]), drawn


def main() -> None:
    """Train on patches, and score whole images."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--images", type=int, default=2, help="validation images to score, 1 to 4")
    parser.add_argument("--out", type=Path, help="image to draw: the probability of a vessel")
    args = parser.parse_args()
    torch.manual_seed(0)
    train = load("drive", "train", channels=1)  # the green of the images
    net = hnets.create_model("hunet", in_chans=1, num_classes=1, width=3)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, args.steps)
    images = train.images.float() / 255
    for step in range(1, args.steps + 1):
        x, y = patches(images, train.labels, count=8)
        inside = y != OUTSIDE
        loss = F.binary_cross_entropy_with_logits(net(x)[:, 0][inside], y[inside].float())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 25 == 0:
            print(f"step {step:3}/{args.steps}  loss {float(loss.detach()):.4f}")
    net.eval()
    val = load("drive", "val", channels=1).subset(args.images)
    inside = val.labels != OUTSIDE
    with torch.inference_mode():
        x = val.images.float() / 255
        upright = torch.cat([net(image) for image in x.split(1)])[:, 0].sigmoid()
        rotated = torch.cat([net(image) for image in x.rot90(1, (2, 3)).split(1)])[:, 0].sigmoid()
    for name, output in (("upright", upright), ("rotated", rotated.rot90(-1, (1, 2)))):
        scores = segmentation_scores(output[inside], val.labels[inside] == 1)
        print(f"{name}: AUC {scores.auc:.4f}, F1 {scores.f1:.4f} at {scores.threshold:.2f}")
    if args.out:
        from PIL import Image

        Image.fromarray((255 * upright[0]).byte().numpy()).save(args.out)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
