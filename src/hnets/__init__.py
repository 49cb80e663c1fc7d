"""Harmonic Networks: convolutions that turn when their input turns."""

from typing import TYPE_CHECKING, Any

from hnets import (
    export,
    functional,
    models,
    nn,
    testing,
)
from hnets._cost import cost, matching_width
from hnets.export import freeze
from hnets.models import create_model
from hnets.streams import Stream, Streams

if TYPE_CHECKING:
    from hnets.predict import DigitClassifier, EdgeDetector

__version__ = "0.1.0"
__all__ = [
    "DigitClassifier",
    "EdgeDetector",
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


def __getattr__(name: str) -> Any:
    """What needs Pillow, imported when it is first asked for."""
    if name in ("EdgeDetector", "DigitClassifier"):
        from hnets import predict

        return getattr(predict, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
