"""Where Triton kernels are tested: on CUDA, or on the CPU in a process of Triton's interpreter.

Triton decides at its import whether kernels are interpreted: ``TRITON_INTERPRET=1`` is for a whole
process.
"""

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor, nn

from hnets.functional import _dispatch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
FORMATS = [torch.contiguous_format, torch.channels_last]

on_device = [] if INTERPRETED else [pytest.mark.gpu]
"""The marks of a file of such tests. Maps too large to interpret are marked ``gpu`` one by one."""


@contextmanager
def triton_forms() -> Iterator[None]:
    """Operations on `DEVICE` take their Triton forms."""
    with mock.patch.object(_dispatch, "INTERPRETED", INTERPRETED):
        yield


def twin(x: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    """A copy on `DEVICE`, in the same memory format."""
    return x.detach().to(DEVICE, dtype, copy=True)


def assert_near(
    actual: Tensor | None, expected: Tensor | None, bound: float, name: str = ""
) -> None:
    """‖actual − expected‖ ≤ bound · ‖expected‖, where ``expected`` is in float64."""
    assert actual is not None, name
    assert expected is not None, name
    assert (actual.cpu().double() - expected).norm() <= bound * expected.norm(), name


def assert_step_agrees(net: nn.Module, x: Tensor, dtype: torch.dtype, bound: float) -> None:
    """A network in ``dtype`` gives outputs, gradients and statistics as in float64 on the CPU."""
    other, other_x = copy.deepcopy(net).to(DEVICE, dtype), twin(x).requires_grad_()
    x = x.to(torch.float64, copy=True).requires_grad_()
    y = net(x)
    grad = torch.randn_like(y).to(other_x.dtype)
    y.backward(grad.double())
    with triton_forms():
        actual = other(other_x)
        actual.backward(twin(grad))
    assert actual.dtype == other_x.dtype
    assert_near(actual, y, bound, "output")
    assert_near(other_x.grad, x.grad, bound, "gradient of the input")
    for (name, a), b in zip(other.named_parameters(), net.parameters(), strict=True):
        assert_near(a.grad, b.grad, bound, f"gradient of {name}")
    for (name, a), b in zip(other.state_dict().items(), net.state_dict().values(), strict=True):
        assert_near(a, b, bound, name)


def assert_backends_agree(
    triton: Any,
    cpu: Any,
    maps: Sequence[Tensor],
    values: Tensor,
    layout: tuple[Any, ...],
    bound: float,
) -> None:
    """Every function of a `Backend` in Triton gives what the CPU form gives in float64.

    Args:
        maps: the input and the gradient, in the type that Triton computes.
        values: scale, shift, c₁ and c₂ of each field.
    """
    wide = torch.promote_types(maps[0].dtype, torch.float32)
    twins = [twin(t) for t in maps], [twin(t, wide) for t in values]
    twin_layout = [twin(part, wide) if isinstance(part, Tensor) else part for part in layout]
    results = []
    for form, (x, grad), (scale, shift, *extra), how in (
        (triton, *twins, twin_layout),
        (cpu, [t.double() for t in maps], values.double(), layout),
    ):
        sums, intermediate = form.backward_sums(grad, x, scale, shift, *how)
        grad_x, both = form.backward(grad, x, scale, shift, *how)
        grad_unscaled, single = form.backward(grad, x, None, shift, *how)
        results.append(
            {
                "forward": form.forward(x, scale, shift, *how),
                "forward without a scale": form.forward(x, None, shift, *how),
                "moments": form.moments(x, *how).sum(0),
                "backward_sums": sums.sum(0),
                "backward": grad_x,
                "sums of backward": both.sum(0),
                "backward without a scale": grad_unscaled,
                "its sum": single.sum(0)[1],
                "backward_batch": form.backward_batch(
                    grad, x, scale, shift, extra, intermediate, *how
                ),
                "forward in place": form.forward(x, scale, shift, *how, inplace=True),
            }
        )
    for name, actual in results[0].items():
        assert_near(actual, results[1][name], bound, name)
    assert results[0]["forward in place"].data_ptr() == twins[0][0].data_ptr()
