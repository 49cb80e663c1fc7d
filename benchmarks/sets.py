"""Networks compared on real images: plankton by the number of labels, or MiraBest by ten folds.

    HNETS_DATA=… python benchmarks/sets.py plankton-resnet18 plankton-fourier-small --share 1 0.1
    HNETS_DATA=… python benchmarks/sets.py mirabest-resnet18 --folds 10 --seeds 5

Recipes are trained side by side on a GPU. With a share s of the labels an epoch has fewer steps, so
all recipes train for 1/√s times their epochs. Errors and log losses are of the test split; those of
the folds of a seed are averaged first. With --out, the results of all runs are written there.
"""

import argparse
import logging
import statistics
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hnets.train import error_lines, joined, read_recipe, report, seeds_of, train
from hnets.train.result import mean_and_spread, summarise

log = logging.getLogger(__name__)


def over_folds(contents: Iterable[dict[str, Any]], split: str, kind: str) -> dict[str, float]:
    """Mean and deviation over seeds of an error or loss, each the mean over folds."""
    folds = [[seed["errors"][split][kind] for seed in content["seeds"]] for content in contents]
    return summarise([statistics.fmean(values) for values in zip(*folds, strict=True)])


def main() -> None:
    """Print a table with a row for each recipe and share."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--share", type=float, nargs="+", default=[1.0])
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    began = time.monotonic()
    with joined() as team:
        rows = {}
        for name in options.recipes:
            recipe = read_recipe(name, options.set)
            for share in options.share:
                epochs = round(recipe.training.epochs / share**0.5)
                changes = {"data.share": share, "training.epochs": epochs}
                rows[name, share] = [
                    seeds_of(recipe.replace({**changes, "data.fold": fold}), options.seeds)
                    for fold in range(options.folds)
                ]
        results = train([run for row in rows.values() for fold in row for run in fold], team)
        print("| recipe | share | images | parameters | error, % | log loss | seconds per run |")
        print("|---|---|---|---|---|---|---|")
        for (name, share), folds in rows.items():
            contents = []
            for number, runs in enumerate(folds):
                out = options.out and options.out / f"{name}-share-{share:g}-fold-{number}"
                contents.append(report([one for one in results if one.run in runs], team, out))
                for line in error_lines(contents[-1]):
                    log.info("%s, share %g, fold %d: %s", name, share, number, line)
            data = folds[0][0].recipe.data
            error, loss = (over_folds(contents, data.test, kind) for kind in ("error", "loss"))
            seconds = [seed["seconds"] for content in contents for seed in content["seeds"]]
            cells = (
                *(name, f"{share:g}", f"{contents[0]['data'][data.train]['images']:,}"),
                *(f"{contents[0]['parameters']:,}", mean_and_spread(error)),
                *(mean_and_spread(loss, 3), f"{statistics.fmean(seconds):.0f}"),
            )
            print(f"| {' | '.join(cells)} |", flush=True)
    log.info("%.0f s, commit %s", time.monotonic() - began, contents[-1]["commit"])


if __name__ == "__main__":
    main()
