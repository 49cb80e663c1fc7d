"""Images of the retina as DRIVE and CHASE_DB1 have them on disk."""

from pathlib import Path

import numpy as np
from PIL import Image

from hnets.data import retina


def put_drive(folder: Path, vessel: slice = slice(100, 104)) -> None:
    """All files of DRIVE: a disc of light with a vessel, darker in green, across it."""
    for part, first in (("training", 21), ("test", 1)):
        for number in range(first, first + retina.COUNTS["drive"]):
            image, vessels, view = _disc(*retina.SIZES["drive"], vessel)
            image[0, 0] = number  # which image this is
            base = folder / "retina/DRIVE" / part
            _save(image, base / "images" / f"{number:02}_{part}.tif")
            _save(vessels, base / "1st_manual" / f"{number:02}_manual1.gif")
            _save(view, base / "mask" / f"{number:02}_{part}_mask.gif")


def put_chase_db1(folder: Path, vessel: slice = slice(200, 208)) -> None:
    """All files of CHASE_DB1, of its size."""
    image, vessels, _ = _disc(960, 999, vessel)
    for number in range(1, 1 + retina.COUNTS["chase_db1"]):
        base = folder / "retina/CHASE_DB1/test"
        _save(image, base / "images" / f"Image_{number:02}L.jpg")
        _save(vessels, base / "mask" / f"Image_{number:02}L_1stHO.png")


def _disc(height: int, width: int, vessel: slice) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    down, across = np.mgrid[:height, :width]
    radius = min(height, width) * 0.45
    inside = np.hypot(down - height / 2, across - width / 2) < radius
    vessels = np.zeros((height, width), np.uint8)
    vessels[vessel] = 255
    image = inside[..., None] * np.array([180, 100, 60], np.uint8)
    image[vessels > 0, 1] //= 2
    return image.astype(np.uint8), vessels, inside.astype(np.uint8) * 255


def _save(pixels: np.ndarray, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
