"""Functions of magnitudes.

Each multiplies the real and the imaginary part of a field by the same real number, so phases, and
with them the rotation orders, are left alone (the paper's section on complex nonlinearities). The
central one is ``x · relu(scale + shift/|x|)``: C-ReLU where ``scale`` is 1, and batch norm on
magnitudes with its ReLU, whose statistics fold into ``scale`` and ``shift``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from hnets.functional._autograd import FieldMagnitude, Nonlinearity, ScaledReLU, batch_scaled_relu
from hnets.functional._batch_norm import fold_batch_norm
from hnets.functional._dispatch import backend, needs_reference
from hnets.functional.magnitudes import reference
from hnets.functional.magnitudes.reference import squared, to_channels
from hnets.streams import Streams

MAGNITUDE_EPS = 1e-4
"""Divisors are sqrt(|z|² + MAGNITUDE_EPS), so that gradients stay finite at zero.

C-ReLU with a bias b > 0 is not continuous there, as relu(|z| + b)·z/|z| has length b and any
direction: near zero, rounding noise such as that of a constant image is multiplied by up to
1 + b/sqrt(MAGNITUDE_EPS), 1 + 100·b, in every layer.
"""

_KIND = Nonlinearity(
    "magnitudes", reference.magnitude_relu, reference.batch_magnitude_relu, triton_float64=True
)


def magnitude(x: Tensor, streams: Streams) -> Tensor:
    """|z| per field: ``(batch, channels, ...)`` to ``(batch, fields, ...)``.

    Exact, with a gradient of zero where z is zero.
    """
    if needs_reference(x):
        return reference.magnitude(x, streams)
    if torch.is_grad_enabled():
        return FieldMagnitude.apply(x, streams, reference.magnitude)
    return backend("magnitudes", x).magnitude(x, streams)


def modrelu(
    x: Tensor,
    bias: Tensor,
    streams: Streams,
    magnitude_eps: float = MAGNITUDE_EPS,
    inplace: bool = False,
) -> Tensor:
    """C-ReLU: ``relu(|x| + bias) · x/|x|``, with one bias per field."""
    return magnitude_relu(x, None, bias, streams, magnitude_eps, inplace)


def magnitude_relu(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor,
    streams: Streams,
    magnitude_eps: float = MAGNITUDE_EPS,
    inplace: bool = False,
) -> Tensor:
    """``x · relu(scale + shift/|x|)``, one scale (or None for 1) and one shift per field.

    ``inplace`` allows writing the result over the input where no gradient needs it.
    """
    if _KIND.needs_reference(x, scale, shift):
        return reference.magnitude_relu(x, scale, shift, streams, magnitude_eps)
    if torch.is_grad_enabled():
        return ScaledReLU.apply(x, scale, shift, _KIND, (streams, magnitude_eps))
    return backend("magnitudes", x).forward(x, scale, shift, streams, magnitude_eps, inplace)


def batch_magnitude_relu(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    streams: Streams,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    magnitude_eps: float = MAGNITUDE_EPS,
    group: torch.distributed.ProcessGroup | None = None,
) -> Tensor:
    """Batch norm on magnitudes, then ReLU, then the phase back: ``relu(BN(|x|)) · x/|x|``.

    In training it uses the statistics of the batch (over all processes of ``group``, if there is
    one) and moves the running ones, in place, towards them.
    """
    values = (running_mean, running_var, weight, bias)
    if not training or (x.numel() == 0 and group is None):
        return magnitude_relu(x, *fold_batch_norm(*values, eps), streams, magnitude_eps)
    layout = (streams, magnitude_eps)
    return batch_scaled_relu(x, *values, _KIND, layout, momentum, eps, group)


def magnitude_act(
    x: Tensor,
    act: Callable[[Tensor], Tensor],
    streams: Streams,
    magnitude_eps: float = MAGNITUDE_EPS,
) -> Tensor:
    """``act(|x|) · x/|x|`` for any function of magnitudes, applied to ``(batch, fields, ...)``."""
    lengths = (squared(x, streams) + magnitude_eps).sqrt()
    return (x * to_channels(act(lengths) / lengths, streams)).to(x.dtype)


def gate(x: Tensor, gates: Tensor, streams: Streams) -> Tensor:
    """``x · sigmoid(gates)``, with one gate per field: ``(batch, fields, ...)``."""
    return x * to_channels(torch.sigmoid(gates), streams)


def dropout(x: Tensor, p: float, streams: Streams, training: bool = True) -> Tensor:
    """Zero whole fields, both parts of them over the whole image, with probability ``p``."""
    if not training or p == 0:
        return x
    ones = x.new_ones(x.shape[0], streams.fields, *[1] * (x.dim() - 2))
    return x * to_channels(F.dropout(ones, p), streams)


def largest(responses: Sequence[Tensor], streams: Streams) -> Tensor:
    """At every field and pixel the response of largest magnitude, among tensors of one layout."""
    lengths = torch.stack([magnitude(r, streams) for r in responses])
    winner = lengths.argmax(0)
    return sum(
        (r * to_channels(winner == i, streams) for i, r in enumerate(responses)),
        start=torch.zeros_like(responses[0]),
    )
