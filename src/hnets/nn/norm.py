"""Batch norm: on magnitudes, and of functions on the circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._checks import highest_order
from hnets.streams import Streams, StreamsLike

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

__all__ = ["AngularNorm2d", "FrozenHBatchNorm2d", "HBatchNorm2d"]


class _BatchNorm(nn.Module):
    """A weight, a bias and running statistics for each of some values of a feature map."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        streams: StreamsLike,
        values: int,
        eps: float,
        momentum: float,
        sync: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.in_streams = self.out_streams = Streams(streams)
        self.eps, self.momentum, self.sync = eps, momentum, sync
        empty = torch.empty(values, device=device, dtype=dtype)
        self.weight, self.bias = nn.Parameter(empty), nn.Parameter(empty.clone())
        self.register_buffer("running_mean", empty.clone())
        self.register_buffer("running_var", empty.clone())
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Start again: weights 1, biases 0, and no statistics."""
        with torch.no_grad():
            self.weight.fill_(1)
            self.bias.zero_()
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Forget the batches that were seen: mean 0, variance 1."""
        self.running_mean.zero_()
        self.running_var.fill_(1)

    @property
    def values(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Running mean and variance, weight and bias."""
        return self.running_mean, self.running_var, self.weight, self.bias

    @property
    def group(self) -> ProcessGroup | None:
        """The processes whose batches are normalised together."""
        if self.sync and self.training and torch.distributed.is_available():
            return torch.distributed.group.WORLD if torch.distributed.is_initialized() else None
        return None

    def extra_repr(self) -> str:
        """The arguments, for `print`."""
        return f"{self.in_streams}, momentum={self.momentum}" + (", sync" if self.sync else "")


class HBatchNorm2d(_BatchNorm):
    """Batch norm on magnitudes with its ReLU: ``relu(BN(|z|)) · z/|z|``, the phase kept.

    A magnitude has to stay non-negative, so the norm brings its ReLU: no nonlinearity follows it.

    Args:
        streams: layout of input and output.
        eps: added to the variance.
        momentum: how far the running statistics move towards those of each batch.
        sync: take the statistics over all processes under distributed training, on any backend.
        magnitude_eps: added to |z|² before it is divided by.
        device: where the parameters are made.
        dtype: type of the parameters.
    """

    def __init__(
        self,
        streams: StreamsLike,
        eps: float = 1e-5,
        momentum: float = 0.1,
        sync: bool = False,
        magnitude_eps: float = F.MAGNITUDE_EPS,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        fields = Streams(streams).fields
        super().__init__(streams, fields, eps, momentum, sync, device, dtype)
        self.magnitude_eps = magnitude_eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise, rectify, and put the phase back."""
        self.in_streams.check(x, "HBatchNorm2d")
        return F.batch_magnitude_relu(
            x,
            *self.values,
            self.in_streams,
            self.training,
            self.momentum,
            self.eps,
            self.magnitude_eps,
            self.group,
        )


class AngularNorm2d(_BatchNorm):
    """Batch norm of functions on the circle, over pictures, pixels and angles.

    It multiplies all orders of a field by one number and adds another to its order 0, so it is
    equivariant at every angle. `FourierAct(norm=True)` has it built in.

    Args:
        streams: a real order 0, then orders 1 to K, all of one multiplicity.
        eps: added to the variance.
        momentum: how far the running statistics move towards those of each batch.
        sync: take the statistics over all processes under distributed training, on any backend.
        device: where the parameters are made.
        dtype: type of the parameters.
    """

    def __init__(
        self,
        streams: StreamsLike,
        eps: float = 1e-5,
        momentum: float = 0.1,
        sync: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        highest_order(streams, "AngularNorm2d")
        width = Streams(streams)[0].multiplicity
        super().__init__(streams, width, eps, momentum, sync, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``(batch, channels, height, width)``."""
        self.in_streams.check(x, "AngularNorm2d")
        return F.angular_norm(x, *self.values, self.training, self.momentum, self.eps, self.group)


class FrozenHBatchNorm2d(nn.Module):
    """An `HBatchNorm2d` in evaluation, its statistics folded once, with the same state dict."""

    running_mean: Tensor
    running_var: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, norm: HBatchNorm2d) -> None:
        super().__init__()
        self.in_streams = self.out_streams = norm.in_streams
        self.eps, self.magnitude_eps = norm.eps, norm.magnitude_eps
        self.inplace = False
        """Whether the input may be overwritten; `hnets.freeze` sees where."""
        self.weight, self.bias = norm.weight, norm.bias
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, norm.get_buffer(name))
        for name in ("scale", "shift"):
            self.register_buffer(name, torch.empty_like(norm.running_mean), persistent=False)
        self.requires_grad_(False).train(norm.training)
        _fold(self)
        self.register_load_state_dict_post_hook(_fold)

    def forward(self, x: Tensor) -> Tensor:
        """``x · relu(scale + shift/|x|)``."""
        self.in_streams.check(x, "HBatchNorm2d")
        return F.magnitude_relu(
            x, self.scale, self.shift, self.in_streams, self.magnitude_eps, self.inplace
        )

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.scale.dtype
        super()._apply(fn, recurse)
        if self.scale.dtype.itemsize > before.itemsize:
            _fold(self)  # the digits that were not there
        return self

    def extra_repr(self) -> str:
        """The streams, for `print`."""
        return str(self.in_streams)


def _fold(norm: FrozenHBatchNorm2d, _: object = None) -> None:
    with torch.no_grad():
        norm.scale, norm.shift = F.fold_batch_norm(
            norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
