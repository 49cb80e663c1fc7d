"""Learning rates: functions of the epoch and of the errors seen so far, with no state of their own.

A run that is continued therefore goes on with the rate that it would have had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hnets.train.recipe import Schedule

__all__ = ["falls", "rates"]


def rates(
    schedule: Schedule, epoch: int, epochs: int, steps: int, errors: Sequence[float]
) -> list[float]:
    """The learning rate at every step of an epoch, as fractions of the recipe's.

    Args:
        schedule: the rule.
        epoch: which epoch, from 0.
        epochs: how many there will be.
        steps: in one epoch.
        errors: validation errors after each epoch so far, for ``plateau``.

    >>> rates(Schedule("step", every=2), epoch=5, epochs=9, steps=3, errors=[])
    [0.01..., 0.01..., 0.01...]
    >>> [round(r, 2) for r in rates(Schedule("cosine"), epoch=1, epochs=2, steps=4, errors=[])]
    [0.5, 0.31, 0.15, 0.04]
    """
    times = [epoch + step / steps for step in range(steps)]
    if schedule.name == "cosine":
        values = [(1 + math.cos(math.pi * time / epochs)) / 2 for time in times]
    elif schedule.name == "step":
        values = [schedule.factor ** (epoch // schedule.every)] * steps
    elif schedule.name == "plateau":
        values = [schedule.factor ** falls(errors, schedule.patience)] * steps
    else:
        values = [1.0] * steps
    if schedule.warmup:
        # The step after time t ends at t + 1/steps, so the first one does move.
        grown = [min(1.0, (time + 1 / steps) / schedule.warmup) for time in times]
        values = [value * part for value, part in zip(values, grown, strict=True)]
    return values


def falls(errors: Sequence[float], patience: int) -> int:
    """How often the error has not become lower for ``patience`` epochs.

    >>> falls([5, 4, 4, 4, 3, 3, 3], patience=2)
    2
    """
    best, waited, count = math.inf, 0, 0
    for error in errors:
        waited = 0 if error < best else waited + 1
        best = min(best, error)
        if waited == patience:
            count, waited = count + 1, 0
    return count
