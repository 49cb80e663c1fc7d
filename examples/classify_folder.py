"""A classifier of your own images whose outputs do not depend on which way up they are.

    python examples/classify_folder.py leaves/            # a sub-folder for each class
    python examples/classify_folder.py                    # or on shapes that it draws itself

It trains a small harmonic network on the images as they are, and then shows it the test images
rotated by all angles. For larger trainings, with checkpoints and logs, write a recipe instead:
docs/training.md.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.data import Dataset, load
from hnets.functional import rotate_pixels

SIZE = 32


def network(classes: int) -> nn.Module:
    """Three harmonic layers, and magnitudes, which a rotation of the image does not change."""
    narrow, wide = "8x0 + 8x1", "16x0 + 16x1"
    return nn.Sequential(
        hnn.HConv2d("1x0r", narrow, 5, padding="same", rings="gaussian"),
        hnn.HBatchNorm2d(narrow),
        hnn.HAvgPool2d(2),
        hnn.HConv2d(narrow, wide, 5, padding="same", rings="gaussian"),
        hnn.HBatchNorm2d(wide),
        hnn.HAvgPool2d(2),
        hnn.HConv2d(wide, wide, 5, padding="same", rings="gaussian"),
        hnn.HBatchNorm2d(wide),
        hnn.Magnitude(wide),
        hnn.GlobalMean(),
        nn.Linear(32, classes),
    )


def train(net: nn.Module, data: Dataset, epochs: int, batch: int = 32) -> None:
    """Adam with a rate that falls to zero along a cosine."""
    images, labels = data
    steps = epochs * math.ceil(len(data) / batch)
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.02, weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for epoch in range(1, epochs + 1):
        total = 0.0
        for rows in torch.randperm(len(data)).split(batch):
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
            total += float(loss.detach()) * len(rows)
        print(f"epoch {epoch:2}/{epochs}  loss {total / len(data):.4f}")


@torch.inference_mode()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor, angle: float) -> float:
    """Percent of images classified correctly when rotated by ``angle`` degrees."""
    rotated = rotate_pixels(images, math.radians(angle))
    return 100 * float((net(rotated).argmax(1) == labels).float().mean())


def draw_shapes(folder: Path, count: int = 120) -> Path:
    """Crosses, triangles and bars of random size and place: something to learn without files."""
    generator = torch.Generator().manual_seed(0)
    for name in ("bar", "cross", "triangle"):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            reach, x, y = (torch.rand(3, generator=generator) * 10 - 5).tolist()
            x, y, reach = 32 + x, 32 + y, 16 + reach / 2
            image = Image.new("L", (64, 64))
            pen = ImageDraw.Draw(image)
            if name == "triangle":
                pen.polygon([(x, y - reach), (x - reach, y + reach), (x + reach, y + reach)], 255)
            else:
                pen.rectangle([x - reach, y - 3, x + reach, y + 3], 255)
            if name == "cross":
                pen.rectangle([x - 3, y - reach, x + 3, y + reach], 255)
            image.save(folder / name / f"{number}.png")
    return folder


def main() -> None:
    """Train, and print the accuracy at every angle."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="with a sub-folder for each class")
    parser.add_argument("--epochs", type=int, default=15)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or draw_shapes(Path(scratch) / "shapes")
        learned, tested = (load(folder, split, size=SIZE) for split in ("train", "test"))
    print(f"{len(learned)} images of {', '.join(learned.classes)}")
    net = network(len(learned.classes))
    train(net, learned, args.epochs)
    net.eval()
    for angle in range(0, 360, 45):
        right = accuracy(net, *tested, angle)
        print(f"rotated by {angle:3} degrees: {right:5.1f} % of {len(tested)} right")


if __name__ == "__main__":
    main()
