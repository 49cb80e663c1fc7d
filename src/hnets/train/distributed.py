"""Several processes as one, as ``torchrun`` starts them: shares of a batch, and sums over all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, distributed, nn

from hnets import nn as hnn
from hnets.devices import usable
from hnets.errors import InputError


@dataclass(frozen=True)
class Team:
    """The rank of this process, how many there are, and its device."""

    rank: int
    size: int
    device: torch.device

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


@contextmanager
def joined(device: str | None = None) -> Iterator[Team]:
    """Join the other processes that the environment names, if any, and leave them at the end."""
    size, rank, local = _number("WORLD_SIZE", 1), _number("RANK", 0), _number("LOCAL_RANK", 0)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda" and size > 1:
        device = f"cuda:{local}"
    place = usable(device)
    if place.type == "cuda" and place.index is not None:
        torch.cuda.set_device(place)
    if size == 1:
        yield Team(0, 1, place)
        return
    distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Team(rank, size, place)
    finally:
        distributed.destroy_process_group()


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
    if team.device.type == "cuda":  # torch has no such thing on CPU
        model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    return model
