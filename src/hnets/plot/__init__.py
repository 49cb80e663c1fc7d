"""Look inside a network: phases as colours, and figures of filters and of feature maps.

Each study is a function that returns what was measured, and what it returns draws itself: its
``figure()`` is a matplotlib figure, which `save` writes. Figures need matplotlib
(``pip install "hnets[plot]"``); arrays of colours need only NumPy.
"""

from hnets.plot.ablation_figure import Curve, ablation_figure
from hnets.plot.accuracy_figure import AnsweredPicture, accuracy_figure
from hnets.plot.choices_figure import MeasuredChoice, choices_figure
from hnets.plot.digits_figure import TurnedDigit, digits_figure
from hnets.plot.edges_figure import edges_figure
from hnets.plot.harmonics_figure import circular_harmonic, harmonics_figure
from hnets.plot.rotation_figure import TurnedMap, turning_figure
from hnets.plot.style import FORMATS, save, style
from hnets.predict.rendering import (
    colour_wheel,
    edges_image,
    orientation_colours,
    orientation_image,
    orientation_wheel,
    overlay_image,
    phase_colours,
)
from hnets.studies.cost_rule import CostRule, MatchedWidth, cost_rule
from hnets.studies.equivariance import (
    LayerError,
    NetworkErrors,
    equivariance,
    equivariance_figure,
)
from hnets.studies.features import FeatureMaps, Field, features
from hnets.studies.filters import FilterStudy, FirstFilter, LayerFilters, filters
from hnets.studies.flow import Flow, FlowMap, flow
from hnets.studies.networks import Network, find_network
from hnets.studies.stability import Response, Stability, stability

__all__ = [
    "FORMATS",
    "AnsweredPicture",
    "CostRule",
    "Curve",
    "FeatureMaps",
    "Field",
    "FilterStudy",
    "FirstFilter",
    "Flow",
    "FlowMap",
    "LayerError",
    "LayerFilters",
    "MatchedWidth",
    "MeasuredChoice",
    "Network",
    "NetworkErrors",
    "Response",
    "Stability",
    "TurnedDigit",
    "TurnedMap",
    "ablation_figure",
    "accuracy_figure",
    "choices_figure",
    "circular_harmonic",
    "colour_wheel",
    "cost_rule",
    "digits_figure",
    "edges_figure",
    "edges_image",
    "equivariance",
    "equivariance_figure",
    "features",
    "filters",
    "find_network",
    "flow",
    "harmonics_figure",
    "orientation_colours",
    "orientation_image",
    "orientation_wheel",
    "overlay_image",
    "phase_colours",
    "save",
    "stability",
    "style",
    "turning_figure",
]
