"""Training: recipes, one loop, checkpoints and results."""

from hnets.train import search
from hnets.train.check import check_recipe
from hnets.train.distributed import Team, joined
from hnets.train.job import Job
from hnets.train.loop import Diverged, Finished, Row, Run, Unwritable, Watch, train
from hnets.train.progress import watching
from hnets.train.recipe import Recipe, read_recipe, shipped_recipes
from hnets.train.report import mean_and_spread, seeds_of, train_recipe

__all__ = [
    "Diverged",
    "Finished",
    "Job",
    "Recipe",
    "Row",
    "Run",
    "Team",
    "Unwritable",
    "Watch",
    "check_recipe",
    "joined",
    "mean_and_spread",
    "read_recipe",
    "search",
    "seeds_of",
    "shipped_recipes",
    "train",
    "train_recipe",
    "watching",
]
