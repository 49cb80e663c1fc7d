"""What a traced call does to its tensor: functions and methods as the modules that do the same."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

ACTS = (nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish)
DROPOUTS = (nn.Dropout, nn.Dropout2d)
GLOBAL = (nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d)
_FN = nn.functional
CALLS: dict[Any, type[nn.Module]] = {
    torch.relu: nn.ReLU, torch.relu_: nn.ReLU, _FN.relu: nn.ReLU, "relu": nn.ReLU,
    "relu_": nn.ReLU, _FN.relu6: nn.ReLU6, _FN.leaky_relu: nn.LeakyReLU, _FN.elu: nn.ELU,
    _FN.gelu: nn.GELU, _FN.silu: nn.SiLU, _FN.mish: nn.Mish, _FN.hardswish: nn.Hardswish,
    _FN.dropout: nn.Dropout, _FN.dropout2d: nn.Dropout2d, _FN.max_pool2d: nn.MaxPool2d,
    _FN.avg_pool2d: nn.AvgPool2d, _FN.adaptive_avg_pool2d: nn.AdaptiveAvgPool2d,
    _FN.adaptive_max_pool2d: nn.AdaptiveMaxPool2d, _FN.interpolate: nn.Upsample,
}  # fmt: skip
"""Functions, and names of methods, with the modules that do the same."""
ADD = (operator.add, operator.iadd, torch.add, "add", "add_")
CAT = (torch.cat, torch.concat, torch.concatenate)
MEAN = (torch.mean, "mean")
FLATTEN = (torch.flatten, "flatten", torch.reshape, "reshape", "view")


def as_module(node: fx.Node, module: nn.Module | None) -> nn.Module | None:
    """The module that is called, or one that does what a function does; else None.

    A `ValueError` says how to write a call that could do the same and does not.
    """
    if node.target in MEAN:
        dims = argument(node, 1, "dim", ())
        if not isinstance(dims, list | tuple) or sorted(d % 4 for d in dims) != [2, 3]:
            raise ValueError("average over both sides at once: x.mean((2, 3))")
        return nn.AdaptiveAvgPool2d(1)
    if node.target in FLATTEN or isinstance(module, nn.Flatten):
        if not _flattens(node, module):
            raise ValueError("flatten all but the batch: x.flatten(1)")
        return nn.Flatten()
    if node.target not in CALLS:
        return module
    kind, ignored = CALLS[node.target], ("inplace", "training", "input")
    options = {key: value for key, value in node.kwargs.items() if key not in ignored}
    if not options.get("antialias"):  # of `interpolate`, which a module has not
        options.pop("antialias", None)
    arguments = node.args[1:] if "pool" in called(node) else node.args[1:2]
    try:
        return kind(*arguments, **options)
    except (TypeError, ValueError):
        raise ValueError(f"use the module nn.{kind.__name__}") from None


def argument(node: fx.Node, place: int, name: str, default: Any) -> Any:
    """An argument, by its place or its name."""
    return node.args[place] if len(node.args) > place else node.kwargs.get(name, default)


def tensors(node: fx.Node) -> list[fx.Node]:
    """What a replaced call acts on: one tensor, or those that it concatenates, in their order."""
    if node.target in CAT:
        return list(argument(node, 0, "tensors", ()))
    return node.all_input_nodes[:1]


def _flattens(node: fx.Node, module: nn.Module | None) -> bool:
    """Whether a call keeps the batch and makes one dimension of all others."""
    if isinstance(module, nn.Flatten):
        return (module.start_dim, module.end_dim) == (1, -1)
    if node.target in (torch.flatten, "flatten"):
        return (argument(node, 1, "start_dim", 0), argument(node, 2, "end_dim", -1)) == (1, -1)
    shape = node.args[1:]
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    return len(shape) == 2 and isinstance(shape[1], int) and shape[1] == -1


def times(upsample: nn.Upsample) -> int:
    """The whole number by which it enlarges both sides; 0 if there is none."""
    scale = upsample.scale_factor
    if upsample.mode in ("nearest", "bilinear", "bicubic") and isinstance(scale, int | float):
        return int(scale) if scale == int(scale) else 0
    return 0


def place(node: fx.Node) -> str:
    """The name of the module that is called, or of the call in its module."""
    if node.op == "call_module":
        return str(node.target)
    paths = [str(path) for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return ".".join(filter(None, (*paths[-1:], node.name)))


def called(node: fx.Node) -> str:
    """The name of the function or method."""
    return str(getattr(node.target, "__name__", node.target))


def title(module: nn.Module | None) -> str:
    """A plain layer in a few words."""
    if module is None:
        return ""
    kind = type(module).__name__
    if isinstance(module, nn.Linear):
        return f"{kind} {module.in_features} → {module.out_features}"
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        size, stride = "×".join(map(str, module.kernel_size)), module.stride[0]
        step = f", stride {stride}" if stride != 1 else ""
        return f"{kind} {module.in_channels} → {module.out_channels}, {size}{step}"
    return kind
