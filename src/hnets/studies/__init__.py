"""Measurements: what is inside a network, and the paper's tables, shipped or trained again.

Each measurement is a function ``measure_...`` that returns frozen numbers, which `hnets.plot`
draws. Tables and their results are in `hnets.studies.tables`, `ablation` and `choices`.
"""

from hnets.studies.cost_rule import CostRule, MatchedWidth, measure_cost_rule
from hnets.studies.equivariance import LayerError, NetworkErrors, measure_equivariance
from hnets.studies.features import FeatureMaps, Field, Flow, FlowMap, measure_features, measure_flow
from hnets.studies.filters import FilterStudy, FirstFilter, LayerFilters, measure_filters
from hnets.studies.networks import Network, find_image, find_network
from hnets.studies.rotated_image import RotatedImage, RotatedMap, measure_rotation
from hnets.studies.stability import Response, Stability, measure_stability

__all__ = [
    "CostRule",
    "FeatureMaps",
    "Field",
    "FilterStudy",
    "FirstFilter",
    "Flow",
    "FlowMap",
    "LayerError",
    "LayerFilters",
    "MatchedWidth",
    "Network",
    "NetworkErrors",
    "Response",
    "RotatedImage",
    "RotatedMap",
    "Stability",
    "find_image",
    "find_network",
    "measure_cost_rule",
    "measure_equivariance",
    "measure_features",
    "measure_filters",
    "measure_flow",
    "measure_rotation",
    "measure_stability",
]
