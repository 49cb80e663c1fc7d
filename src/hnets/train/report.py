"""From recipe to result: train the runs, and look at the test set once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hnets.files import replacing
from hnets.train.distributed import Team
from hnets.train.examples import examples, load
from hnets.train.loop import Finished, Run, Watch, train
from hnets.train.recipe import Recipe
from hnets.train.record import RESULT, commit, summarise, versions, write_json

__all__ = ["WEIGHTS", "mean_and_spread", "report", "seeds_of", "train_recipe"]

WEIGHTS = "model.safetensors"


def seeds_of(recipe: Recipe, count: int, out: Path | None) -> list[Run]:
    """A run for each of ``count`` seeds, from the recipe's own upwards."""
    first = recipe.training.seed
    return [
        Run(recipe, seed, out / f"seed-{seed}" if out is not None else None)
        for seed in range(first, first + count)
    ]


def train_recipe(
    recipe: Recipe,
    runs: Sequence[Run],
    team: Team,
    out: Path | None = None,
    resume: bool = False,
    watch: Watch | None = None,
    name: str = "",
) -> dict[str, Any]:
    """Train the runs of one recipe, and write and return their result."""
    finished = train(runs, team, resume, watch)
    result = report(recipe, finished, team, name)
    if team.leads and out is not None:
        write_json(result, out / RESULT)
    return result


def report(
    recipe: Recipe, finished: Sequence[Finished], team: Team, name: str = ""
) -> dict[str, Any]:
    """The result of finished runs, whose weights are left in their folders.

    Here, and nowhere else, is the test set read.
    """
    for one in finished:
        if one.run.folder is not None and team.leads:
            save_weights(one.model, one.run.folder / WEIGHTS)
    splits = [split for split in (recipe.data.train, recipe.data.val, recipe.data.test) if split]
    sets = {split: load(recipe.data, split) for split in splits}
    tasks = {split: examples(recipe, data.to(team.device)) for split, data in sets.items()}
    seeds, weights = list[dict[str, Any]](), list[int]()
    for one in finished:
        found = {
            split: dataclasses.asdict(task.evaluate(one.model)) for split, task in tasks.items()
        }
        if recipe.data.test and recipe.evaluation.views:
            averaged = tasks[recipe.data.test].evaluate(one.model, recipe.evaluation.views)
            found[f"{recipe.data.test}, averaged"] = dataclasses.asdict(averaged)
        seeds.append(
            {
                "seed": one.run.seed,
                "epochs": len(one.history),
                "seconds": round(one.seconds, 1),
                "errors": found,
            }
        )
        weights.append(sum(p.numel() for p in one.model.parameters()))
    return {
        "name": name,
        "recipe": recipe.to_dict(),
        "parameters": weights[0],
        "data": {
            split: {"pictures": len(data), "sha256": data.digest} for split, data in sets.items()
        },
        "commit": commit(),
        "versions": versions(team.device),
        "seeds": seeds,
        "summary": {
            split: summarise([seed["errors"][split]["error"] for seed in seeds])
            for split in seeds[0]["errors"]
        },
    }


def save_weights(model: nn.Module, path: Path) -> None:
    """Write a network's weights and statistics as safetensors."""
    from safetensors.torch import save_file

    tensors = {name: value.detach().cpu().clone() for name, value in model.state_dict().items()}
    with replacing(path) as part, torch.no_grad():
        save_file(tensors, part)


def mean_and_spread(summary: Mapping[str, float]) -> str:
    """A mean with its standard deviation, if there is more than one value.

    >>> mean_and_spread({"mean": 1.5, "std": 0.25, "n": 5}), mean_and_spread({"mean": 2, "n": 1})
    ('1.50 ± 0.25', '2.00')
    """
    spread = f" ± {summary['std']:.2f}" if summary["n"] > 1 else ""
    return f"{summary['mean']:.2f}{spread}"
