"""Devices to compute on."""

from __future__ import annotations

import os
from pathlib import Path

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


def memory(device: torch.device) -> int:
    """Bytes that are free on a GPU; for the CPU, those that this machine or container has."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError):  # not on every system
        return 8 * 2**30
    try:
        return min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    except (OSError, ValueError):  # there is none, or no limit
        return total


def cores() -> int:
    """How many CPU cores this process may use."""
    affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1
