"""Photographs as BSDS500 has them on disk, and folders of images as people have them."""

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat

from drawings import blobs
from hnets.predict.storage import Place


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


def fill(place: Place, number: int) -> tuple[dict[str, bytes], set[str]]:
    """Images in folders, and the names of those among them that are broken."""
    contents, broken = dict[str, bytes](), set[str]()
    for index in range(number):
        file = io.BytesIO()
        Image.fromarray(np.roll(blobs(24, 32 + index % 3), index, axis=1)).save(file, "png")
        name, content = f"{index % 7}/{index:05}.png", file.getvalue()
        if index % 10 == 3:
            content = (b"", b"no image", content[: len(content) // 2])[index // 10 % 3]
            broken.add(name)
        contents[name] = content
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(place.write, contents.keys(), contents.values()))
    return contents, broken
