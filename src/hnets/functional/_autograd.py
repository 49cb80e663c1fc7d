"""The autograd functions: each saves its inputs only, and computes the rest again in backward.

Automatic differentiation would keep several full-size temporaries. Gradients come from the CPU or
the Triton form of an operation; second derivatives (``create_graph=True``) from its reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from hnets.functional._batch_norm import expect_several, over_processes, update_running
from hnets.functional._dispatch import backend, batch_norm_backend, has_triton, needs_reference


class Nonlinearity(NamedTuple):
    """A ReLU with a scale and a shift per field: its operation, whose forms are `Backend`s."""

    operation: str
    reference: Callable[..., Tensor]
    """Of the input, scale, shift and layout."""
    batch_reference: Callable[..., tuple[Tensor, Tensor, Tensor, float | Tensor]]
    """Of the input, weight, bias, layout, eps and group: output, mean, variance and count."""
    triton_float64: bool
    """Whether its Triton form takes float64."""

    def needs_reference(self, x: Tensor, *values: Tensor | None) -> bool:
        """Whether a map, with these values per field, has no other form than the reference."""
        if needs_reference(x):
            return True
        if not has_triton(x):
            return False
        for value in values:  # which Triton kernels read as contiguous memory
            if value is not None and not value.is_contiguous():
                return True
        return x.dtype == torch.float64 and not self.triton_float64


class ScaledReLU(torch.autograd.Function):
    """A nonlinearity with a scale (or None for 1) and a shift per field."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        scale: Tensor | None,
        shift: Tensor,
        kind: Nonlinearity,
        layout: tuple[Any, ...],
    ) -> Tensor:
        ctx.save_for_backward(x, scale, shift)
        ctx.kind, ctx.layout = kind, layout
        form = backend(kind.operation, x)
        return form.forward(x, scale, shift, *layout)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, scale, shift = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = ctx.kind.reference(x, scale, shift, *ctx.layout)
            return *_differentiable((x, scale, shift), again, grads[0]), None, None
        form = backend(ctx.kind.operation, x)
        grad_x, sums = form.backward(grads[0], x, scale, shift, *ctx.layout)
        grad_scale, grad_shift = batch_norm_backend(x, None).add_up(sums, shift)
        return grad_x, None if scale is None else grad_scale, grad_shift, None, None


def batch_scaled_relu(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor,
    bias: Tensor,
    kind: Nonlinearity,
    layout: tuple[Any, ...],
    momentum: float,
    eps: float,
    group: torch.distributed.ProcessGroup | None,
) -> Tensor:
    """A nonlinearity with the scale and shift of batch norm, which moves the running statistics."""
    expect_several(x, group)
    running = (running_mean, running_var)
    if not kind.needs_reference(x, *running, weight, bias):
        constants = (kind, layout, eps, group, running, momentum)
        return _BatchScaledReLU.apply(x, weight, bias, *constants)
    y, mean, var, count = kind.batch_reference(x, weight, bias, *layout, eps, group)
    update_running(*running, mean, var, count, momentum)
    return y


class _BatchScaledReLU(torch.autograd.Function):
    """A nonlinearity with the scale and shift of batch norm; it moves the running statistics."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        kind: Nonlinearity,
        layout: tuple[Any, ...],
        eps: float,
        group: torch.distributed.ProcessGroup | None,
        running: tuple[Tensor, Tensor],
        momentum: float,
    ) -> Tensor:
        form = backend(kind.operation, x)
        sums, count = over_processes(form.moments(x, *layout), x.numel() // x.shape[1], group)
        mean, var, scale, shift = batch_norm_backend(x, group).fold(
            sums, count, weight, bias, eps, running, momentum
        )
        ctx.save_for_backward(x, weight, bias, scale, shift, mean, var)
        ctx.kind, ctx.layout, ctx.group, ctx.count, ctx.eps = kind, layout, group, count, eps
        return form.forward(x, scale, shift, *layout)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, scale, shift, mean, var = ctx.saved_tensors
        if torch.is_grad_enabled():
            again, *_ = ctx.kind.batch_reference(x, weight, bias, *ctx.layout, ctx.eps, ctx.group)
            return *_differentiable((x, weight, bias), again, grads[0]), *[None] * 6
        form = backend(ctx.kind.operation, x)
        fold_backward = batch_norm_backend(x, ctx.group).fold_backward
        statistics = (ctx.count, scale, mean, var, ctx.eps)
        sums, intermediate = form.backward_sums(grads[0], x, scale, shift, *ctx.layout)
        grad_weight, grad_bias, *extra = fold_backward(sums, *statistics)
        if ctx.group is not None:  # x moves the statistics of all; parameters are everyone's own
            sums, _ = over_processes(sums, 0, ctx.group)
            _, _, *extra = fold_backward(sums, *statistics)
        grad_x = form.backward_batch(grads[0], x, scale, shift, extra, intermediate, *ctx.layout)
        return grad_x, grad_weight, grad_bias, *[None] * 6


class FieldMagnitude(torch.autograd.Function):
    """|z| per field; the reference comes as an argument."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, streams: Any, reference: Callable[..., Tensor]) -> Tensor:
        ctx.save_for_backward(x)
        ctx.streams, ctx.reference = streams, reference
        return backend("magnitudes", x).magnitude(x, streams)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = ctx.reference(x, ctx.streams)
            return *_differentiable((x,), again, grads[0]), None, None
        return backend("magnitudes", x).magnitude_backward(grads[0], x, ctx.streams), None, None


