"""Statistics of batch norms, for a network whose weights are final."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["mixed", "recompute"]


def mixed(images: Tensor, most: int) -> Iterator[Tensor]:
    """All pictures, in portions of nearly equal size with a bit of everything in each.

    Sets are often sorted by class, and the variance between portions is not seen.
    """
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    for rows in order.tensor_split(math.ceil(len(images) / most)):
        yield images[rows.to(images.device)]


@torch.no_grad()
def recompute(model: nn.Module, inputs: Iterable[Tensor]) -> None:
    """Replace the running means of all batch norms by those over the inputs.

    Running means lag behind weights that still move, were taken of changed pictures, and for a mean
    of weights they are those of no network at all.
    """
    was_training = {part: part.training for part in model.modules()}
    norms: list[Any] = [part for part in model.modules() if "running_mean" in part._buffers]
    momenta, seen = [part.momentum for part in norms], 0
    model.eval()  # so that nothing is dropped
    try:
        for norm in norms:
            norm.train()
        for batch in inputs:
            seen += len(batch)
            for norm in norms:
                norm.momentum = len(batch) / seen
            model(batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        for part, training in was_training.items():
            part.training = training
