"""Functions of the angle: streams as Fourier coefficients of functions on the circle.

A real order 0 and orders 1 to K of equal multiplicity are, per field, a real function f(φ) = z₀ +
√2·Re Σ_k z_k·exp(−ikφ), which becomes f(φ − θ) when the input is rotated by θ. Any function of its
values commutes with that, and mixes orders and phases. Due to the factor √2 the mean square of f is
the sum of squares of the coefficients, and its mean is z₀: batch norm of values needs no values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hnets.functional._autograd import Nonlinearity, ScaledReLU, batch_scaled_relu
from hnets.functional._batch_norm import expect_several, fold_batch_norm, update_running
from hnets.functional._dispatch import backend
from hnets.functional.fourier import reference

_KIND = Nonlinearity(
    "fourier", reference.fourier_relu, reference.batch_fourier_relu, triton_float64=False
)


@lru_cache(maxsize=64)
def synthesis(order: int, samples: int) -> NDArray[np.float64]:
    """The matrix ``(samples, 1 + 2·order)`` from coefficients to values at evenly spaced angles.

    Its transpose divided by the number of samples leads back to the coefficients, exactly if there
    are more than twice as many samples as the order.

    >>> matrix = synthesis(order=2, samples=8)
    >>> bool(np.allclose(matrix.T @ matrix / 8, np.eye(5)))
    True
    """
    angles = 2 * math.pi * np.outer(np.arange(samples), np.arange(1, order + 1)) / samples
    waves = math.sqrt(2) * np.stack([np.cos(angles), np.sin(angles)], axis=2)
    matrix = np.concatenate([np.ones((samples, 1)), waves.reshape(samples, 2 * order)], axis=1)
    matrix.setflags(write=False)
    return matrix


def fourier_act(x: Tensor, act: Callable[[Tensor], Tensor], synthesis: Tensor) -> Tensor:
    """Apply ``act`` to the values of f at evenly spaced angles, and go back to coefficients.

    The values are ``(batch, samples, multiplicity, height, width)``, and ``synthesis`` the matrix
    of that name, as a tensor. The backward pass computes the values again instead of keeping them,
    as they take more memory than the coefficients.
    """
    if not torch.is_grad_enabled() or _KIND.needs_reference(x):
        return reference.fourier_act(x, act, synthesis)
    # For random functions; but reading the state of the generator would break a CUDA graph.
    random = not (x.is_cuda and torch.cuda.is_current_stream_capturing())
    return checkpoint(
        reference.fourier_act, x, act, synthesis, use_reentrant=False, preserve_rng_state=random
    )


def fourier_relu(
    x: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
    synthesis: Tensor,
    inplace: bool = False,
) -> Tensor:
    """``relu(scale·f + shift)``, one scale (or None for 1) and shift (or None for 0) per field.

    ``inplace`` allows writing the result over the input where no gradient needs it.
    """
    if _KIND.needs_reference(x, scale, shift):
        return reference.fourier_relu(x, scale, shift, synthesis)
    if shift is None:
        shift = synthesis.new_zeros(x.shape[1] // synthesis.shape[1])
    if torch.is_grad_enabled():
        return ScaledReLU.apply(x, scale, shift, _KIND, (synthesis,))
    return backend("fourier", x).forward(x, scale, shift, synthesis, inplace)


def batch_fourier_relu(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    synthesis: Tensor,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    group: torch.distributed.ProcessGroup | None = None,
    inplace: bool = False,
) -> Tensor:
    """``relu(BN(f))``: batch norm over images, pixels and angles, then ReLU.

    In training it uses the statistics of the batch (over all processes of ``group``, if there is
    one) and moves the running ones, in place, towards them. ``inplace`` is for inference, as in
    `fourier_relu`.
    """
    values = (running_mean, running_var, weight, bias)
    if not training or (x.numel() == 0 and group is None):
        return fourier_relu(x, *fold_batch_norm(*values, eps), synthesis, inplace)
    return batch_scaled_relu(x, *values, _KIND, (synthesis,), momentum, eps, group)


def angular_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    group: torch.distributed.ProcessGroup | None = None,
) -> Tensor:
    """``BN(f)`` as in `batch_fourier_relu`, with no nonlinearity after it."""
    mean, var = running_mean, running_var
    if training and (x.numel() > 0 or group is not None):
        expect_several(x, group)
        mean, var, count = reference.angular_moments(x, len(weight), group)
        update_running(running_mean, running_var, mean, var, count, momentum)
        mean, var = mean.to(weight.dtype), var.to(weight.dtype)
    return reference.angular_scale(x, *fold_batch_norm(mean, var, weight, bias, eps))
