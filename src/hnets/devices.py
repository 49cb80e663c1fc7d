"""Devices to compute on."""

from __future__ import annotations

import torch

from hnets.errors import InputError


def usable(name: torch.device | str) -> torch.device:
    """The device of that name, if this machine and this torch can compute on it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"expected a device such as cpu or cuda, got {str(name)!r}") from None
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # the latter from torch without CUDA
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot compute on {str(name)!r} ({reason}); use cpu") from None
    return device
