"""Networks for inference: plain convolutions, `torch.export` programs, ONNX files."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor, nn
from torch.fx.experimental import _config as fx_config
from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

from hnets.errors import InputError, MissingExtra
from hnets.files import replacing
from hnets.nn import FourierAct, HBatchNorm2d, HConv2d, ModReLU
from hnets.nn.conv import FrozenHConv2d
from hnets.nn.norm import FrozenHBatchNorm2d

L = TypeVar("L", bound=nn.Module)
_DYNAMIC = {0: "batch", 2: "height", 3: "width"}
"""Dimensions of the input that are dynamic in an exported network."""
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
    return _frozen(copy.deepcopy(module).eval().requires_grad_(False), {})


def _frozen(module: nn.Module, done: dict[nn.Module, nn.Module]) -> nn.Module:
    """The module with its parts replaced, where a part that occurs twice stays one."""
    if module not in done:
        # A subclass that computes something else is left as it is, and so is a layer with hooks.
        hooked = module._forward_hooks or module._forward_pre_hooks
        if _is(module, HConv2d) and not hooked:
            done[module] = FrozenHConv2d(module)
        elif _is(module, HBatchNorm2d) and not hooked:
            done[module] = FrozenHBatchNorm2d(module)
        else:
            done[module] = module
            for name, child in module._modules.items():
                if child is not None:
                    setattr(module, name, _frozen(child, done))
            if type(module) is nn.Sequential and any(isinstance(c, FrozenHConv2d) for c in module):
                module.__class__ = FrozenSequential
    return done[module]


def _is(module: nn.Module, kind: type[L]) -> TypeGuard[L]:
    return isinstance(module, kind) and type(module).forward is kind.forward


class FrozenSequential(nn.Sequential):
    """A Sequential whose nonlinearities write over the output of the convolution before them."""

    def forward(self, x: Tensor) -> Tensor:
        """What the last part makes of ``x``."""
        before = None
        for part in self:
            x = part(x, inplace=True) if _overwrites(part, before) else part(x)
            before = part
        return x


def _overwrites(part: nn.Module, before: nn.Module | None) -> bool:
    """Whether a part may write over the output of the one before, which nothing else reads."""
    kinds = (FourierAct, ModReLU, FrozenHBatchNorm2d)
    return (
        isinstance(before, FrozenHConv2d)
        and type(part) in kinds
        and part.in_streams == before.out_streams
        # A hook may keep what it is given.
        and not (before._forward_hooks or part._forward_pre_hooks or part._forward_hooks)
        and not (_global_forward_pre_hooks or _global_forward_hooks)
    )


def program(
    module: nn.Module, shape: tuple[int, ...], one_pixel: bool = False
) -> torch.export.ExportedProgram:
    """The frozen network as a `torch.export` program with dynamic batch, height and width.

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
    # A batch of one would be taken for a constant.
    example = torch.zeros(max(2, shape[0]), *shape[1:], **_kind(frozen))
    dynamic = dict.fromkeys(_DYNAMIC, torch.export.Dim.AUTO)
    # Torch would specialise on sizes of 1, whose memory format is ambiguous and does not matter.
    # `patch` is added to the module when it is imported, where mypy does not see it.
    with fx_config.patch(backed_size_oblivious=one_pixel):  # type: ignore[attr-defined]
        return torch.export.export(frozen, (example,), dynamic_shapes=(dynamic,))


def _kind(module: nn.Module) -> dict[str, Any]:
    """Type and device of the images that a network takes."""
    tensors = chain(module.parameters(), module.buffers())
    like = next((t for t in tensors if t.is_floating_point()), torch.empty(0))
    return {"dtype": like.dtype, "device": like.device}


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
    """Write an ONNX file with dynamic batch, height and width; ``shape`` is one valid example.

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
            dynamic_shapes=(_DYNAMIC,),
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


def compare(
    module: nn.Module, path: str | os.PathLike[str], shape: tuple[int, ...], small: bool = True
) -> float:
    """The largest difference between a file's outputs and the network's, over its largest output.

    Measured on random images of the shape that the file was made with and of three other sizes, if
    the network takes them. An ONNX file is run by onnxruntime. As the file was, the network is in
    evaluation mode; ``module`` itself is left as it is.

    Args:
        module: the network.
        path: the file.
        shape: that it was made with.
        small: whether one of the sizes is 28×28, which a network may shrink to one pixel.
    """
    run, differences = _runner(Path(path)), list[float]()
    network = copy.deepcopy(module).eval()
    _, channels, height, width = shape
    others = [(2, height + _MORE, width), (1, height, width + _MORE)]
    for batch, *size in ((1, height, width), *others, *([(1, *_SMALL)] if small else [])):
        x = torch.rand(batch, channels, *size, **_kind(network))
        with torch.inference_mode():
            try:
                expected = network(x)
            except (RuntimeError, ValueError):
                if size == [height, width]:
                    raise
                continue
            refusal = SizeError(
                f"made with an input of {height}x{width}, the file takes none of "
                f"{x.shape[2]}x{x.shape[3]}; make it with a larger size, such as 96x96"
            )
            try:
                actual = run(x)
            except Exception as error:
                raise refusal from error
        for a, b in zip(_tensors(actual), _tensors(expected), strict=True):
            if a.shape != b.shape:  # made where maps have one pixel, it may pool over none
                raise refusal
            differences.append(float((a.to(b) - b).abs().max() / b.abs().max().clamp_min(1e-6)))
    return float(torch.tensor(differences).max())  # NaN if one is


def smallest_side(path: str | os.PathLike[str], channels: int, side: int) -> int:
    """The side from which on a file takes square images of all sizes, up to ``side``."""
    run = _runner(Path(path))

    def takes(length: int) -> bool:
        try:
            with torch.inference_mode():
                run(torch.zeros(1, channels, length, length))
        except Exception:  # of guards and of operators
            return False
        return True

    # Odd sides may be taken where even ones are not.
    both = bisect_left(range(1, side), True, key=lambda length: takes(length) and takes(length + 1))
    return 1 + both


def _tensors(output: Tensor | Sequence[Tensor]) -> Sequence[Tensor]:
    return [output] if isinstance(output, Tensor) else output


def _runner(path: Path) -> Callable[[Tensor], Tensor | Sequence[Tensor]]:
    """The network in a file, as a function of images."""
    if path.suffix.lower() == ".pt2":
        return torch.export.load(path).module()
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtra("comparisons", "onnxruntime", "export") from None
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda x: [
        torch.from_numpy(y) for y in session.run(None, {"input": x.numpy(force=True)})
    ]


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
