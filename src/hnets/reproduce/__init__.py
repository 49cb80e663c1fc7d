"""The paper's tables and figures: from shipped results in a second, or trained again."""

from hnets.reproduce.ablation import METHODS, SIZES, train_ablation
from hnets.reproduce.choices import train_choices
from hnets.reproduce.figures import write_figures
from hnets.reproduce.page import page, write_page
from hnets.reproduce.rows import BEYOND, TABLE1, TABLE2, BoundaryRow, Row
from hnets.reproduce.scoring import score_results
from hnets.reproduce.training import train_recipes

__all__ = [
    "BEYOND",
    "METHODS",
    "SIZES",
    "TABLE1",
    "TABLE2",
    "BoundaryRow",
    "Row",
    "page",
    "score_results",
    "train_ablation",
    "train_choices",
    "train_recipes",
    "write_figures",
    "write_page",
]
