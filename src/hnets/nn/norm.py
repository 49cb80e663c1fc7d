"""Batch norm: on magnitudes, and of functions on the circle."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Self

import torch
from torch import Tensor, nn

from hnets import functional as F
from hnets.nn._base import StreamModule, divisor_eps, flag, highest_order, number
from hnets.streams import StreamsLike


class _BatchNorm(StreamModule, ABC):
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        streams: StreamsLike,
        eps: float = 1e-5,
        momentum: float = 0.1,
        sync: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(streams, dtype)
        self.eps = number(eps, "eps", "a number from 0")
        self.momentum = number(momentum, "momentum", "a number from 0 to 1", high=1.0)
        self.sync = flag(sync, "sync")
        empty = torch.empty(self._fields(), device=device, dtype=dtype)
        self.weight, self.bias = nn.Parameter(empty), nn.Parameter(empty.clone())
        self.register_buffer("running_mean", empty.clone())
        self.register_buffer("running_var", empty.clone())
        self.reset_parameters()

    @abstractmethod
    def _fields(self) -> int: ...

    def reset_parameters(self) -> None:
        """Set weights to 1, biases to 0, and forget the statistics."""
        with torch.no_grad():
            self.weight.fill_(1)
            self.bias.zero_()
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Set the running mean to 0 and the running variance to 1."""
        self.running_mean.zero_()
        self.running_var.fill_(1)

    @property
    def values(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Running mean and variance, weight and bias."""
        return self.running_mean, self.running_var, self.weight, self.bias

    @property
    def group(self) -> torch.distributed.ProcessGroup | None:
        """The processes whose batches are normalised together, if there are several."""
        distributed = torch.distributed
        several = (
            self.sync
            and self.training
            and distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_world_size() > 1
        )
        return distributed.group.WORLD if several else None

    def extra_repr(self) -> str:
        """The arguments, for `print`."""
        return f"{self.in_streams}, momentum={self.momentum}" + (", sync" if self.sync else "")


class HBatchNorm2d(_BatchNorm):
    """Batch norm on magnitudes with its ReLU: ``relu(BN(|z|)) · z/|z|``, the phase kept.

    A magnitude has to stay non-negative, so the norm includes a ReLU: put no other nonlinearity
    after it.

    Args:
        streams: layout of input and output.
        eps: added to the variance, as in torch.
        momentum: how far the running statistics move towards those of each batch.
        sync: take the statistics over all processes under distributed training, on any backend.
        magnitude_eps: added to |z|² before it is divided by.
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
        super().__init__(streams, eps, momentum, sync, device, dtype)
        self.magnitude_eps = divisor_eps(magnitude_eps, "magnitude_eps")

    def _fields(self) -> int:
        return self.in_streams.fields

    def forward(self, x: Tensor) -> Tensor:
        """Normalise and rectify the magnitudes."""
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
    """Batch norm of functions on the circle, over images, pixels and angles.

    It multiplies all orders of a field by one number and adds another to its order 0, so it is
    equivariant at every angle. `FourierAct(norm=True)` has it built in. The streams are a real
    order 0, then orders 1 to K, all of one multiplicity; other arguments are those of
    `HBatchNorm2d`.
    """

    def _fields(self) -> int:
        highest_order(self.in_streams, "AngularNorm2d")
        return self.in_streams[0].multiplicity

    def forward(self, x: Tensor) -> Tensor:
        """Normalise ``(batch, channels, height, width)``."""
        self.in_streams.check(x, "AngularNorm2d")
        return F.angular_norm(x, *self.values, self.training, self.momentum, self.eps, self.group)


class FrozenHBatchNorm2d(StreamModule):
    """An `HBatchNorm2d` in evaluation, its statistics folded once, with the same state dict."""

    running_mean: Tensor
    running_var: Tensor
    scale: Tensor
    shift: Tensor

    def __init__(self, norm: HBatchNorm2d) -> None:
        super().__init__(norm.in_streams)
        self.eps, self.magnitude_eps = norm.eps, norm.magnitude_eps
        self.weight, self.bias = norm.weight, norm.bias
        for name in ("running_mean", "running_var"):
            self.register_buffer(name, norm.get_buffer(name))
        for name in ("scale", "shift"):
            self.register_buffer(name, torch.empty_like(norm.running_mean), persistent=False)
        self.requires_grad_(False).train(norm.training)
        _fold(self)
        self.register_load_state_dict_post_hook(_fold)

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        """``x · relu(scale + shift/|x|)``; ``inplace`` as in `ModReLU`."""
        if not inplace:
            self.in_streams.check(x, "HBatchNorm2d")
        layout = (self.in_streams, self.magnitude_eps)
        return F.magnitude_relu(x, self.scale, self.shift, *layout, inplace)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        before = self.scale.dtype
        super()._apply(fn, recurse)
        if self.scale.dtype.itemsize > before.itemsize:
            _fold(self)  # with all digits of the new type
        return self


def _fold(norm: FrozenHBatchNorm2d, _: object = None) -> None:
    with torch.no_grad():
        norm.scale, norm.shift = F.fold_batch_norm(
            norm.running_mean, norm.running_var, norm.weight, norm.bias, norm.eps
        )
