"""The paper's tables and figures: from shipped results in a second, or trained again."""

from hnets.studies.ablation import METHODS, SIZES, train_ablation
from hnets.studies.choices import train_choices
from hnets.studies.report import write_figures
from hnets.studies.results_page import page, write_page
from hnets.studies.retrain import train_recipes
from hnets.studies.rows import BEYOND, TABLE1, TABLE2, EdgeRow, Row
from hnets.studies.scoring import score_results

__all__ = [
    "BEYOND",
    "METHODS",
    "SIZES",
    "TABLE1",
    "TABLE2",
    "EdgeRow",
    "Row",
    "page",
    "score_results",
    "train_ablation",
    "train_choices",
    "train_recipes",
    "write_figures",
    "write_page",
]
