"""Functions of magnitudes.

Each multiplies the real and the imaginary part of a field by the same real number, so phases, and
with them the rotation orders, are left alone (the paper's section on complex nonlinearities). The
workhorse is ``x · relu(scale + shift/|x|)``: C-ReLU where ``scale`` is 1, and batch norm on
magnitudes with its ReLU, whose statistics fold into ``scale`` and ``shift``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional import fused, plain
from hnets.functional.layout import fields_of_runs, join, views
from hnets.functional.plain import fold_batch_norm, square
from hnets.streams import Streams

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = [
    "EPS",
    "batch_magnitude_relu",
    "dropout",
    "fold_batch_norm",
    "gate",
    "largest",
    "magnitude",
    "magnitude_act",
    "magnitude_relu",
    "modrelu",
]

EPS = 1e-4
"""Magnitudes that are divided by are sqrt(|z|² + EPS), so that gradients stay finite at zero."""


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| of every field: ``(batch, channels, ...)`` to ``(batch, fields, ...)``.

    Exact, with a gradient of zero where z is zero.
    """
    parts = []
    for run, view in views(x, streams):
        if run.parts == 1:
            parts.append(view.abs().flatten(1, 3))
            continue
        power = view.select(2, 0).square() + view.select(2, 1).square()
        zero = power == 0
        parts.append(power.masked_fill(zero, 1).sqrt().masked_fill(zero, 0).flatten(1, 2))
    return join(parts)


def modrelu(x: Tensor, bias: Tensor, streams: Streams, eps: float = EPS) -> Tensor:
    """C-ReLU: ``relu(|x| + bias) · x/|x|``, with one bias for each field."""
    return magnitude_relu(x, torch.ones_like(bias), bias, streams, eps)


def magnitude_relu(
    x: Tensor, scale: Tensor, shift: Tensor, streams: Streams, eps: float = EPS
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, with one scale and one shift for each field."""
    form = fused if fused.usable(x) else plain
    return form.magnitude_relu(x, scale, shift, streams, eps)


def batch_magnitude_relu(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    streams: Streams,
    training: bool = False,
    momentum: float = 0.1,
    norm_eps: float = 1e-5,
    eps: float = EPS,
    group: ProcessGroup | None = None,
) -> Tensor:
    """Batch norm on magnitudes, then ReLU, then the phase back: ``relu(BN(|x|)) · x/|x|``.

    In training it uses the statistics of the batch (over all processes of ``group``, if given) and
    moves the running ones, in place, towards them.
    """
    if not training or (x.numel() == 0 and group is None):
        folded = fold_batch_norm(running_mean, running_var, weight, bias, norm_eps)
        return magnitude_relu(x, *folded, streams, eps)
    if x.numel() == x.shape[1] and group is None:
        raise ValueError(
            "batch norm in training needs more than one value for each channel, "
            f"got an input of shape {tuple(x.shape)}; use a larger batch or call .eval()"
        )
    form = fused if fused.usable(x) else plain
    y, mean, var, count = form.batch_magnitude_relu(x, weight, bias, streams, norm_eps, eps, group)
    with torch.no_grad():
        running_mean.lerp_(mean.to(running_mean.dtype), momentum)
        running_var.lerp_((var * (count / (count - 1))).to(running_var.dtype), momentum)
    return y


def magnitude_act(
    x: Tensor, act: Callable[[Tensor], Tensor], streams: Streams, eps: float = EPS
) -> Tensor:
    """``act(|x|) · x/|x|`` for any function of magnitudes, applied to ``(batch, fields, ...)``."""
    lengths = [square(view, eps).sqrt() for _, view in views(x, streams)]
    values = act(join([length.flatten(1, 2) for length in lengths]))
    parts = []
    for (run, view), length, value in zip(
        views(x, streams), lengths, fields_of_runs(values, streams, dim=1), strict=True
    ):
        factor = value.unflatten(1, (run.streams, run.multiplicity)) / length
        parts.append((view * factor.unsqueeze(2)).to(x.dtype).flatten(1, 3))
    return join(parts)


def gate(x: Tensor, gates: Tensor, streams: Streams) -> Tensor:
    """``x · sigmoid(gates)``, with a gate for every field: ``(batch, fields, ...)``."""
    return _times_fields(x, torch.sigmoid(gates), streams)


def dropout(x: Tensor, p: float, streams: Streams, training: bool = True) -> Tensor:
    """Zero whole fields, both parts of them over the whole picture, with probability ``p``."""
    if not training or p == 0:
        return x
    kept = x.new_ones(x.shape[0], streams.fields, *[1] * (x.dim() - 2))
    return _times_fields(x, F.dropout(kept, p), streams)


def largest(responses: Sequence[Tensor], streams: Streams) -> Tensor:
    """At every field and pixel the response of largest magnitude, among tensors of one layout."""
    lengths = torch.stack([magnitude(r, streams) for r in responses])
    winner = lengths.argmax(0)
    return sum(
        (_times_fields(r, (winner == i).to(r.dtype), streams) for i, r in enumerate(responses)),
        start=torch.zeros_like(responses[0]),
    )


def _times_fields(x: Tensor, factors: Tensor, streams: Streams) -> Tensor:
    parts = [
        (view * factor.unflatten(1, (run.streams, run.multiplicity)).unsqueeze(2)).flatten(1, 3)
        for (run, view), factor in zip(
            views(x, streams), fields_of_runs(factors, streams, dim=1), strict=True
        )
    ]
    return join(parts)
