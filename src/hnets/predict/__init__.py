"""Trained networks on pictures: NumPy or Pillow in, NumPy out."""

from hnets.predict.boundaries import BoundaryDetector, Oriented
from hnets.predict.digits import DigitClassifier, DigitPrediction, Turning
from hnets.predict.ink import as_digit
from hnets.predict.thinning import thin_across

__all__ = [
    "BoundaryDetector",
    "DigitClassifier",
    "DigitPrediction",
    "Oriented",
    "Turning",
    "as_digit",
    "thin_across",
]
