"""Several processes as one, as ``torchrun`` starts them: shares of a batch, and sums over all."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, distributed, nn

from hnets import nn as hnn
from hnets.devices import preferred, usable
from hnets.errors import InputError, reason
from hnets.functional._batch_norm import fold_batch_norm, moments, update_running


@dataclass(frozen=True)
class Team:
    """The rank of this process, how many there are, and its device."""

    rank: int
    size: int
    device: torch.device
    local: int = 1
    """How many of them are on this machine."""

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """Which of ``count`` examples are this process's."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def add(self, tensors: Iterable[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, in one message."""
        if self.size == 1:
            return
        tensors = list(tensors)
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(flat)
        parts = flat.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def follow(self, facts: list[Any], tensors: Iterable[Tensor]) -> None:
        """Replace facts and tensors by those of the process that leads, which alone reads files."""
        if self.size == 1:
            return
        distributed.broadcast_object_list(facts, device=self.device)
        for tensor in tensors:
            distributed.broadcast(tensor, 0)


ALONE = Team(0, 1, torch.device("cpu"))


@contextmanager
def joined(device: str | None = None) -> Iterator[Team]:
    """Join the other processes that the environment names, if any, and leave them at the end."""
    size, rank, local = _number("WORLD_SIZE", 1), _number("RANK", 0), _number("LOCAL_RANK", 0)
    device = device or preferred()
    if device == "cuda" and size > 1:
        device = f"cuda:{local}"
    place = usable(device)
    if place.type == "cuda" and place.index is not None:
        torch.cuda.set_device(place)
    if size == 1:
        yield Team(0, 1, place)
        return
    backend = "nccl" if place.type == "cuda" else "gloo"
    store = _meet(rank) if "TORCHELASTIC_RUN_ID" in os.environ else None
    distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
    try:
        with _one_line():
            yield Team(rank, size, place, _number("LOCAL_WORLD_SIZE", 1))
    finally:
        distributed.destroy_process_group()


@contextmanager
def _one_line() -> Iterator[None]:
    """Say in one line that another process of a team ended."""
    try:
        yield
    except RuntimeError as error:
        message = reason(error)
        if isinstance(error, distributed.DistError) or "gloo" in message:
            raise InputError(
                f"another process of this training ended ({message}); see what it says"
            ) from None
        raise


def _meet(rank: int) -> Any:
    """A store of this attempt alone: torchrun's own still holds the addresses of the last one."""
    from torch.distributed import (  # type: ignore[attr-defined]  # public, but not marked so
        TCPStore,
        rendezvous,
    )

    shared, _, _ = next(rendezvous("env://"))
    host, port = os.environ["MASTER_ADDR"], "hnets/port"
    if rank == 0:
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        shared.set(port, str(store.port))
        return store
    while True:
        number = int(shared.get(port))
        try:
            socket.create_connection((host, number), timeout=60).close()
            return TCPStore(host, number)
        except OSError:  # it is of the last attempt, whose processes have ended
            time.sleep(0.1)


def elastic() -> bool:
    """Whether ``torchrun --max-restarts`` starts all processes again when one of them is lost."""
    return _number("TORCHELASTIC_MAX_RESTARTS", 0) > 0


def _number(variable: str, otherwise: int) -> int:
    value = os.environ.get(variable, str(otherwise))
    if not value.isdecimal():
        raise InputError(f"{variable} in the environment: expected a whole number, got {value!r}")
    return int(value)


def synchronise(model: nn.Module, team: Team) -> nn.Module:
    """Let batch norms take their statistics over the batches of all processes."""
    if team.size == 1:
        return model
    for module in model.modules():
        if isinstance(module, hnn.HBatchNorm2d | hnn.AngularNorm2d):
            module.sync = True
    if team.device.type == "cuda":
        return nn.SyncBatchNorm.convert_sync_batchnorm(model)
    for name, module in list(model.named_modules()):
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            model.set_submodule(name, _SyncBatchNorm(module))
    return model


class _SyncBatchNorm(nn.modules.batchnorm._BatchNorm):
    """A batch norm of torch over the batches of all processes, on CPU: torch has it for GPUs only.

    Parameters, statistics and their names are those of the module that it replaces.
    """

    def __init__(self, plain: nn.BatchNorm1d | nn.BatchNorm2d) -> None:
        super().__init__(plain.num_features, plain.eps, plain.momentum, plain.affine)
        self.weight, self.bias = plain.weight, plain.bias
        self.running_mean, self.running_var = plain.running_mean, plain.running_var
        self.num_batches_tracked = plain.num_batches_tracked

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions will do."""

    def forward(self, input: Tensor) -> Tensor:
        """Normalise ``(batch, channels, ...)``."""
        if not self.training:
            return super().forward(input)
        running = self.get_buffer("running_mean"), self.get_buffer("running_var")
        self.get_buffer("num_batches_tracked").add_(1)
        over, world = (0, *range(2, input.dim())), distributed.group.WORLD
        values, count = input.double(), input.numel() // input.shape[1]
        sums = values.sum(over), values.square().sum(over)
        mean, var, total = moments(*sums, count, cast(distributed.ProcessGroup, world))
        update_running(*running, mean, var, total, self.momentum or 0.0)
        one = self.weight if self.affine else mean.new_ones(())
        zero = self.bias if self.affine else mean.new_zeros(())
        folded = fold_batch_norm(mean, var, one, zero, self.eps)
        scale, shift = (each.view(-1, *[1] * (input.dim() - 2)) for each in folded)
        return (values * scale + shift).to(input.dtype)
