"""Assembly of kernels, and convolution with them."""

import pytest
import torch

from hnets import functional as F
from hnets.functional import assembly
from hnets.functional.assembly import cpu
from hnets.nn import HConv2d


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        (5, {"padding": 2}),
        (5, {"padding": (0, 1)}),
        (4, {"padding": (3, 4)}),
        (3, {"padding": 5}),  # so that rows of the output are of padding alone
        (3, {"padding": 3, "dilation": (3, 2)}),
        (1, {"share": False, "mirror": True}),  # joins equal orders only
        (3, {"padding": 1, "groups": 3}),
        (3, {"padding": 1, "stride": 2}),
    ],
)
def test_bands_of_a_large_map_are_the_whole(
    batch: int, size: int, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = HConv2d("3x0r + 3x1 + 3x2", "6x0r + 6x1 + 6x2", size, **options)
    x = torch.randn(batch, 15, 23, 9)
    with torch.no_grad():
        whole = layer(x)
        for rows in (1, 4, 11):
            share = rows * batch * 9 * 45 // torch.get_num_threads()
            monkeypatch.setattr(cpu, "_SHARE", share)
            torch.testing.assert_close(layer(x), whole)
            assert layer(x).stride() == whole.stride()


def test_a_map_smaller_than_the_kernel_is_torchs_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SHARE", 1)
    with torch.no_grad(), pytest.raises(RuntimeError, match="Kernel size can't be greater"):
        F.hconv2d(torch.randn(1, 3, 3, 9), torch.randn(4, 3, 5, 5))


def test_gradients_take_no_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SHARE", 100)
    kernel = torch.randn(4, 3, 3, 3, requires_grad=True)
    F.hconv2d(torch.randn(1, 3, 9, 9), kernel, padding=(1, 1)).sum().backward()
    assert kernel.grad is not None


@pytest.mark.parametrize(
    ("streams", "size", "options"),
    [
        (("3x0r", "2x0 + 2x1"), 5, {}),
        (("3x0 + 3x1", "2x0 + 2x1 + 2x-2"), 5, {"phase": "ring"}),
        (("3x0r + 3x1 + 3x2", "4x0r + 4x1 + 4x2"), 5, {"mirror": True, "rings": "gaussian"}),
        (("3x0r + 3x1 + 3x2", "4x0r + 4x1"), 3, {"phase": "free", "conjugate": True}),
        (("3x0r + 3x1 + 3x2", "4x0r + 4x1 + 4x2"), 1, {"mirror": True}),
        (("4x0r + 4x1", "4x0r + 4x1"), 3, {"groups": 2}),
    ],
)
def test_a_kernel_assembled_part_by_part_is_that_of_the_reference(
    streams: tuple[str, str], size: int, options: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    filters = HConv2d(*streams, size, dtype=torch.float64, **options).filters
    values = list(filters.parameters())
    expected = filters()
    grad = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, values, grad)
    monkeypatch.setattr(assembly, "_LARGE", 0)
    kernel = filters()
    assert "Assemble" in type(kernel.grad_fn).__name__
    torch.testing.assert_close(kernel, expected, rtol=1e-12, atol=1e-12)
    got = torch.autograd.grad(kernel, values, grad)
    torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradgradcheck(lambda *_: filters(), values, fast_mode=True)


def test_autocast_rounds_no_gradient_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "_LARGE", 0)
    filters = HConv2d("3x0 + 3x1", "2x0 + 2x1", 5).filters
    values, kernel = list(filters.parameters()), filters()
    wanted = torch.autograd.grad(kernel, values, torch.ones_like(kernel), retain_graph=True)
    with torch.autocast("cpu", torch.bfloat16):
        got = torch.autograd.grad(kernel, values, torch.ones_like(kernel))
    assert all(map(torch.equal, got, wanted))


def test_large_kernels_are_assembled_part_by_part() -> None:
    wide, narrow = (HConv2d(f"{n}x0r + {n}x1", f"{n}x0r + {n}x1", 5) for n in (64, 8))
    assert "Assemble" in type(wide.filters().grad_fn).__name__
    assert "Assemble" not in type(narrow.filters().grad_fn).__name__
    exported = torch.export.export(wide.eval(), (torch.randn(1, 192, 9, 9),))
    assert torch.isfinite(exported.module()(torch.randn(1, 192, 9, 9))).all()