class Assemble(torch.autograd.Function):
    """A kernel from radial weights and phases; the reference comes as an argument."""

    @staticmethod
    def forward(
        ctx: Any,
        radial: Tensor,
        phase: Tensor,
        spread: Tensor,
        assembly: Tensor,
        sizes: tuple[Any, ...],
        reference: Callable[..., Tensor],
    ) -> Tensor:
        ctx.save_for_backward(radial, phase, spread, assembly)
        ctx.sizes, ctx.reference = sizes, reference
        form = backend("assembly", radial)
        return form.assemble(radial, phase, spread, assembly, *sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        tensors = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = ctx.reference(*tensors, *ctx.sizes)
            return *_differentiable(tensors[:2], again, grads[0]), None, None, None, None
        gradients = backend("assembly", grads[0]).assemble_backward(grads[0], *tensors, *ctx.sizes)
        return *gradients, None, None, None, None


class Depthwise(torch.autograd.Function):
    """A depthwise harmonic convolution; the reference comes as an argument."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, kernel: Tensor, padding: int, reference: Callable[..., Tensor]
    ) -> Tensor:
        ctx.save_for_backward(x, kernel)
        ctx.padding, ctx.reference = padding, reference
        return backend("grouped", x).forward(x, kernel, padding)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, kernel), padding = ctx.saved_tensors, ctx.padding
        if torch.is_grad_enabled():
            again = ctx.reference(x, kernel, padding)
            return *_differentiable((x, kernel), again, grads[0]), None, None
        form, grad_x, grad_kernel = backend("grouped", x), None, None
        parts, size = kernel.shape[1:3]
        if ctx.needs_input_grad[0]:
            grad_x = form.grad_input(grads[0], kernel, padding, x.shape[1] // parts)
        if ctx.needs_input_grad[1]:
            grad_kernel = form.grad_kernel(grads[0], x, padding, size, parts)
        return grad_x, grad_kernel, None, None


class Halve(torch.autograd.Function):
    """A map of half the size; the gradient depends on nothing but the shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.shape = x.shape
        return backend("pyramid", x).halve(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor]:
        grad_x: Tensor = _Spread.apply(grads[0], ctx.shape)
        return (grad_x,)


class _Spread(torch.autograd.Function):
    """The transpose of `Halve`: each is the gradient of the other."""

    @staticmethod
    def forward(ctx: Any, grad: Tensor, shape: torch.Size) -> Tensor:
        return backend("pyramid", grad).spread(grad, shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        halved: Tensor = Halve.apply(grads[0])
        return halved, None


class MeanPool(torch.autograd.Function):
    """Means of squares; the gradient depends on nothing but the shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, size: int) -> Tensor:
        ctx.shape, ctx.size = x.shape, size
        return backend("pyramid", x).mean_pool(x, size)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return backend("pyramid", grads[0]).mean_pool_backward(grads[0], ctx.shape, ctx.size), None


def _differentiable(
    inputs: tuple[Tensor | None, ...], output: Tensor, grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again."""
    wanted = [value for value in inputs if value is not None and value.requires_grad]
    grads = iter(torch.autograd.grad(output, wanted, grad, create_graph=True))
    return tuple(
        next(grads) if value is not None and value.requires_grad else None for value in inputs
    )
