"""Photographs as BSDS500 has them on disk."""

from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat


def put(folder: Path, name: str, people: int = 2) -> None:
    """A photograph of 48×32 pixels, and what people drew in it."""
    truth = np.empty((1, people), object)
    for k in range(people):
        boundaries = np.zeros((32, 48), np.uint8)
        boundaries[:, 20 + k] = 1
        truth[0, k] = {"Boundaries": boundaries}
    for kind in ("images", "groundTruth"):
        (folder / "BSDS500/data" / kind / "test").mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (48, 32), "teal").save(folder / f"BSDS500/data/images/test/{name}.jpg")
    savemat(folder / f"BSDS500/data/groundTruth/test/{name}.mat", {"groundTruth": truth})
