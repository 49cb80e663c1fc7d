"""Trained networks on pictures: NumPy or Pillow in, NumPy out."""

from hnets.predict.digits import DigitClassifier, DigitPrediction, Turning
from hnets.predict.ink import as_digit

__all__ = ["DigitClassifier", "DigitPrediction", "Turning", "as_digit"]
