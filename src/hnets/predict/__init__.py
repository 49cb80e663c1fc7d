"""Trained networks on images: NumPy or Pillow in, NumPy out.

Names are imported when they are first used, so that edges need none of the code for handwriting.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hnets.predict.batch import EdgeWriter
    from hnets.predict.digit_classifier import (
        DigitClassifier,
        DigitPrediction,
        RotatedPredictions,
    )
    from hnets.predict.edge_detector import EdgeDetector, OrientedEdges, suppress_edges
    from hnets.predict.ink import as_digit

_MODULES = {
    "DigitClassifier": "digit_classifier",
    "DigitPrediction": "digit_classifier",
    "EdgeDetector": "edge_detector",
    "EdgeWriter": "batch",
    "OrientedEdges": "edge_detector",
    "RotatedPredictions": "digit_classifier",
    "as_digit": "ink",
    "suppress_edges": "edge_detector",
}
SCALES = (0.1, 4.0)
"""The smallest and the largest scale that an image can be resized to."""
__all__ = [
    "SCALES",
    "DigitClassifier",
    "DigitPrediction",
    "EdgeDetector",
    "EdgeWriter",
    "OrientedEdges",
    "RotatedPredictions",
    "as_digit",
    "suppress_edges",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
