"""Images that several test files use, and a network that reads them by their quadrants."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor, nn

STROKES = {
    "7": [[(0.2, 0.1), (0.8, 0.1), (0.45, 0.9)]],
    "2": [[(0.25, 0.25), (0.45, 0.1), (0.7, 0.2), (0.65, 0.45), (0.25, 0.9), (0.8, 0.9)]],
    "5": [[(0.35, 0.12), (0.75, 0.12)], [(0.35, 0.22), (0.32, 0.5), (0.6, 0.45), (0.72, 0.65),
                                         (0.55, 0.88), (0.25, 0.85)]],
}  # fmt: skip


def drawn(
    digit: str = "7",
    size: tuple[int, int] = (320, 240),
    height: float = 160,
    at: tuple[float, float] = (0.5, 0.5),
    width: float = 0.11,
    paper: float = 0.9,
    ink: float = 0.1,
    light: float = 0.0,
    noise: float = 0.0,
) -> Image.Image:
    """A digit of straight strokes; ``light`` is what is lost of it at the far corner."""
    fine = 4 if max(size) < 1000 else 1
    mask = Image.new("L", (size[0] * fine, size[1] * fine))
    draw = ImageDraw.Draw(mask)
    thick = height * width * fine
    for stroke in STROKES[digit]:
        points = [
            (
                fine * (size[0] * at[0] + height * (x - 0.5)),
                fine * (size[1] * at[1] + height * (y - 0.5)),
            )
            for x, y in stroke
        ]
        draw.line(points, fill=255, width=max(1, round(thick)))
        for x, y in points:
            draw.ellipse(
                (x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=255
            )  # fmt: skip
    covered = np.asarray(mask.reduce(fine), dtype=np.float64) / 255
    down, across = (np.linspace(0, 1, n) for n in covered.shape)
    shade = 1 - light * (0.6 * across[None, :] + 0.4 * down[:, None])
    values = shade * (paper + (ink - paper) * covered)
    values += noise * np.random.default_rng(0).standard_normal(values.shape)
    return Image.fromarray((np.clip(values, 0, 1) * 255).round().astype(np.uint8))


class Corner(nn.Module):
    """Answers by where the ink is: the digit is the quadrant with most of it, from top left."""

    def forward(self, x: Tensor) -> Tensor:
        parts = nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)
        return nn.functional.pad(50 * parts, (0, 6), value=-10)


def blobs(height: int = 40, width: int = 52) -> NDArray[np.uint8]:
    """Coloured blobs of all sizes, ``(height, width, 3)``."""
    random = np.random.default_rng(height * width)
    coarse = random.integers(0, 255, (height // 6 + 2, width // 6 + 2, 3), dtype=np.uint8)
    return np.array(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


def apart(angle: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float64]:
    """How far two directions of lines are apart, in radians."""
    return np.abs(np.mod(angle.astype(np.float64) - other + np.pi / 2, np.pi) - np.pi / 2)
