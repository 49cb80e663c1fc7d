"""Networks by name: the registry, and what makes or loads a network that is in it."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature, unwrap
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from torch import nn

from hnets.errors import InputError, suggest
from hnets.models._weights import (
    ModelConfig,
    Weights,
    fill,
    find,
    read,
    read_shipped,
    remember_training,
    shipped,
)
from hnets.nn._base import flag

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module)

_MODELS: dict[str, Callable[..., nn.Module]] = {}


def register(name: str, build: Callable[P, M]) -> Callable[P, M]:
    """The same function, known to `create_model`; its networks have their name and options.

    The arguments are the options: values that JSON can hold.
    """

    @wraps(build, updated=())
    def make(*args: P.args, **kwargs: P.kwargs) -> M:
        model, bound = build(*args, **kwargs), signature(build).bind(*args, **kwargs)
        bound.apply_defaults()
        # As JSON gives them back: without tuples.
        options = {k: list(v) if isinstance(v, tuple) else v for k, v in bound.arguments.items()}
        model.__dict__["config"] = ModelConfig(name, options)
        return model

    make.__name__ = make.__qualname__ = name
    make.__doc__ = getattr(build, "func", build).__doc__  # a partial has one of its own
    _MODELS[name] = make
    return make


def list_models(filter: str = "", pretrained: bool = False) -> list[str]:
    """Names for `create_model`: all models, or all weights that come with the package.

    A filter, such as ``"hresnet*"``, keeps the names that it matches.

    >>> list_models()[:3]
    ['hdsn', 'hed', 'hed_low']
    >>> list_models("hresnet18*")
    ['hresnet18', 'hresnet18_light', 'hresnet18_wide']
    >>> list_models(pretrained=True)[:2]
    ['hdsn', 'hed_low']
    """
    if not isinstance(filter, str):
        raise InputError(f'filter is a pattern such as "hresnet*", got {filter!r}')
    names = shipped() if flag(pretrained, "pretrained") else sorted(_MODELS)
    return fnmatch.filter(names, filter or "*")


def backbones() -> list[str]:
    """Names of networks with ``features_only``."""
    builds = {name: unwrap(make) for name, make in _MODELS.items()}
    return sorted(name for name, b in builds.items() if hasattr(getattr(b, "func", b), "features"))


def create_model(
    name: str,
    pretrained: bool = False,
    features_only: bool = False,
    out_indices: int | Sequence[int] | None = None,
    **options: Any,
) -> nn.Module:
    """Build a network by its name. What cannot be built is an `hnets.errors.InputError`.

    >>> type(create_model("hnet_mnist", num_classes=5)).__name__
    'HNetMNIST'
    >>> create_model("hnet_fourier_base.pointing", pretrained=True).config.options["centre_of_mass"]
    True

    Args:
        name: one of `list_models`. Where there are several weights of a model, a tag says which:
            ``name.tag``.
        pretrained: use weights that come with the package, and the options they were trained with
            unless others are given.
        features_only: a module that returns a list of feature maps, with a ``feature_info``, as in
            timm; of networks that are backbones, such as ``hresnet18``.
        out_indices: which of these maps, or how many of the last; by default all.
        options: those of the network's function in `hnets.models`, such as ``num_classes``.
    """
    base, _, tag = str(name).partition(".")
    if base not in _MODELS:
        raise InputError(f"no model is called {name!r}{suggest(str(name), _MODELS)}")
    known = signature(_MODELS[base]).parameters
    for option in options:
        if option not in known:
            raise InputError(f"{base} has no option {option!r}{suggest(option, known)}")
    weights = None
    try:
        if not flag(features_only, "features_only") and out_indices is not None:
            raise InputError("out_indices needs features_only=True: it says which maps to return")
        if flag(pretrained, "pretrained") or tag:
            weights = read_shipped(name)
            options = {**weights.config.options, **options}
        model = _MODELS[base](**options)
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from error
    except RuntimeError as error:  # such as too little memory
        raise InputError(f"{base} cannot be built: {str(error).splitlines()[0]}") from error
    if pretrained and weights is not None:
        fill(model, weights, "; options that change shapes need pretrained=False")
    return _features(model, out_indices) if features_only else model


def _features(model: nn.Module, out_indices: int | Sequence[int] | None) -> nn.Module:
    """The part of a backbone that makes feature maps; it knows how it was built."""
    config = model.config
    assert isinstance(config, ModelConfig)
    features = getattr(model, "features", None)
    if features is None:
        raise InputError(
            f"{config.name} has no features_only; these have: {', '.join(backbones())}"
        )
    try:
        part = features(out_indices)
    except ValueError as error:
        raise InputError(str(error)) from None
    more = {"features_only": True, "out_indices": list(part.feature_info.out_indices)}
    part.__dict__["config"] = ModelConfig(config.name, {**config.options, **more})
    return cast(nn.Module, part)


def weights_of(source: str | os.PathLike[str]) -> Weights:
    """Trained weights and what network they are of, from all that `load` takes."""
    path = Path(source)
    # A bare name of no file can only be that of a model, known or not.
    bare = path.name == source and path.suffix != ".safetensors" and not path.exists()
    if source not in shipped() and not bare:
        return read(find(source))
    if path.name.partition(".")[0] not in _MODELS:
        raise InputError(
            f"no model is called {path.name!r}, nor is there such a file"
            f"{suggest(path.name, shipped())}"
        )
    return read_shipped(path.name)


def load(source: str | os.PathLike[str]) -> nn.Module:
    """A trained network, ready for inference: by its name, from a file, or from a run's folder.

    >>> load("hnet_mnist").config.options
    {'in_chans': 1, 'num_classes': 10, 'rings': 'exact', 'mirror': False}

    Args:
        source: weights that come with the package (``list_models(pretrained=True)``); a file that
            `save` wrote; or a folder that `hnets train` wrote, such as ``runs/mine/seed-1``, or
            ``runs/mine`` if it has one seed.
    """
    weights = weights_of(source)
    try:
        model = create_model(weights.config.name, **weights.config.options)
    except InputError as error:
        raise InputError(f"{weights.path} holds no network of this hnets: {error}") from None
    fill(model, weights)
    remember_training(model, weights.config.trained)
    return model.eval()
