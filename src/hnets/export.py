"""Networks for inference: plain convolutions, `torch.export` programs, ONNX files."""

from __future__ import annotations

import copy
import os
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.export import Dim, ExportedProgram

from hnets.nn import HBatchNorm2d, HConv2d
from hnets.nn.conv import FrozenHConv2d
from hnets.nn.norm import FrozenHBatchNorm2d

__all__ = ["freeze", "onnx", "program"]


def freeze(module: nn.Module) -> nn.Module:
    """A copy for inference: plain convolution kernels, folded norms, the same outputs.

    Its state dict is the original's, key by key; loading another assembles the kernels anew.

    >>> from hnets import models
    >>> fast = freeze(models.hnet_mnist())
    >>> fast(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    return _frozen(copy.deepcopy(module).eval().requires_grad_(False))


def _frozen(module: nn.Module) -> nn.Module:
    if isinstance(module, HConv2d):
        return FrozenHConv2d(module).eval()
    if isinstance(module, HBatchNorm2d):
        return FrozenHBatchNorm2d(module).eval()
    for name, child in module.named_children():
        setattr(module, name, _frozen(child))
    return module


def program(module: nn.Module, shape: tuple[int, int, int, int]) -> ExportedProgram:
    """Trace with `torch.export`, free in batch, height and width; ``shape`` is an example."""
    example = _example(module, shape)
    return torch.export.export(
        module.eval(), (example,), dynamic_shapes=({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},)
    )


def onnx(module: nn.Module, path: str | os.PathLike[str], shape: tuple[int, int, int, int]) -> Path:
    """Write an ONNX file, free in batch, height and width; ``shape`` is one valid example.

    The file appears under its name only when it is complete.
    """
    try:
        import onnxscript  # noqa: F401 - what torch.onnx needs, asked for before any work
    except ImportError:
        raise ImportError('ONNX export needs more packages: pip install "hnets[export]"') from None
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist; make it first")
    exported = torch.onnx.export(program(freeze(module), shape), dynamo=True, verbose=False)
    assert exported is not None
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        part = Path(folder) / path.name
        exported.save(part)
        part.replace(path)
    return path


def _example(module: nn.Module, shape: tuple[int, int, int, int]) -> torch.Tensor:
    if len(shape) != 4:
        raise ValueError(f"shape is (batch, channels, height, width), got {shape}")
    values = next(iter([*module.parameters(), *module.buffers()]), torch.empty(0))
    # A batch of one would be taken for a constant.
    batch = max(2, shape[0])
    return torch.zeros(batch, *shape[1:], dtype=values.dtype, device=values.device)
