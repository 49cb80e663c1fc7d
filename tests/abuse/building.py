"""What a child does with random layer arguments: build, rotate, and say in a line what came of it.

The promise is "a clear error of ours, or an exactly equivariant layer": an error is ours if it is a
`ValueError` or `TypeError` of one line that a ``raise`` of the package gives, and a layer is exact
if in float64 an input rotated by 90 degrees gives the rotated output to 1e-9, and a flipped one the
flipped output where the layer says that it commutes with reflections.
"""

from __future__ import annotations

import ast
import functools
import json
import math
import random
import signal
import sys
import traceback
from collections.abc import Callable
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn

import hnets
from hnets import Streams
from hnets import nn as hnn

LIMIT = 20
"""Seconds after which a layer counts as one that hangs."""
EXACT = 1e-9
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 1.5, "3", "same", "", (2, 1), (1, 2, 3), (-1, 2), 10**20, 2**63, -1e-9,
    1e300, math.nan, math.inf, -math.inf,
)  # fmt: skip
ODD_DTYPES = (torch.complex64, torch.int8, torch.bool, torch.bfloat16, torch.float8_e4m3fn)
ODD_STREAMS: tuple[Any, ...] = (
    "", "8y0", "1x0r + ", "0x1", "-1x0", "1x1r", "1x100000000000000000000", "1x0", "2x-1", "1x99",
    "1x0r + 1x0r", "3x0r+2x2", 7, None, (), "9" * 30 + "x0", "٣x0", "1x0 " * 9,
)  # fmt: skip
ACTS: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.tanh, torch.relu, torch.sigmoid, torch.nn.functional.gelu, torch.square,
)  # fmt: skip


def build_all(seed: str, first: int, last: int) -> None:
    """Print a line of JSON per case: what was built, and how it ended."""
    for number in range(first, last):
        signal.alarm(LIMIT)
        rng = random.Random(f"{seed}/{number}")
        torch.manual_seed(rng.randrange(2**31))
        name, arguments = _draw(rng)
        result: dict[str, object] = {"number": number, "layer": f"{name}({_shown(arguments)})"}
        try:
            result |= _attempt(name, arguments, rng)
        except Exception as error:
            ours = isinstance(error, ValueError | TypeError) and "\n" not in str(error)
            if ours and _raised_by_us(error.__traceback__):
                result["refused"] = str(error)
            else:
                result["wrong"] = traceback.format_exc()[-1500:]
        signal.alarm(0)
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()


def _shown(arguments: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value!r}"[:120] for key, value in arguments.items())


def _streams(rng: random.Random, groups: int = 1) -> str:
    """A layout that exists, most often in multiplicities that a number of groups divides."""
    parts = []
    for _ in range(rng.randint(1, 3)):
        order = rng.choice((-2, -1, 0, 0, 1, 1, 2, 3))
        real = "r" if order == 0 and rng.random() < 0.5 else ""
        share = groups if rng.random() < 0.9 else 1
        parts.append(f"{share * rng.randint(1, 3)}x{order}{real}")
    return " + ".join(parts)


def _circle(rng: random.Random, order: int | None = None) -> str:
    width = rng.randint(1, 3)
    order = rng.randint(0, 3) if order is None else order
    return " + ".join([f"{width}x0r", *(f"{width}x{k}" for k in range(1, order + 1))])


