"""An equivariant U-Net: rotate the image, and the segmentation rotates with it.

    python examples/segment.py [--out segment.png]

The data are made here: bright ellipses on a noisy ground, all lying level, so that only an
equivariant network can know what to do with upright ones. The H-U-Net is built from the layers of
`hnets.nn` alone.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hnets import nn as hnn
from hnets.functional import rotate_pixels

SIZE = 48


class HUNet(nn.Module):
    """Two levels down and up again, with the maps of each level handed across."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        self.fine, self.coarse = f"{width}x0 + {width}x1", f"{2 * width}x0 + {2 * width}x1"
        self.down = _block("1x0r", self.fine)
        self.middle = nn.Sequential(
            hnn.HAvgPool2d(2), _block(self.fine, self.coarse), hnn.HUpsample2d(2)
        )
        # Streams of the same order stand side by side once the maps are stacked.
        self.up = _block(f"{self.fine} + {self.coarse}", self.fine)
        self.head = nn.Sequential(hnn.Magnitude(self.fine), nn.Conv2d(2 * width, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Logits ``(batch, 1, height, width)`` of images of even height and width."""
        fine = self.down(x)
        maps = self.up(torch.cat([fine, self.middle(fine)], dim=1))
        logits: Tensor = self.head(maps)
        return logits


def _block(before: str, after: str) -> nn.Module:
    return nn.Sequential(
        hnn.HConv2d(before, after, 5, padding="same", rings="gaussian"),
        hnn.ModReLU(after),
        hnn.HConv2d(after, after, 5, padding="same", rings="gaussian"),
        hnn.HBatchNorm2d(after),
    )


def ellipses(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Images and masks ``(count, 1, SIZE, SIZE)``: two level ellipses in each, and noise."""
    generator = torch.Generator().manual_seed(seed)
    at = torch.arange(SIZE) - (SIZE - 1) / 2
    masks = torch.zeros(count, 1, SIZE, SIZE)
    for _ in range(2):
        x, y = 18 * torch.rand(2, count, 1, 1, 1, generator=generator) - 9
        long, short = 9 + 3 * torch.rand(count, 1, 1, 1, generator=generator), 4
        inside = ((at - x) / long) ** 2 + ((at[:, None] - y) / short) ** 2 < 1
        masks = torch.maximum(masks, inside.float())
    noise = torch.randn(masks.shape, generator=generator)
    return 0.6 * masks + 0.35 * noise, masks


def overlap(logits: Tensor, masks: Tensor) -> float:
    """Intersection over union."""
    predicted, expected = logits > 0, masks > 0.5
    return float((predicted & expected).sum() / (predicted | expected).sum())


def main() -> None:
    """Train on level ellipses, and segment rotated ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--out", type=Path, help="image to draw; needs matplotlib")
    args = parser.parse_args()
    torch.manual_seed(0)
    images, masks = ellipses(200, seed=1)
    net = HUNet()
    optimiser = torch.optim.AdamW(net.parameters(), lr=0.02)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, args.steps)
    for step in range(1, args.steps + 1):
        rows = torch.randint(len(images), (8,))
        loss = F.binary_cross_entropy_with_logits(net(images[rows]), masks[rows])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        if step % 20 == 0:
            print(f"step {step:3}/{args.steps}  loss {float(loss.detach()):.4f}")
    net.eval()
    images, masks = ellipses(20, seed=2)
    shown = []
    with torch.inference_mode():
        for angle in (0, 30, 60, 90):
            rotated, expected = (rotate_pixels(x, math.radians(angle)) for x in (images, masks))
            logits = net(rotated)
            print(f"rotated by {angle:2} degrees: overlap {overlap(logits, expected):.3f}")
            shown.append((angle, rotated[0, 0], logits[0, 0].sigmoid()))
    if args.out:
        draw(shown, args.out)


def draw(shown: list[tuple[int, Tensor, Tensor]], out: Path) -> None:
    """Images above, segmentations below."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(shown), figsize=(2.2 * len(shown), 4.6))
    for column, (angle, image, output) in enumerate(shown):
        axes[0, column].imshow(image.numpy(), cmap="gray")
        axes[0, column].set_title(f"{angle}°")
        axes[1, column].imshow(output.numpy(), cmap="gray", vmin=0, vmax=1)
    for axis in axes.flat:
        axis.axis("off")
    figure.tight_layout()
    figure.savefig(out)
    print(f"wrote {out}")


if __name__ == "__main__":
    main()
