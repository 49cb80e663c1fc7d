"""Trained networks on images: NumPy or Pillow in, NumPy out.

Names are imported when they are first used, so that edges need none of the code for handwriting.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hnets.predict.batch import EdgeWorker
    from hnets.predict.digit_classifier import DigitClassifier, DigitPrediction, RotatedPredictions
    from hnets.predict.edge_detector import EdgeDetector, OrientedEdges, suppress_edges
    from hnets.predict.image_classifier import ClassPrediction, ImageClassifier
    from hnets.predict.ink import as_digit
    from hnets.predict.segmenter import Segmenter

_MODULES = {
    "batch": ("EdgeWorker",),
    "digit_classifier": ("DigitClassifier", "DigitPrediction", "RotatedPredictions"),
    "edge_detector": ("EdgeDetector", "OrientedEdges", "suppress_edges"),
    "image_classifier": ("ClassPrediction", "ImageClassifier"),
    "ink": ("as_digit",),
    "segmenter": ("Segmenter",),
}
EDGE_MODEL = "small"
"""The network that finds edges unless another is named."""
EDGE_MODELS = {"tiny": "hedge_tiny", "small": "hedge_small", "base": "hedge_base"}
"""Short names of networks that find edges."""
SCALES = (0.1, 4.0)
"""The smallest and the largest scale that an image can be resized to."""
__all__ = [
    "EDGE_MODEL",
    "EDGE_MODELS",
    "SCALES",
    "ClassPrediction",
    "DigitClassifier",
    "DigitPrediction",
    "EdgeDetector",
    "EdgeWorker",
    "ImageClassifier",
    "OrientedEdges",
    "RotatedPredictions",
    "Segmenter",
    "as_digit",
    "suppress_edges",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