def _draw(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """The name of a layer, and its arguments: most of them right, up to two of them odd."""
    eps = {"eps": rng.choice((1e-5, 1e-3, 0.1)), "momentum": rng.choice((0.0, 0.1, 1.0))}
    near = {"magnitude_eps": rng.choice((1e-12, 1e-4, 1.0))}
    groups = rng.choice((1, 1, 1, 2, 3))
    order = rng.randint(0, 2)
    block = {
        "in_streams": _circle(rng, order),
        "out_streams": _circle(rng, order),
        "kernel_size": rng.choice((1, 3, 5)),
        "stride": rng.choice((1, 1, 2, 3)),
        "mirror": rng.random() < 0.5,
        "squeeze": rng.random() < 0.5,
    }
    mirror = rng.random() < 0.3
    drawn: dict[str, dict[str, Any]] = {
        "HConv2d": {
            "in_streams": _streams(rng, groups),
            "out_streams": _streams(rng, groups),
            "kernel_size": rng.randint(1, 6),
            "stride": rng.choice((1, 1, 2, 3)),
            "padding": rng.choice((0, 1, 2, "same", (1, 1), (2, 1))),
            "dilation": rng.choice((1, 1, 2)),
            "padding_mode": rng.choice(("zeros", "reflect")),
            "rings": rng.choice(("exact", "gaussian")),
            "sigma": rng.choice((0.3, 0.6, 2.0)),
            "mirror": mirror,
            "phase": None if mirror else rng.choice(("filter", "ring", "none", "free")),
            "share": rng.choice((None, True, False)),
            "conjugate": rng.choice((None, None, True, False)),
            "combine": rng.choice(("sum",) if groups > 1 else ("sum", "stack", "max")),
            "groups": groups,
        },
        "HBatchNorm2d": {"streams": _streams(rng), **eps, **near},
        "AngularNorm2d": {"streams": _circle(rng), **eps},
        "ModReLU": {"streams": _streams(rng), **near},
        "ModAct": {"streams": _streams(rng), "act": rng.choice(ACTS), **near},
        "ResidualBlock": block,
        "LightBlock": block,
        "SqueezeExcite": {"streams": _streams(rng), "reduction": rng.randint(1, 4)},
        "Gated": {"streams": _streams(rng)},
        "HDropout2d": {"streams": _streams(rng), "p": rng.choice((0, 0.0, 0.5, 0.99))},
        "FourierAct": {
            "streams": _circle(rng),
            "act": rng.choice(ACTS),
            "samples": rng.choice((None, 8, 12, 16)),
            "norm": rng.random() < 0.5,
        },
        "PolyAct": {"streams": _circle(rng), "norm": rng.random() < 0.5},
        "Magnitude": {"streams": _streams(rng), "combine": rng.choice(("stack", "sum"))},
        "HAvgPool2d": {"kernel_size": rng.randint(1, 4)},
        "HBlurPool2d": {
            "stride": rng.randint(1, 4),
            "sigma": rng.choice((None, 0.3, 1.0, 2)),
        },
        "HUpsample2d": {"scale": rng.randint(1, 4)},
        "GlobalMean": {},
    }
    name = rng.choice(("HConv2d",) * 8 + tuple(drawn))
    arguments = drawn[name]
    kinds = ("HConv2d", "HBatchNorm2d", "AngularNorm2d", "ModReLU", "FourierAct", "PolyAct")
    if name in kinds and rng.random() < 0.3:
        arguments["dtype"] = rng.choice((torch.float32, torch.float64, torch.float16))
    for _ in range(rng.choice((0, 0, 0, 1, 1, 2)) if arguments else 0):
        key = rng.choice(sorted(arguments))
        odd = {"act": (None,), "dtype": ODD_DTYPES}.get(key, ODD)
        arguments[key] = rng.choice(ODD_STREAMS if "streams" in key else odd)
    return name, arguments


def _attempt(name: str, arguments: dict[str, Any], rng: random.Random) -> dict[str, object]:
    """Build a layer and rotate its input; an odd argument may be refused at either step."""
    layer = getattr(hnn, name)(**arguments)
    given = Streams(getattr(layer, "in_streams", "2x0r + 1x1"))
    made = Streams(getattr(layer, "out_streams", given))
    if given.channels > 200 or made.channels > 200:
        return {"built": "too wide to be rotated here"}
    layer.double().train(name in ("HBatchNorm2d", "AngularNorm2d") and rng.random() < 0.5)
    _perturb(layer)
    x = torch.randn(2, given.channels, *_sizes(layer, rng), dtype=torch.float64)
    turns = (2,) if not _square(layer) else (1, 2, 3)
    with torch.no_grad():
        expected = layer(x)
        if not expected.isfinite().all():
            return {"wrong": "the output is not finite"}
        worst = 0.0
        for flipped, turn in product((False, True) if _mirrors(layer) else (False,), (0, *turns)):
            output = layer(_moved(x, given, turn, flipped))
            error = (output - _moved(expected, made, turn, flipped)).abs().max()
            worst = max(worst, float(error / expected.abs().max().clamp(min=1e-30)))
    if not worst <= EXACT:
        return {"wrong": f"off by {worst:.1e} where it should be exact"}
    frozen = _disagreement(layer, x)
    return {"wrong": frozen} if frozen else {"built": "exactly equivariant"}


def _disagreement(layer: nn.Module, x: Tensor) -> str | None:
    """What is wrong with the frozen form of a layer, if anything."""
    with torch.no_grad():
        expected = layer.eval()(x)
        output = hnets.freeze(layer)(x)
    error = float((output - expected).abs().max())
    if not error <= EXACT * max(1.0, float(expected.abs().max())):
        return f"frozen, it is off by {error:.1e}"
    return None


def _perturb(layer: nn.Module) -> None:
    """Give biases and statistics values that a new layer does not have."""
    for key, value in layer.named_parameters():
        if "filters" not in key:
            value.data += 0.3 * torch.randn_like(value)
    for key, value in layer.named_buffers():
        if key.endswith("running_mean"):
            value += 0.2 * torch.randn_like(value)
        elif key.endswith("running_var"):
            value *= 0.5 + torch.rand_like(value)


def _moved(x: Tensor, streams: Streams, quarters: int, flipped: bool) -> Tensor:
    """Feature maps flipped and rotated by quarter turns, their streams too; vectors lie nowhere."""
    if flipped:
        x = streams.reflect(x.flip(2) if x.dim() == 4 else x)
    turned = torch.rot90(x, quarters, (2, 3)) if x.dim() == 4 else x
    return streams.rotate(turned, quarters * math.pi / 2)


def _mirrors(layer: nn.Module) -> bool:
    """Whether a layer commutes with reflections: all do, but for convolutions with phases."""
    return getattr(layer, "mirror", True)


def _pair(value: Any) -> tuple[int, int]:
    return tuple(value) if isinstance(value, tuple | list) else (value, value)


def _square(layer: nn.Module) -> bool:
    """Whether a layer treats height and width alike, so that a quarter turn is one for it too."""
    if getattr(layer, "samples", 4) % 4 and type(layer).__name__ == "FourierAct":
        return False  # it promises rotations by 360 / samples degrees
    pairs = [_pair(getattr(layer, key, 1)) for key in ("stride", "padding", "dilation")]
    return all(high == wide for high, wide in pairs)


def _sizes(layer: nn.Module, rng: random.Random) -> list[int]:
    """Height and width for which a stride keeps the centres of equivariance where they are."""
    size = rng.randint(9, 14)
    strides, paddings, dilations, kernels = (
        _pair(getattr(layer, key, default))
        for key, default in (("stride", 1), ("padding", 0), ("dilation", 1), ("kernel_size", 1))
    )
    if not isinstance(layer, hnn.HConv2d):
        factor = max(*strides, *kernels)
        return [size * factor if factor < 9 else size] * 2
    sizes = []
    for s, p, d, k in zip(strides, paddings, dilations, kernels, strict=True):
        reach = d * (k - 1) + 1
        fitting = range(max(size, reach), max(size, reach) + s)
        sizes += [side for side in fitting if (side + 2 * p - reach) % s == 0] or [size]
    return sizes if max(sizes) < 200 else [size] * 2


def _raised_by_us(trace: TracebackType | None) -> bool:
    """Whether an error comes from a ``raise`` of the package."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    path = trace.tb_frame.f_code.co_filename
    if not Path(path).is_relative_to(Path(hnets.__file__).parent):
        return False
    return any(first <= trace.tb_lineno <= last for first, last in _raises(path))


@functools.cache
def _raises(path: str) -> tuple[tuple[int, int], ...]:
    """First and last line of each ``raise`` of a file."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    return tuple((node.lineno, node.end_lineno or node.lineno) for node in nodes)
