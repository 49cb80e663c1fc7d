"""Scores of trained edge detectors by the Berkeley benchmark, on the test photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from hnets._cost import cost
from hnets.data.bsds import Photo, photos
from hnets.devices import cores
from hnets.errors import InputError, MissingExtra
from hnets.models import HDSN, HEdge, create_model, load
from hnets.models._weights import WEIGHTS
from hnets.predict import EdgeDetector
from hnets.predict.edge_detector import suppress_edges
from hnets.studies.retrain import StoredResult, train_recipes
from hnets.train import Recipe, Team
from hnets.train.result import summarise, write_json

if TYPE_CHECKING:
    from hnets.metrics.berkeley import Counts


@dataclass(frozen=True)
class Way:
    """How edges are found and made thin before they are scored."""

    suppression: str
    """As in `hnets.metrics.suppression`."""
    own: bool = False
    """Whether it goes across the orientation that the network reports, not that of the map."""
    scales: tuple[float, ...] = (1.0,)


WAYS = {
    "none": Way("none"),
    "standard": Way("standard"),
    "phase": Way("standard", own=True),
    "scales": Way("standard", scales=(0.5, 1.0, 1.5)),
}
"""The maps as they are; suppressed as the literature does; suppressed across the orientation that
the network itself reports, which only harmonic networks do; and of the mean of three scales."""
EDGE_WAYS = ("standard", "scales", "phase")
"""How the detectors beyond the paper are scored."""
Edges = NDArray[np.floating[Any]]


def train_and_score(
    recipes: Mapping[str, Recipe],
    seeds: int,
    out: Path,
    team: Team,
    resume: bool,
    console: Console,
    thresholds: int,
    ways: Sequence[str],
) -> dict[str, StoredResult]:
    """Train every recipe with every seed and score the networks; the results."""
    results = train_recipes(recipes, seeds, out, team, resume, console)
    if team.leads:
        with ThreadPoolExecutor(cores()) as pool:
            return score_results(results, out, team.device, thresholds, ways, pool, console)
    return results


def score_results(
    results: Mapping[str, StoredResult],
    out: Path,
    device: torch.device,
    thresholds: int,
    ways: Sequence[str],
    pool: Executor,
    console: Console,
) -> dict[str, StoredResult]:
    """Add the scores of every seed to results that lack them, and write these to ``out`` again.

    Scores at another number of thresholds do not count. The weights are those that the training
    left in ``out``; so a training can be scored later, and on another machine.
    """
    for name, result in results.items():
        if result.get("thresholds") != thresholds:
            for each in (result, *result["seeds"]):
                each.pop("scores", None)
            result["thresholds"] = thresholds
        scores = result.get("scores", {})
        if scores and all(way in scores or WAYS[way].own for way in ways):
            continue
        for seed in result["seeds"]:
            folder = out / name / f"seed-{seed['seed']}"
            if not (folder / WEIGHTS).is_file():
                raise InputError(
                    f"there are no trained weights in {folder}; train again with --train"
                )
            try:
                detector = EdgeDetector(load(folder), device)
                add_scores(seed, detector, photos("test"), thresholds, ways, pool, console)
            except MissingExtra as error:
                raise InputError(
                    f"{error}; what was trained is in {out}: continue with --train --resume"
                ) from None
            write_json(result, out / f"{name}.json")
        summarise_scores(result, thresholds)
        result["cost"] = network_cost(result["recipe"])
        write_json(result, out / f"{name}.json")
    return dict(results)


def add_scores(
    seed: dict[str, Any],
    detector: EdgeDetector,
    chosen: Sequence[Photo],
    thresholds: int,
    ways: Sequence[str],
    pool: Executor,
    console: Console,
) -> None:
    """Score a detector in the ways that a seed's ``scores`` lack and that its network has.

    The network runs here, and suppression and the benchmark in the pool, of threads or processes.
    """
    from hnets.metrics.berkeley import summarise as summarise_counts  # needs numba and scipy

    scores = seed.setdefault("scores", {})
    for name in ways:
        way = WAYS[name]
        if name in scores or (way.own and not isinstance(detector.model, HDSN | HEdge)):
            continue
        with console.status(f"finding edges in {len(chosen)} photographs"):
            detect = detector.oriented if way.own else detector
            tasks = []
            for photo in chosen:
                edges = detect(photo.image(), way.scales)
                tasks.append(pool.submit(count_edges, photo, edges, way, thresholds))
        with console.status("comparing them with what people drew"):
            result = summarise_counts([task.result() for task in tasks])
        scores[name] = {"ods": result.ods.f, "ois": result.ois.f, "ap": result.ap}
        numbers = ", ".join(f"{key.upper()} {value:.4f}" for key, value in scores[name].items())
        console.print(f"seed {seed['seed']}, {name}: {numbers}", highlight=False)


def count_edges(
    photo: Photo, edges: Edges | tuple[Edges, Edges], way: Way, thresholds: int
) -> Counts:
    """The benchmark's counts for a map, or strengths and angles, at 8 bits as files hold them."""
    from hnets.metrics.berkeley import count
    from hnets.metrics.suppression import suppress

    if isinstance(edges, tuple):
        soft = _eight_bits(suppress_edges(*edges, way.suppression))
    else:
        soft = suppress(_eight_bits(edges), way.suppression)
    return count(soft, photo.boundaries(), thresholds)


def _eight_bits(soft: Edges) -> NDArray[np.float64]:
    return np.rint(255 * soft.astype(np.float64)) / 255


def summarise_scores(result: StoredResult, thresholds: int) -> None:
    """Add the mean and the spread over the seeds to a result, of ways that all of them have."""
    seeds = [seed.get("scores", {}) for seed in result["seeds"]]
    result["scores"] = {
        way: {
            score: summarise([scores[way][score] for scores in seeds])
            for score in ("ods", "ois", "ap")
        }
        for way in WAYS
        if all(way in scores for scores in seeds)
    }
    result["thresholds"] = thresholds


def network_cost(recipe: Mapping[str, Any]) -> dict[str, int]:
    """Multiplications for an image of 481×321 pixels, of a recipe as a result holds it."""
    network = create_model(recipe["model"]["name"])
    return {"multiplications": cost(network, (3, 321, 481)).multiplications}
