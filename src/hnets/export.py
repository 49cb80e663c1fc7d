"""Networks for inference: plain convolutions, `torch.export` programs, ONNX files."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.fx.experimental import _config as tracing

from hnets.errors import InputError, MissingExtra
from hnets.files import replacing
from hnets.nn import HBatchNorm2d, HConv2d, ModReLU
from hnets.nn.conv import FrozenHConv2d
from hnets.nn.norm import FrozenHBatchNorm2d

_FREE = {0: "batch", 2: "height", 3: "width"}
"""Dimensions of the input that an exported network leaves open."""
_SMALL = (28, 28)
"""A size that every network of ours takes, and so should every file."""
_MORE = 65
"""Pixels added to a side to try another size: of other parity, and not small."""


def freeze(module: nn.Module) -> nn.Module:
    """A copy for inference: plain convolution kernels, folded norms, the same outputs.

    Its state dict is the original's, key by key; loading another assembles the kernels anew.

    >>> from hnets import models
    >>> fast = freeze(models.hnet_mnist())
    >>> fast(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    frozen = _frozen(copy.deepcopy(module).eval().requires_grad_(False), {})
    _save_memory(frozen)
    return frozen


def _save_memory(module: nn.Module) -> None:
    """Let a nonlinearity write over the output of the convolution that it alone reads."""
    places = Counter(part for _, part in module.named_modules(remove_duplicate=False))
    chains = [part for part in module.modules() if type(part) is nn.Sequential]
    for before, after in chain.from_iterable(map(pairwise, chains)):
        if isinstance(before, FrozenHConv2d) and isinstance(after, ModReLU | FrozenHBatchNorm2d):
            fits = before.out_streams.channels == after.in_streams.channels
            after.inplace = fits and places[after] == 1


def _frozen(module: nn.Module, done: dict[nn.Module, nn.Module]) -> nn.Module:
    """The module with its parts replaced, where a part that occurs twice stays one."""
    if module not in done:
        # A subclass that computes something else is left as it is.
        if isinstance(module, HConv2d) and type(module).forward is HConv2d.forward:
            done[module] = FrozenHConv2d(module)
        elif isinstance(module, HBatchNorm2d) and type(module).forward is HBatchNorm2d.forward:
            done[module] = FrozenHBatchNorm2d(module)
        else:
            done[module] = module
            for name, child in module._modules.items():
                if child is not None:
                    setattr(module, name, _frozen(child, done))
    return done[module]


def program(
    module: nn.Module, shape: tuple[int, ...], one_pixel: bool = False
) -> torch.export.ExportedProgram:
    """The frozen network as a `torch.export` program, free in batch, height and width.

    Programs take no map of one pixel, and so no image that the network would shrink to one; ONNX
    files do.

    Args:
        module: the network.
        shape: one valid example of ``(batch, channels, height, width)``.
        one_pixel: take maps of one pixel too, such as `hnets.models.z2cnn` makes of 28×28. If the
            network multiplies matrices, as `hnets.models.HDSN` and `hnets.models.HNetFourier` do,
            the program then takes no batch of one.
    """
    if len(shape) != 4 or min(shape) < 1:
        raise ValueError(f"shape is (batch, channels, height, width), got {shape}")
    frozen = freeze(module)
    tensors = chain(frozen.parameters(), frozen.buffers())
    like = next((t for t in tensors if t.is_floating_point()), torch.empty(0))
    # A batch of one would be taken for a constant.
    example = torch.zeros(max(2, shape[0]), *shape[1:], dtype=like.dtype, device=like.device)
    free = dict.fromkeys(_FREE, torch.export.Dim.AUTO)
    # Torch would tell a size of 1 from all others for the order in memory, which no output needs.
    with tracing.patch(backed_size_oblivious=one_pixel):  # type: ignore[attr-defined]  # set later
        return torch.export.export(frozen, (example,), dynamic_shapes=(free,))


def pt2(
    module: nn.Module,
    path: str | os.PathLike[str],
    shape: tuple[int, ...],
    one_pixel: bool = False,
) -> Path:
    """Write `program`, of the same arguments, to a file that `torch.export.load` reads.

    The file appears under its name only when it is complete.
    """
    path = Path(path)
    with replacing(path) as part, _quiet():
        traced = program(module, shape, one_pixel)
        for node in traced.graph.nodes:
            node.meta.pop("stack_trace", None)  # it quotes the paths of this machine
        torch.export.save(traced, part)
    return path


def onnx(module: nn.Module, path: str | os.PathLike[str], shape: tuple[int, ...]) -> Path:
    """Write an ONNX file, free in batch, height and width; ``shape`` is one valid example.

    The network is frozen first. Its input is called ``input``, its output ``output`` (or
    ``output0``, ``output1``, ...). The file appears under its name only when it is complete.
    """
    try:
        import onnxscript  # noqa: F401 - what torch.onnx needs, asked for before any work
        from onnx_ir.passes.common import ClearMetadataAndDocStringPass
    except ImportError:
        raise MissingExtra("ONNX files", "onnx and onnxscript", "export") from None
    path = Path(path)
    with replacing(path) as part, _quiet():
        traced = program(module, shape)
        outputs = len(traced.graph_signature.user_outputs)
        exported = torch.onnx.export(
            traced,
            input_names=["input"],
            output_names=["output"] if outputs == 1 else [f"output{i}" for i in range(outputs)],
            dynamic_shapes=(_FREE,),
            dynamo=True,
            verbose=False,
        )
        assert exported is not None
        # Every node quotes the stack that made it, with the paths of this machine.
        ClearMetadataAndDocStringPass()(exported.model)
        exported.save(part)
    return path


class SizeError(InputError):
    """An exported file refuses images of a size that the network takes."""


def compare(module: nn.Module, path: str | os.PathLike[str], shape: tuple[int, ...]) -> float:
    """The largest difference between a file's outputs and the network's, over its largest output.

    Measured on random images of the shape that the file was made with and of three other sizes. An
    ONNX file is run by onnxruntime.
    """
    run, differences = _runner(Path(path)), list[float]()
    _, channels, height, width = shape
    others = ((2, height + _MORE, width), (1, height, width + _MORE), (1, *_SMALL))
    for batch, *size in ((1, height, width), *others):
        x = torch.rand(batch, channels, *size)
        try:
            with torch.inference_mode():
                expected, actual = module(x), run(x)
        except Exception as error:
            raise SizeError(
                f"made with an input of {height}x{width}, the file takes none of "
                f"{x.shape[2]}x{x.shape[3]}; make it with a larger size"
            ) from error
        scale = expected.abs().max().clamp_min(1e-6)
        differences.append(float((actual - expected).abs().max() / scale))
    return float(torch.tensor(differences).max())  # NaN if one is


def _runner(path: Path) -> Callable[[Tensor], Tensor]:
    """The network in a file, as a function of images."""
    if path.suffix.lower() == ".pt2":
        return torch.export.load(path).module()
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("comparisons", "onnxruntime", "export") from None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"input": x.numpy()})[0])


@contextmanager
def _quiet() -> Iterator[None]:
    """Hide what exporters log for their own developers; errors still come through."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            warnings.simplefilter("ignore", DeprecationWarning)
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
