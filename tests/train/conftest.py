"""A few small images and a recipe that trains on them in no time."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hnets.train import Recipe


@pytest.fixture(scope="session")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of noisy squares and bars: 46 to train on, 10 to validate and 10 to test."""
    folder, random = tmp_path_factory.mktemp("data") / "shapes", np.random.default_rng(0)
    for split, count in (("train", 23), ("val", 5), ("test", 5)):
        for kind, height in (("bar", 4), ("square", 12)):
            (folder / split / kind).mkdir(parents=True)
            for number in range(count):
                pixels = random.integers(100, size=(28, 28), dtype=np.uint8)
                pixels[8 : 8 + height, 8:20] += 150
                Image.fromarray(pixels).save(folder / split / kind / f"{number}.png")
    return folder


@pytest.fixture
def tiny(shapes: Path) -> Callable[..., Recipe]:
    """Makes recipes for these images; ``training__epochs=1`` changes ``training.epochs``."""
    recipe = Recipe.from_dict(
        {
            "title": "a few shapes",
            "model": {"name": "z2cnn"},
            "data": {"name": str(shapes)},
            "optimiser": {"rate": 0.002},
            "training": {"epochs": 3, "batch": 23, "save_every": 0},
        }
    )
    return lambda **changes: recipe.replace({k.replace("__", "."): v for k, v in changes.items()})
