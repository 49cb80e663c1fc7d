"""Trained networks on pictures: NumPy or Pillow in, NumPy out."""

from hnets.predict.digit_classifier import DigitClassifier, DigitPrediction, Turning
from hnets.predict.edge_detector import EdgeDetector, Oriented
from hnets.predict.ink import as_digit
from hnets.predict.thin import thin_across

__all__ = [
    "DigitClassifier",
    "DigitPrediction",
    "EdgeDetector",
    "Oriented",
    "Turning",
    "as_digit",
    "thin_across",
]
