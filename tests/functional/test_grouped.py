"""Convolution in groups of fields: the fast forms against the reference, and their gradients."""

import pytest
import torch
from torch import Tensor

from hnets import functional as F
from hnets.functional.grouped import cpu, reference

SIZES = [
    # batch, fields, input parts, output parts, height, width, kernel, padding
    (2, 8, 5, 5, 9, 11, 5, 2),
    (1, 16, 1, 3, 7, 5, 3, 0),
    (3, 12, 3, 1, 6, 8, 3, 2),
    (2, 4, 2, 3, 8, 7, 6, 4),
    (1, 7, 3, 5, 5, 5, 5, 0),
]


def maps(size: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """An input, a kernel and a gradient of the output."""
    batch, fields, into, out, height, width, k, padding = size
    x = torch.randn(batch, into * fields, height, width)
    kernel = torch.randn(out * fields, into, k, k)
    grad = torch.randn(
        batch, out * fields, height + 2 * padding - k + 1, width + 2 * padding - k + 1
    )
    return x, kernel, grad


def by_reference(x: Tensor, kernel: Tensor, size: tuple[int, ...]) -> Tensor:
    _, fields, into, out, *_, padding = size
    return reference.grouped_conv2d(
        x, kernel, fields, (into, out), (1, 1), (padding, padding), (1, 1)
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_the_cpu_form_and_its_gradients_are_those_of_the_reference(
    size: tuple[int, ...], last: bool
) -> None:
    x, kernel, grad = maps(size)
    if last:
        x, grad = (t.to(memory_format=torch.channels_last) for t in (x, grad))
    _, fields, into, *_, k, padding = size
    x.requires_grad_()
    kernel.requires_grad_()
    expected = by_reference(x, kernel, size)
    by_x, by_kernel = torch.autograd.grad(expected, (x, kernel), grad)
    with torch.no_grad():
        pairs = [
            (cpu.forward(x, kernel, padding), expected),
            (cpu.grad_input(grad, kernel, padding, fields), by_x),
            (cpu.grad_kernel(grad, x, padding, k, into), by_kernel),
        ]
    for actual, wanted in pairs:
        torch.testing.assert_close(actual, wanted, rtol=1e-4, atol=1e-4)
    if last and x.shape[1] > 1:
        assert pairs[0][0].is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("wanted", ["x", "kernel", "both"])
def test_gradients_and_second_derivatives_of_the_chosen_form(wanted: str) -> None:
    size = SIZES[0]
    x, kernel, grad = maps(size)
    inputs = {"x": [x], "kernel": [kernel], "both": [x, kernel]}[wanted]
    for each in inputs:
        each.requires_grad_()
    outputs = F.grouped_conv2d(x, kernel, 8, (5, 5), padding=(2, 2)), by_reference(x, kernel, size)
    assert type(outputs[0].grad_fn).__name__ == "DepthwiseBackward"
    first, second = [], []
    for y in outputs:
        grads = torch.autograd.grad((y**2 * grad).sum(), inputs, create_graph=True)
        first.append(grads)
        second.append(torch.autograd.grad(sum(g.square().sum() for g in grads), inputs))
    for derivatives in (first, second):
        for actual, expected in zip(*derivatives, strict=True):
            assert (actual - expected).norm() < 1e-5 * expected.norm()


@pytest.mark.parametrize(
    "change",
    [
        {"groups": 4},
        {"stride": (2, 2)},
        {"dilation": (2, 2)},
        {"padding": (2, 1)},
        {"padding": (7, 7)},
        {"dtype": torch.float64},
    ],
)
def test_other_arguments_take_the_reference(change: dict[str, object]) -> None:
    options = {"groups": 8, "stride": (1, 1), "padding": (2, 2), "dilation": (1, 1)} | change
    dtype = options.pop("dtype", torch.float32)
    groups = options["groups"]
    x = torch.randn(2, 40, 11, 12, dtype=dtype)
    kernel = torch.randn(40, 40 // groups, 5, 5, dtype=dtype, requires_grad=True)
    y = F.grouped_conv2d(x, kernel, parts=(5, 5), **options)
    assert type(y.grad_fn).__name__ != "DepthwiseBackward"
    for j in range(groups):  # a group alone
        share = torch.arange(40).view(5, groups, -1)[:, j].flatten()
        alone = torch.nn.functional.conv2d(
            x[:, share],
            kernel[share],
            None,
            *(options[k] for k in ("stride", "padding", "dilation")),
        )
        torch.testing.assert_close(y[:, share], alone, rtol=1e-4, atol=1e-4)


def test_autocast_rounds_the_result_alone() -> None:
    x, kernel, _ = maps(SIZES[0])
    kernel.requires_grad_()
    expected = F.grouped_conv2d(x, kernel, 8, (5, 5), padding=(2, 2))
    with torch.autocast("cpu", torch.bfloat16):
        y = F.grouped_conv2d(x, kernel, 8, (5, 5), padding=(2, 2))
    assert y.dtype == torch.bfloat16
    assert torch.equal(y, expected.bfloat16())
    grads = [torch.autograd.grad(each.float().sum(), kernel)[0] for each in (y, expected)]
    torch.testing.assert_close(*grads)
