"""Which form of an operation a tensor takes: the one place that chooses.

Each operation is a folder with a ``reference`` in plain torch, which serves everywhere, and with
faster forms of the same functions for eager mode: ``cpu``, and ``triton`` for CUDA.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from hnets.functional import _batch_norm

_TRITON = find_spec("triton") is not None

tracing = torch.compiler.is_compiling
"""Whether operations are recorded for a compiled or exported graph."""


def transformed() -> bool:
    """Whether a graph, a function transform or forward-mode AD asks for plain operations."""
    return (
        tracing()
        or torch._C._are_functorch_transforms_active()
        or forward_ad._current_level >= 0  # tangents, which no autograd function here has
    )


def needs_reference(x: Tensor) -> bool:
    """Whether a map has no other form here than the reference."""
    if transformed() or x.numel() == 0 or x.dim() != 4:
        return True
    return x.device.type != "cpu" and not has_triton(x)


def has_triton(x: Tensor) -> bool:
    """Whether a tensor is on CUDA and Triton is installed."""
    return x.is_cuda and _TRITON


def backend(operation: str, x: Tensor) -> Any:
    """The module of an operation for the device of a tensor."""
    return _module(operation, x.device.type)


def batch_norm_backend(x: Tensor, group: torch.distributed.ProcessGroup | None) -> Any:
    """The module with ``fold`` and ``unfold``; in Triton only for the sums of one process."""
    if x.device.type == "cpu" or group is not None:
        return _batch_norm
    from hnets.functional import _launch

    return _launch


@cache
def _module(operation: str, device: str) -> Any:
    # Triton comes with torch for CUDA only, so its modules are imported when they are needed.
    return import_module(f"hnets.functional.{operation}.{'cpu' if device == 'cpu' else 'triton'}")
