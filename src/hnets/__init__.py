"""Harmonic Networks: convolutions whose outputs rotate with their input."""

import importlib
from typing import TYPE_CHECKING, Any

from hnets import export, functional, models, nn, testing
from hnets._cost import Cost, cost, matching_width
from hnets.export import freeze
from hnets.models import create_model, list_models, load, save
from hnets.streams import Stream, Streams

if TYPE_CHECKING:
    from hnets import data, metrics, plot, predict, studies, train
    from hnets.predict import DigitClassifier, EdgeDetector

__version__ = "0.1.0"
__all__ = [
    "Cost",
    "DigitClassifier",
    "EdgeDetector",
    "Stream",
    "Streams",
    "cost",
    "create_model",
    "data",
    "export",
    "freeze",
    "functional",
    "list_models",
    "load",
    "matching_width",
    "metrics",
    "models",
    "nn",
    "plot",
    "predict",
    "save",
    "studies",
    "testing",
    "train",
]

_ROOMS = ("data", "metrics", "train", "predict", "studies", "plot")
_PREDICTORS = ("DigitClassifier", "EdgeDetector")


def __getattr__(name: str) -> Any:
    """What needs more than torch and numpy, imported when it is first used."""
    if name in _ROOMS:
        return importlib.import_module(f"hnets.{name}")
    if name in _PREDICTORS:
        return getattr(importlib.import_module("hnets.predict"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
