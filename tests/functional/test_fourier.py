"""Functions of the angle: the series they are, and their CPU form against the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hnets import functional as F
from hnets.functional import _dispatch
from hnets.functional.fourier import cpu, reference


@given(st.integers(0, 6), st.integers(1, 12))
def test_synthesis_and_back_is_the_identity(order: int, more: int) -> None:
    samples = 2 * order + more
    matrix = F.synthesis(order, samples)
    assert np.allclose(matrix.T @ matrix / samples, np.eye(2 * order + 1), atol=1e-12)


def test_values_are_those_of_the_fourier_series() -> None:
    x = torch.randn(1, 21, 1, 1).double()
    seen = []
    F.fourier_act(x, lambda f: seen.append(f) or f, torch.tensor(F.synthesis(3, 9)))
    z0, *parts = x.flatten().view(-1, 3)
    for j in range(9):
        phi = 2 * math.pi * j / 9
        f = z0.clone()
        for k in range(1, 4):
            z = torch.complex(parts[2 * k - 2], parts[2 * k - 1])
            f += math.sqrt(2) * (z * np.exp(-1j * k * phi)).real
        assert torch.allclose(seen[0][0, j, :, 0, 0], f)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("coefficients", [21 * 72 * 7, 7 * 72 * 2, 7 * 31])
def test_the_cpu_form_agrees_with_the_reference(
    dtype: torch.dtype, coefficients: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In pieces of several images, of two fields of an image, and of some pixels of a field."""
    monkeypatch.setattr(cpu, "_SHARE", coefficients // torch.get_num_threads())
    matrix = torch.tensor(F.synthesis(3, 12)).to(dtype)
    x = torch.randn(10, 21, 9, 8, dtype=dtype, requires_grad=True)
    weight, bias = torch.rand(2, 3, dtype=dtype).requires_grad_().unbind()
    grad, actual = torch.randn_like(x), []
    for plain in (True, False):
        monkeypatch.setattr(_dispatch, "transformed", lambda plain=plain: plain)
        mean, var = torch.zeros(2, 3, dtype=dtype)
        y = F.batch_fourier_relu(x, mean, var, weight, bias, matrix, training=True, momentum=1.0)
        scaled = F.fourier_relu(x, weight, bias, matrix)
        inputs = (x, weight, bias)
        actual.append(
            [
                *(y, mean, var, scaled),
                *torch.autograd.grad(y, inputs, grad),
                *torch.autograd.grad(scaled, inputs, grad),
            ]
        )
    for expected, got in zip(*actual, strict=True):
        assert torch.allclose(got, expected, rtol=1e-12 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("present", ["scale", "shift", "both", "none"])
def test_a_scale_or_a_shift_may_be_left_out(present: str) -> None:
    matrix, x = torch.tensor(F.synthesis(3, 12)), torch.randn(2, 21, 4, 4).double()
    scale = torch.rand(3).double() if present in ("scale", "both") else None
    shift = torch.rand(3).double() if present in ("shift", "both") else None
    expected = reference.fourier_relu(x, scale, shift, matrix)
    assert torch.allclose(F.fourier_relu(x, scale, shift, matrix), expected)
    assert torch.allclose(expected, reference.fourier_act(x, torch.relu, matrix)) == (
        present == "none"
    )


@pytest.mark.parametrize("plain", [False, True])
def test_a_large_mean_does_not_swallow_the_variance(
    plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_dispatch, "transformed", lambda: plain)
    x = torch.randn(20, 21, 8, 8)
    x[:, :3] += 3000
    weight, bias, matrix = torch.ones(3), torch.zeros(3), torch.tensor(F.synthesis(3, 12)).float()
    mean, var = torch.zeros(2, 3)
    F.batch_fourier_relu(x, mean, var, weight, bias, matrix, training=True, momentum=1.0)
    expected = x[:, :3].double().var((0, 2, 3), correction=0)
    expected += x[:, 3:].double().square().mean((0, 2, 3)).view(6, 3).sum(0)
    expected *= 1280 / 1279  # running statistics take the unbiased variance
    assert torch.allclose(var.double(), expected, rtol=1e-2)
