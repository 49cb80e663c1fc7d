"""Networks, one readable file a family."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from torch import nn

from hnets.errors import suggest
from hnets.models import _weights as weights
from hnets.models._hdsn import HDSN, HED, hdsn, hed, hed_low
from hnets.models._hnet_fourier import HNetFourier, hnet_fourier
from hnets.models._hnet_mnist import HNetMNIST, hnet_mnist
from hnets.models._p4cnn import P4CNN, P4CNNPooling, p4cnn, p4cnn_pooling
from hnets.models._z2cnn import Z2CNN, z2cnn
from hnets.nn._checks import flag

__all__ = [
    "HDSN",
    "HED",
    "P4CNN",
    "Z2CNN",
    "HNetFourier",
    "HNetMNIST",
    "P4CNNPooling",
    "create_model",
    "hdsn",
    "hed",
    "hed_low",
    "hnet_fourier",
    "hnet_mnist",
    "p4cnn",
    "p4cnn_pooling",
    "z2cnn",
]

_MODELS: dict[str, Callable[..., nn.Module]] = {
    "hnet_mnist": hnet_mnist,
    "hnet_fourier_tiny": partial(HNetFourier, "tiny"),
    "hnet_fourier_small": partial(HNetFourier, "small"),
    "hnet_fourier_base": partial(HNetFourier, "base"),
    "hnet_fourier_base_pointing": partial(HNetFourier, "base", centre_of_mass=True),
    "z2cnn": z2cnn,
    "p4cnn": p4cnn,
    "p4cnn_pooling": p4cnn_pooling,
    "hdsn": hdsn,
    "hed": hed,
    "hed_low": hed_low,
}


def create_model(name: str, pretrained: bool = False, **options: Any) -> nn.Module:
    """Build a network by its name; options are those of the function of that name.

    A pretrained one has the weights that come with the package (`hnets.weights.available` lists
    them) and the options they were trained with, unless others are given.

    >>> type(create_model("hnet_mnist", classes=5)).__name__
    'HNetMNIST'
    """
    if name not in _MODELS:
        raise ValueError(f"no model is called {name!r}{suggest(name, _MODELS)}")
    known = signature(_MODELS[name]).parameters
    for option in options:
        if option not in known:
            raise TypeError(f"{name} has no option {option!r}{suggest(option, known)}")
    if not flag(pretrained, "pretrained"):
        return _MODELS[name](**options)
    model = _MODELS[name](**{**weights.describe(name)["options"], **options})
    weights.load_into(model, name)
    return model
