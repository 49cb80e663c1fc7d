"""Networks compared on real images: by the number of labels, by ten folds, or on pixels.

    HNETS_DATA=… python benchmarks/sets.py plankton-resnet18 plankton-hresnet18 --share 1 0.1 0.01
    HNETS_DATA=… python benchmarks/sets.py mirabest-resnet18 --folds 10 --seeds 5
    HNETS_DATA=… python benchmarks/sets.py drive-hunet drive-unet
    HNETS_DATA=… python benchmarks/sets.py benchmarks/rotmnist-r-e2cnn.toml rotmnist-r-fourier-base

The folds and seeds of a recipe are trained side by side on a GPU, without validation, since nothing
depends on it. With a share s of the labels an epoch has fewer steps, so all recipes train for 1/√s
times their epochs. Scores are of the test split; those of the folds of a seed are averaged first.
With --out, each row is added to a JSON file as soon as it is there, in place of an earlier one.
With --keep, runs are in a folder, and the same command goes on with those that were stopped.

With --tune, the learning rate of every recipe is first chosen among the same ones: by the error on
the validation split, after a third of the epochs, with a share of the labels such as --tune 0.1.
"""

import argparse
import itertools
import json
import logging
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import peers

import hnets
from hnets.models._registry import register
from hnets.models._weights import ModelConfig
from hnets.train import (
    Diverged,
    Recipe,
    Result,
    Run,
    Team,
    joined,
    mean_and_spread,
    prepare,
    read_recipe,
    report,
    seeds_of,
    train,
)
from hnets.train.result import summarise, write_json
from hnets.train.run import Loaded

log = logging.getLogger(__name__)

RATES = (0.001, 0.003, 0.01)
KINDS = ("error", "loss", "auc", "f1")


def trained(runs: Sequence[Run], team: Team, loaded: Loaded) -> tuple[list[Result], float | None]:
    """The results of all runs but those that diverged, and the seconds per run.

    Of runs that go on, the seconds are not known.
    """
    prepare(runs, team, resume=True, loaded=loaded)
    began, resumed = time.monotonic(), any(run.history for run in runs)
    try:
        results = train(runs, team, resume=True)
    except Diverged as error:
        log.warning("%s", error)
        results = error.results
    return results, None if resumed else round((time.monotonic() - began) / len(runs), 1)


def row_of(
    name: str, folds: Sequence[Sequence[Run]], team: Team, loaded: Loaded
) -> dict[str, Any] | None:
    """What is known of a recipe when the runs of all folds have ended; None if all diverged."""
    results, seconds = trained([run for runs in folds for run in runs], team, loaded)
    by_fold = [[one for one in results if one.run in runs] for runs in folds]
    if not all(by_fold):
        return None
    contents = [report(part, team) for part in by_fold]
    data, model = folds[0][0].recipe.data, results[0].model
    config = model.config
    assert isinstance(config, ModelConfig)
    shape = tuple(folds[0][0].tasks[data.train].images.shape[1:])
    return {
        "recipe": name,
        "model": {"name": config.name, "options": config.options},
        "share": data.share,
        "folds": len(folds),
        "images": contents[0]["data"][data.train]["images"],
        "shape": shape,
        "parameters": contents[0]["parameters"],
        "multiplications": hnets.cost(model, shape).multiplications or None,  # of other libraries
        "seconds": seconds,
        "scores": {
            split: over_folds(contents, split) for split in (data.test, data.transfer) if split
        },
        "settings": contents[0]["recipe"],
        "commit": contents[0]["commit"],
        "versions": contents[0]["versions"],
        "precision": contents[0]["precision"],
    }


