"""Look inside a network: phases as colours, and figures of filters and of feature maps.

Each study is a function that returns what was measured, and what it returns draws itself: its
``figure()`` is a matplotlib figure, which `save` writes. Figures need matplotlib
(``pip install "hnets[plot]"``); arrays of colours need only NumPy.
"""

from hnets.inspect.ablation import Curve, ablation_figure
from hnets.inspect.accuracy import AnsweredPicture, accuracy_figure
from hnets.inspect.choices import MeasuredChoice, choices_figure
from hnets.inspect.cost import CostRule, MatchedWidth, cost_rule
from hnets.inspect.digits import TurnedDigit, digits_figure
from hnets.inspect.edges import (
    edges_figure,
    edges_picture,
    orientation_colours,
    orientation_picture,
    orientation_wheel,
    overlay_picture,
)
from hnets.inspect.equivariance import (
    LayerError,
    NetworkErrors,
    equivariance,
    equivariance_figure,
)
from hnets.inspect.features import FeatureMaps, Field, features
from hnets.inspect.figures import FORMATS, save, style
from hnets.inspect.filters import FilterStudy, FirstFilter, LayerFilters, filters
from hnets.inspect.flow import Flow, FlowMap, flow
from hnets.inspect.harmonics import circular_harmonic, harmonics_figure
from hnets.inspect.networks import Network, find_network
from hnets.inspect.phase import colour_wheel, phase_colours
from hnets.inspect.stability import Response, Stability, stability
from hnets.inspect.turning import TurnedMap, turning_figure

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
    "edges_picture",
    "equivariance",
    "equivariance_figure",
    "features",
    "filters",
    "find_network",
    "flow",
    "harmonics_figure",
    "orientation_colours",
    "orientation_picture",
    "orientation_wheel",
    "overlay_picture",
    "phase_colours",
    "save",
    "stability",
    "style",
    "turning_figure",
]
