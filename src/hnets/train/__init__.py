"""Training: recipes, one loop, checkpoints and results."""

from hnets.train.loop import Diverged, Finished, Row, Run, Watch, train
from hnets.train.parallel import Team, joined
from hnets.train.progress import watching
from hnets.train.recipe import Recipe, read_recipe, shipped_recipes
from hnets.train.report import seeds_of, train_recipe

__all__ = [
    "Diverged",
    "Finished",
    "Recipe",
    "Row",
    "Run",
    "Team",
    "Watch",
    "joined",
    "read_recipe",
    "seeds_of",
    "shipped_recipes",
    "train",
    "train_recipe",
    "watching",
]
