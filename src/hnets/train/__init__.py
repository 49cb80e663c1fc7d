"""Training: recipes, one loop, checkpoints and results."""

from hnets.errors import Unwritable
from hnets.train.distributed import Team, elastic, joined
from hnets.train.loop import train, train_and_report
from hnets.train.progress import watching
from hnets.train.recipe import Recipe, read_recipe, shipped_recipes
from hnets.train.result import Diverged, Result, error_lines, mean_and_spread, report
from hnets.train.run import Run, Watch, begin, prepare, remember, seeds_of

__all__ = [
    "Diverged",
    "Recipe",
    "Result",
    "Run",
    "Team",
    "Unwritable",
    "Watch",
    "begin",
    "elastic",
    "error_lines",
    "joined",
    "mean_and_spread",
    "prepare",
    "read_recipe",
    "remember",
    "report",
    "seeds_of",
    "shipped_recipes",
    "train",
    "train_and_report",
    "watching",
]
