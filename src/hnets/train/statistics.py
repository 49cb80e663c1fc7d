"""Statistics of batch norms, for a network whose weights are final."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

__all__ = ["recompute"]


@torch.no_grad()
def recompute(model: nn.Module, inputs: Iterable[Tensor]) -> None:
    """Replace the running means of all batch norms by those over the inputs.

    Running means lag behind weights that still move, were taken of changed pictures, and for a mean
    of weights they are those of no network at all.
    """
    was_training = {part: part.training for part in model.modules()}
    norms = [part for part in model.modules() if "running_mean" in part._buffers]
    momenta = [part.momentum for part in norms]
    model.eval()  # so that nothing is dropped
    for norm in norms:
        norm.train()
    for number, batch in enumerate(inputs, start=1):
        for norm in norms:
            norm.momentum = 1 / number  # type: ignore[assignment]
        model(batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    for part, training in was_training.items():
        part.training = training
