"""Devices to compute on, and how a GPU is kept busy."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from hnets.errors import InputError

RECORDED_AT = 3
"""The call with one shape that is recorded: kernels are compiled and chosen by then."""
RECORDINGS = 4
"""Shapes whose recordings are kept."""

_Shape: TypeAlias = tuple[Hashable, ...]


def usable(name: torch.device | str) -> torch.device:
    """The device of that name, if this machine and this torch can compute on it."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"expected a device such as cpu or cuda, got {str(name)!r}") from None
    try:
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:  # the latter from torch without CUDA
        reason = str(error).splitlines()[0].partition(". ")[0]  # of some devices it is a page
        raise InputError(f"cannot compute on {str(name)!r} ({reason}); use cpu") from None
    return device


def preferred() -> str:
    """The device that is used if none is named: a GPU if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


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


def cpu_has_bfloat16() -> bool:
    """Whether the CPU multiplies bfloat16 faster than float32: by AMX or AVX512-BF16.

    Ryzen and EPYC do since 2022, and Xeons since 2023.
    """
    known: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every torch
    return bool(known.get("avx512_bf16") or known.get("amx_bf16"))


def cores() -> int:
    """How many CPU cores this process may use."""
    affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1


class Replayed:
    """A function of maps without gradients; on a GPU, shapes that come again become CUDA graphs.

    Launching the kernels of a small network takes Python longer than running them takes the GPU,
    and each launch needs Python's global lock: beside threads that decode and encode files, a batch
    waits for it several hundred times. A graph is launched once. May be called by several threads.

    >>> twice = Replayed(lambda x: 2 * x)
    >>> twice(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, network: Callable[..., Tensor]) -> None:
        self._network = network
        self._seen = Counter[_Shape]()
        self._recordings = dict[_Shape, _Recording]()
        self._lock = Lock()

    def __call__(self, x: Tensor, *options: Hashable) -> Tensor:
        """The network's output; what else it takes counts as part of the shape."""
        # Autocast keeps copies of weights that a recording would go on reading.
        if x.device.type != "cuda" or torch.is_autocast_enabled("cuda"):
            return self._network(x, *options)
        shape = (x.shape, x.dtype, *options)
        with self._lock:  # a recording has one input and one output
            self._seen[shape] += 1
            if self._seen[shape] < RECORDED_AT:
                return self._network(x, *options)
            if shape not in self._recordings:
                if len(self._recordings) == RECORDINGS:
                    del self._recordings[next(iter(self._recordings))]  # the oldest
                self._recordings[shape] = _Recording.of(self._network, x, *options)
            return self._recordings[shape].replay(x)


class _Recording(NamedTuple):
    """The kernels that a network starts for one shape, and the memory that they read and write."""

    graph: torch.cuda.CUDAGraph
    input: Tensor
    output: Tensor

    @classmethod
    def of(cls, network: Callable[..., Tensor], x: Tensor, *options: Hashable) -> _Recording:
        graph, static = torch.cuda.CUDAGraph(), torch.empty_like(x)
        # Other threads may use the GPU meanwhile. On torch's own stream, which is of one device
        # for all, what another device does would be left out of the graph.
        with (
            torch.cuda.device(x.device),
            torch.cuda.graph(graph, stream=torch.cuda.Stream(), capture_error_mode="thread_local"),
        ):
            output = network(static, *options)
        return cls(graph, static, output)

    def replay(self, x: Tensor) -> Tensor:
        self.input.copy_(x)
        self.graph.replay()
        return self.output.clone()  # the next replay overwrites it
