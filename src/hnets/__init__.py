"""Harmonic Networks: convolutions whose outputs rotate with their input."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hnets import (
        data,
        export,
        functional,
        metrics,
        models,
        nn,
        plot,
        predict,
        studies,
        testing,
        train,
    )
    from hnets._convert import convert
    from hnets._cost import Cost, cost, matching_width
    from hnets.export import freeze
    from hnets.models import (
        create_model,
        from_pretrained,
        list_models,
        load,
        push_to_hub,
        save,
        save_pretrained,
    )
    from hnets.predict import DigitClassifier, EdgeDetector, ImageClassifier, Segmenter
    from hnets.streams import Stream, Streams

__version__ = "0.1.0"
__all__ = [
    "Cost",
    "DigitClassifier",
    "EdgeDetector",
    "ImageClassifier",
    "Segmenter",
    "Stream",
    "Streams",
    "convert",
    "cost",
    "create_model",
    "data",
    "export",
    "freeze",
    "from_pretrained",
    "functional",
    "list_models",
    "load",
    "matching_width",
    "metrics",
    "models",
    "nn",
    "plot",
    "predict",
    "push_to_hub",
    "save",
    "save_pretrained",
    "studies",
    "testing",
    "train",
]

_MODULES = {
    "_convert": ("convert",),
    "_cost": ("Cost", "cost", "matching_width"),
    "export": ("freeze",),
    "models": (
        "create_model",
        "from_pretrained",
        "list_models",
        "load",
        "push_to_hub",
        "save",
        "save_pretrained",
    ),
    "predict": ("DigitClassifier", "EdgeDetector", "ImageClassifier", "Segmenter"),
    "streams": ("Stream", "Streams"),
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: the command refuses bad input before torch is loaded."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"hnets.{module}"), name)
    return importlib.import_module(f"hnets.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