def over_folds(contents: Sequence[dict[str, Any]], split: str) -> dict[str, dict[str, float]]:
    """Mean and deviation over seeds of each score, each the mean over folds."""
    scores = dict[str, dict[int, list[float]]]()
    for seed in (each for content in contents for each in content["seeds"]):
        for kind, value in seed["errors"][split].items():
            scores.setdefault(kind, {}).setdefault(seed["seed"], []).append(value)
    return {
        kind: summarise([statistics.fmean(folds) for folds in by_seed.values()])
        for kind, by_seed in scores.items()
        if kind in KINDS
    }


def line_of(row: dict[str, Any]) -> str:
    """A row of the table, for people."""
    scores = [
        f"{split} {kind} {mean_and_spread(value, 2 if kind == 'error' else 4)}"
        for split, kinds in row["scores"].items()
        for kind, value in kinds.items()
    ]
    count, seconds = row["multiplications"], row["seconds"]
    cells = (
        *(row["recipe"], f"{row['share']:g}", f"{row['images']:,}", f"{row['parameters']:,}"),
        *(f"{count / 1e9:.2f} G" if count else "", ", ".join(scores)),
        "?" if seconds is None else f"{seconds:.0f}",
    )
    return f"| {' | '.join(cells)} |"


def add(row: dict[str, Any], path: Path) -> None:
    """Put a row into a file of rows, in place of one of the same recipe, share and folds."""
    keys = ("recipe", "share", "folds")
    rows = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    rows = [each for each in rows if any(each[key] != row[key] for key in keys)]
    write_json([*rows, row], path)


def with_share(recipe: Recipe, share: float, **changes: Any) -> Recipe:
    """The recipe with a share of the labels and as much longer, without validation."""
    epochs = max(1, round(recipe.training.epochs / share**0.5))
    part = {"data.share": share, "training.epochs": epochs, "data.val": ""}
    return recipe.replace(part | changes)


def tune(recipe: Recipe, share: float, team: Team, loaded: Loaded) -> dict[float, float]:
    """The validation errors of a recipe by learning rate, of those that did not diverge."""
    recipe = recipe.replace({"training.epochs": max(1, round(recipe.training.epochs / 3))})
    changes = {"data.train": "train", "data.test": "val", "data.transfer": ""}
    runs = [
        Run(with_share(recipe, share, **changes | {"optimiser.rate": rate}), recipe.training.seed)
        for rate in RATES
    ]
    results, _ = trained(runs, team, loaded)
    return {one.run.recipe.optimiser.rate: round(one.evaluate()["val"].error, 2) for one in results}


def main() -> None:
    """Print a table with a row for each share and recipe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--share", type=float, nargs="+", default=[1.0])
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path, metavar="FILE.json")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--tune", type=float, metavar="SHARE")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    register("e2cnn_digits", peers.e2cnn_digits)
    began, loaded = time.monotonic(), Loaded()
    columns = ["recipe", "share", "images", "parameters", "multiplications", "scores", "seconds"]
    print(f"| {' | '.join(columns)} per run |\n{'|---' * len(columns)}|")
    tuned = dict[str, dict[float, float]]()
    with joined() as team:
        for share, name in itertools.product(options.share, options.recipes):
            recipe = read_recipe(name, options.set)
            if options.tune and name not in tuned:
                tuned[name] = tune(recipe, options.tune, team, loaded)
                log.info("%s: validation errors by learning rate: %s", name, tuned[name])
            if by_rate := tuned.get(name):
                recipe = recipe.replace({"optimiser.rate": min(by_rate, key=by_rate.__getitem__)})
            recipe = with_share(recipe, share)
            stem = Path(name).stem
            folds = [
                seeds_of(
                    recipe.replace({"data.fold": fold}),
                    options.seeds,
                    options.keep and options.keep / f"{stem}-{share:g}" / f"fold-{fold}",
                )
                for fold in range(options.folds)
            ]
            if row := row_of(stem, folds, team, loaded):
                print(line_of(row), flush=True)
                if options.out:
                    add(row | {"tuned": tuned.get(name)}, options.out)
    log.info("%.0f s", time.monotonic() - began)


if __name__ == "__main__":
    main()
