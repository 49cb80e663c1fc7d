"""What commuting with reflections does to errors: on rotated MNIST, and on plankton.

    HNETS_DATA=… python benchmarks/mirror.py            # three seeds of each: some minutes on a GPU
    HNETS_DATA=… python benchmarks/mirror.py --trial    # one epoch of a few images, on CPU

Digits are trained by the recipe `rotmnist-r-choices`. Plankton by `pictures-small`, for 40 epochs,
in grey and 48×48: of the 20 largest classes of `plankton.zip` (National Data Science Bowl 2015,
training part) 100 images each to learn from and 200 others to test, drawn by the SHA-256 of their
names.
"""

import argparse
import hashlib
import logging
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from hnets.data.cache import data_folders
from hnets.errors import InputError
from hnets.train import Recipe, joined, mean_and_spread, read_recipe, report, seeds_of, train

CLASSES, LEARN, TEST = 20, 100, 200
Variants = Mapping[str, Mapping[str, object]]
DIGITS: Variants = {"rotations": {}, "rotations and reflections": {"model.options.mirror": True}}
PLANKTON: Variants = {**DIGITS, "rotations, and learns from flips": {"augment.flip": True}}
log = logging.getLogger(__name__)


def digits(trial: bool) -> Recipe:
    """Rotated MNIST, 12,000 images to learn from and 50,000 to test; 256 and 2,000 on trial."""
    few = {"data.train": "train", "data.test": "val", "data.limit": 256, "training.epochs": 1}
    return read_recipe("rotmnist-r-choices").replace(few if trial else {})


def plankton(folder: Path, trial: bool) -> Recipe:
    """Plankton, unpacked into a folder; four images of each class on trial."""
    archives = [place / "plankton.zip" for place in data_folders(None)]
    archive = next(filter(Path.is_file, archives), None)
    if archive is None:
        raise InputError(f"there is no {archives[0]}; put the archive there, or set HNETS_DATA")
    learn, test = (4, 4) if trial else (LEARN, TEST)
    with zipfile.ZipFile(archive) as content:
        classes: dict[str, list[str]] = {}
        for name in content.namelist():
            if name.endswith(".jpg"):
                classes.setdefault(Path(name).parent.name, []).append(name)
        largest = sorted(classes, key=lambda one: (-len(classes[one]), one))[:CLASSES]
        for names in map(classes.get, largest):
            drawn = sorted(names or (), key=lambda n: hashlib.sha256(n.encode()).digest())
            for split, part in (("train", drawn[:learn]), ("test", drawn[learn : learn + test])):
                content.extractall(folder / split, part)
    changes = {
        "data.name": str(folder),
        "data.val": "",
        "data.channels": 1,
        "data.size": 28 if trial else 48,
        "training.epochs": 1 if trial else 40,
    }
    return read_recipe("pictures-small").replace(changes)


def compare(name: str, recipe: Recipe, variants: Variants, seeds: int) -> None:
    """Train a recipe without and with reflections, side by side on a GPU; print rows of a table."""
    began = time.monotonic()
    with joined() as team:
        runs = {
            variant: seeds_of(recipe.replace(changes), seeds, name=variant)
            for variant, changes in variants.items()
        }
        results = train([run for own in runs.values() for run in own], team)
        for variant, own in runs.items():
            content = report([result for result in results if result.run in own], team)
            error = mean_and_spread(content["summary"][recipe.data.test])
            print(f"| {name} | {variant} | {content['parameters']:,} | {error} |", flush=True)
    log.info("%s: %.0f s, commit %s", name, time.monotonic() - began, content["commit"])


def main() -> None:
    """Print the test error in percent, mean and standard deviation over seeds, as a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["digits", "plankton"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trial", action="store_true")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    seeds = 1 if options.trial else options.seeds
    print("| data | commutes with | parameters | error, % |\n|---|---|---|---|", flush=True)
    if options.only != "digits":
        with tempfile.TemporaryDirectory() as folder:
            compare("plankton", plankton(Path(folder), options.trial), PLANKTON, seeds)
    if options.only != "plankton":
        compare("rotated MNIST", digits(options.trial), DIGITS, seeds)


if __name__ == "__main__":
    main()
