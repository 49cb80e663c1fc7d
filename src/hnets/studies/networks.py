"""The network and the image that a user names, and the image as the network takes it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from hnets.data.image_file import read_image
from hnets.errors import InputError, MissingExtra
from hnets.models import HNetMNIST, create_model, list_models, load
from hnets.nn import HConv2d
from hnets.predict.ink import find_ink

_STEP = 16
"""Sides of an image are cut to multiples of it, which four halvings take without a margin."""


@dataclass(frozen=True, eq=False)
class Network:
    """A network and what it is called."""

    name: str
    module: nn.Module
    trained: bool
    """Whether its weights are trained ones; those of a user's module are taken to be."""

    @property
    def title(self) -> str:
        """The name, and a warning if the weights are random."""
        return self.name if self.trained else f"{self.name}, untrained"


def find_network(name: Network | nn.Module | str) -> Network:
    """One of ours by its name or from a file or a run's folder, or a user's module.

    By name it has trained weights where some ship. A user's module is itself, or
    ``package.module:attribute`` or ``file.py:attribute``, where the attribute is a module, or a
    class or function that makes one without arguments.

    >>> find_network("hnet_mnist").title, find_network("p4cnn").title
    ('hnet_mnist', 'p4cnn, untrained')
    """
    if isinstance(name, Network):
        return name
    if isinstance(name, nn.Module):
        return Network(type(name).__name__, name, trained=True)
    if ":" in name and not os.path.exists(name):  # a folder may have a colon in its name
        return Network(name, _users_module(name), trained=True)
    if name not in list_models() or name in list_models(pretrained=True):
        return Network(name, load(name), trained=True)
    with torch.random.fork_rng(devices=[]):  # the same random weights each time
        torch.manual_seed(0)
        return Network(name, create_model(name).eval(), trained=False)


def find_image(path: Path | None, sample: str = "astronaut") -> Image.Image:
    """An image of the user's, or without a path one that comes with scikit-image."""
    if path is not None:
        return read_image(path)
    try:
        from skimage import data
    except ImportError:
        raise MissingExtra("sample images, if you give none,", "scikit-image", "plot") from None
    return Image.fromarray(getattr(data, sample)())


def model_input(module: nn.Module, image: Image.Image, size: int, name: str) -> Tensor:
    """An image as ``(1, channels, height, width)``: a digit as digit networks learned them.

    Others take it in grey or in colour, from 0 to 1, with ``size`` pixels along the longer side at
    most. ``name`` is what an error calls the image.
    """
    if isinstance(module, HNetMNIST) and module.in_chans == 1:
        return torch.from_numpy(find_ink(image, name).digit())[None, None]
    first = next((part for part in module.modules() if isinstance(part, HConv2d)), None)
    channels = getattr(module, "in_chans", 3 if first is None else first.in_streams.channels)
    if channels not in (1, 3):
        raise InputError(
            f"expected a network of images with 1 or 3 channels, got {type(module).__name__} "
            f"with {channels}"
        )
    image = image.convert("L" if channels == 1 else "RGB")
    image.thumbnail((size, size), Image.Resampling.LANCZOS)
    pixels = np.asarray(image, dtype=np.float32).reshape(image.height, image.width, -1)
    height, width = (max(_STEP, side // _STEP * _STEP) for side in pixels.shape[:2])
    top, left = (max(0, (a - b) // 2) for a, b in zip(pixels.shape, (height, width), strict=False))
    x = torch.from_numpy(pixels / 255)[top : top + height, left : left + width]
    return x.permute(2, 0, 1)[None].contiguous()


def _users_module(name: str) -> nn.Module:
    where, _, attribute = name.rpartition(":")
    if not where or not attribute.isidentifier():
        raise InputError(f"expected package.module:attribute or file.py:attribute, got {name!r}")
    python_module = _import(where, name)
    if not hasattr(python_module, attribute):
        raise InputError(f"there is no {attribute} in {where}; name a module that it defines")
    module: Any = getattr(python_module, attribute)
    if not isinstance(module, nn.Module) and callable(module):
        try:
            module = module()
        except Exception as error:  # whatever the user's code raises
            raise InputError(f"{name} could not be called without arguments ({error})") from error
    if not isinstance(module, nn.Module):
        raise InputError(
            f"expected {name} to be a torch.nn.Module or to make one, got a {type(module).__name__}"
        )
    return module.eval()


def _import(where: str, name: str) -> ModuleType:
    if where.endswith(".py") and not Path(where).is_file():
        raise InputError(f"there is no file {where}; give the path of a Python file")
    sys.path.insert(0, "")  # as python -m would: modules in the current folder
    try:
        if not where.endswith(".py"):
            return importlib.import_module(where)
        spec = importlib.util.spec_from_file_location(Path(where).stem, where)
        if spec is None or spec.loader is None:
            raise ImportError("it is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)  # where dataclasses and pickle look for it
        spec.loader.exec_module(module)
        return module
    except Exception as error:  # whatever the user's code raises
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{name} could not be imported ({reason})") from error
    finally:
        sys.path.remove("")
