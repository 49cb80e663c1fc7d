"""Every figure, in one style, from numbers that a study measured.

Each function returns a matplotlib figure, which `save` writes. Figures need matplotlib
(``pip install "hnets[plot]"``).
"""

from hnets.plot.curves import (
    ablation_figure,
    choices_figure,
    cost_rule_figure,
    front_figure,
    precision_recall_figure,
)
from hnets.plot.inside import (
    circular_harmonic,
    features_figure,
    filters_figure,
    flow_figure,
    harmonics_figure,
)
from hnets.plot.prediction_figures import RotatedDigit, accuracy_figure, digits_figure, edges_figure
from hnets.plot.rotation_figures import equivariance_figure, rotation_figure, stability_figure
from hnets.plot.style import FORMATS, Sheet, check_matplotlib, figure_style, save

__all__ = [
    "FORMATS",
    "RotatedDigit",
    "Sheet",
    "ablation_figure",
    "accuracy_figure",
    "check_matplotlib",
    "choices_figure",
    "circular_harmonic",
    "cost_rule_figure",
    "digits_figure",
    "edges_figure",
    "equivariance_figure",
    "features_figure",
    "figure_style",
    "filters_figure",
    "flow_figure",
    "front_figure",
    "harmonics_figure",
    "precision_recall_figure",
    "rotation_figure",
    "save",
    "stability_figure",
]
