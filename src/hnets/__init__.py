"""Harmonic Networks: convolutions that turn when their input turns."""

from hnets import export, functional, models, nn, testing
from hnets.cost import cost, matching_width
from hnets.export import freeze
from hnets.models import create_model
from hnets.streams import Stream, Streams

__version__ = "0.1.0"
__all__ = [
    "Stream",
    "Streams",
    "cost",
    "create_model",
    "export",
    "freeze",
    "functional",
    "matching_width",
    "models",
    "nn",
    "testing",
]
