"""Features for a detector: shapes found in a larger image, at every angle, with few labels.

    python examples/detector_features.py [--out found.png]

A harmonic ResNet with ``features_only`` gives maps that rotate with the image, and the magnitudes
of whatever it sees do not change with its angle. A plain 1×1 convolution on them is a head that
knows no angle: trained with the backbone to mark the centres of triangles among bars and crosses,
all of them upright, it finds rotated ones too. Any head for dense maps goes in its place.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor, nn

import hnets
from hnets import nn as hnn

SIZE, CELL, REACH = 96, 8, 10
KINDS = ("triangle", "bar", "cross")


class Detector(nn.Module):
    """The logit of a triangle's centre in each cell of 8×8 pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = hnets.create_model(
            "hresnet10",
            features_only=True,
            out_indices=(3,),  # the maps that are 8 times smaller
            **{"in_chans": 1, "reduction": 16, "fields": (6, 8, 10, 12)},
        )
        assert self.backbone.feature_info.reduction() == [CELL]
        (streams,) = self.backbone.streams
        self.act = hnn.FourierAct(streams, norm=True)  # the maps come without
        self.magnitude = hnn.Magnitude(streams)
        self.head = nn.Conv2d(self.magnitude.out_streams.fields, 1, 1)
        nn.init.constant_(self.head.bias, -4.0)  # most cells are empty

    def forward(self, x: Tensor) -> Tensor:
        """``(batch, 1, height, width)`` to ``(batch, height/8, width/8)``."""
        (maps,) = self.backbone(x)
        logits: Tensor = self.head(self.magnitude(self.act(maps)))
        return logits[:, 0]


def scene(generator: torch.Generator, angle: float) -> tuple[Tensor, Tensor]:
    """An image with one shape of each kind, all rotated by an angle, and its labels by cell."""
    image = Image.new("L", (SIZE, SIZE))
    pen, labels = ImageDraw.Draw(image), torch.zeros(SIZE // CELL, SIZE // CELL)
    places = torch.randperm(4, generator=generator)[: len(KINDS)].tolist()  # a quarter each
    for kind, place in zip(KINDS, places, strict=True):
        x, y = (torch.rand(2, generator=generator) * 16 + 16).tolist()
        x, y = x + 48 * (place % 2), y + 48 * (place // 2)

        def polygon(*points: tuple[float, float], x: float = x, y: float = y) -> None:
            cos, sin = math.cos(angle), math.sin(angle)
            pen.polygon([(x + a * cos - b * sin, y + a * sin + b * cos) for a, b in points], 255)

        if kind == "triangle":
            polygon((0, -REACH), (-REACH, REACH * 0.8), (REACH, REACH * 0.8))
            labels[int(y) // CELL, int(x) // CELL] = 1
        else:
            polygon((-REACH, -2), (REACH, -2), (REACH, 2), (-REACH, 2))
        if kind == "cross":
            polygon((-2, -REACH), (2, -REACH), (2, REACH), (-2, REACH))
    values = torch.tensor(list(image.tobytes()), dtype=torch.float32).view(1, SIZE, SIZE) / 255
    return values, labels


def scenes(count: int, angle: float, seed: int) -> tuple[Tensor, Tensor]:
    """Many images, and their labels."""
    generator = torch.Generator().manual_seed(seed)
    images, labels = zip(*(scene(generator, angle) for _ in range(count)), strict=True)
    return torch.stack(images), torch.stack(labels)


@torch.inference_mode()
def right(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Percent of images whose strongest cell lies at the triangle, or beside it."""
    strongest = net(images).flatten(1).argmax(1)
    near = F.max_pool2d(labels[:, None], 3, 1, 1).flatten(1)
    return 100 * float(near[torch.arange(len(images)), strongest].mean())


def main() -> None:
    """Train on upright shapes, and detect rotated ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--images", type=int, default=32, help="to look at, for each angle")
    parser.add_argument(
        "--out", type=Path, help="image to draw: rotated shapes, and where it looks"
    )
    args = parser.parse_args()
    torch.manual_seed(0)
    images, labels = scenes(64, 0.0, seed=1)
    net = Detector()
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, args.steps)
    for step in range(1, args.steps + 1):
        rows = torch.randperm(len(images))[:8]
        loss = F.binary_cross_entropy_with_logits(
            net(images[rows]), labels[rows], pos_weight=torch.tensor(10.0)
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step:3}/{args.steps}  loss {float(loss.detach()):.4f}")
    net.eval()
    for angle in (0, 30, 45, 60, 90, 180):
        share = right(net, *scenes(args.images, math.radians(angle), seed=2))
        print(f"shapes rotated by {angle:3} degrees: {share:5.1f} % found")
    if args.out:
        x, _ = scenes(1, math.radians(30), seed=3)
        with torch.inference_mode():
            glow = F.interpolate(net(x).sigmoid()[None], SIZE, mode="bilinear")[0, 0]
        grey = 0.6 * x[0, 0]
        colours = torch.stack([torch.maximum(grey, glow), grey * (1 - glow), grey * (1 - glow)], 2)
        Image.fromarray((255 * colours).byte().numpy()).resize((384, 384)).save(args.out)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
