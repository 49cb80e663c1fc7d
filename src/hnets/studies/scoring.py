"""Scores of trained edge detectors by the Berkeley benchmark, on the test photographs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from rich.console import Console

from hnets.data.bsds import Photo, photos
from hnets.errors import InputError, MissingExtra
from hnets.files import replacing
from hnets.models import load
from hnets.models._hdsn import HDSN
from hnets.models._weights import WEIGHTS
from hnets.predict import EdgeDetector
from hnets.studies.retrain import StoredResult, train_recipes
from hnets.train import Recipe, Team
from hnets.train.result import summarise, write_json

SUPPRESSIONS = ("none", "standard", "phase")
"""Ways to score: the maps as they are, suppressed as the literature does, and suppressed across the
orientation that the network itself reports, which only an H-DSN can."""


def train_and_score(
    recipes: Mapping[str, Recipe],
    seeds: int,
    out: Path,
    team: Team,
    resume: bool,
    console: Console,
    thresholds: int,
) -> dict[str, StoredResult]:
    """Train every recipe with every seed and score the networks; the results."""
    results = train_recipes(recipes, seeds, out, team, resume, console)
    if team.leads:
        return score_results(results, out, team.device, thresholds, console)
    return results


def score_results(
    results: Mapping[str, StoredResult],
    out: Path,
    device: torch.device,
    thresholds: int,
    console: Console,
) -> dict[str, StoredResult]:
    """Add the scores of every seed to results that lack them, and write these to ``out`` again.

    The weights are those that the training left in ``out``; so a training can be scored later, and
    on another machine.
    """
    try:
        import hnets.metrics.benchmark  # noqa: F401 - needs numba and scipy
    except MissingExtra as error:
        raise InputError(
            f"{error}; what was trained is in {out}: continue with --train --resume"
        ) from None
    scored = {}
    for name, result in results.items():
        if "scores" not in result:
            for seed in result["seeds"]:
                folder = out / name / f"seed-{seed['seed']}"
                if not (folder / WEIGHTS).is_file():
                    raise InputError(
                        f"there are no trained weights in {folder}; train again with --train"
                    )
                console.print(f"scoring {name}, seed {seed['seed']}", highlight=False)
                seed["scores"] = _score(load(folder), folder, device, thresholds, console)
            seeds = [seed["scores"] for seed in result["seeds"]]
            result["scores"] = {
                way: {
                    score: summarise([scores[way][score] for scores in seeds])
                    for score in ("ods", "ois", "ap")
                }
                for way in SUPPRESSIONS
                if way in seeds[0]
            }
            result["thresholds"] = thresholds
            write_json(result, out / f"{name}.json")
        scored[name] = result
    return scored


def _score(
    model: torch.nn.Module, folder: Path, device: torch.device, thresholds: int, console: Console
) -> dict[str, Any]:
    """ODS, OIS and AP for each of `SUPPRESSIONS` that the model has; its maps are left on disk."""
    from hnets.metrics.benchmark import score_maps

    detector, test = EdgeDetector(model, device), photos("test")
    scores = {}
    maps = _write(test, folder / "maps", detector, console)
    for result in score_maps(test, maps, thresholds, SUPPRESSIONS[:2]):
        scores[result.suppression] = result.scores
    if isinstance(model, HDSN):
        lines = _write(test, folder / "lines", detector.suppressed, console)
        scores["phase"] = score_maps(test, lines, thresholds, ["none"])[0].scores
    return {
        way: {"ods": each.ods.f, "ois": each.ois.f, "ap": each.ap} for way, each in scores.items()
    }


def _write(
    test: Sequence[Photo],
    folder: Path,
    detect: Callable[[NDArray[np.uint8]], NDArray[np.floating[Any]]],
    console: Console,
) -> list[Path]:
    """The maps of all photographs as 8-bit PNG, as ``hnets edges`` writes them."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    with console.status(f"finding edges in {len(test)} photographs"):
        for photo in test:
            path = folder / f"{photo.name}.png"
            if not path.is_file():
                soft = detect(photo.image())
                with replacing(path) as part:
                    Image.fromarray(np.rint(255 * soft).astype(np.uint8)).save(part, format="PNG")
            written.append(path)
    return written
