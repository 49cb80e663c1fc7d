"""Launches of Triton kernels, without a GPU."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch


def test_kernels_are_launched_on_the_device_of_their_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of torch are, also where another device is the current one."""
    pytest.importorskip("triton")
    from hnets.functional import _launch

    current, launched = [0], list[int]()

    @contextmanager
    def device(index: int):
        before, current[0] = current[0], index
        yield
        current[0] = before

    class Kernel:
        def __getitem__(self, grid: tuple[int, ...]):
            return lambda *arguments: launched.append(current[0])

    monkeypatch.setattr(torch.cuda, "current_device", lambda: current[0])
    monkeypatch.setattr(torch.cuda, "device", device)
    for index in (0, 1, -1):  # the last is the CPU
        x = SimpleNamespace(
            data_ptr=lambda: 16, dtype=torch.float32, get_device=lambda index=index: index
        )
        _launch.run(Kernel(), (1,), (x, x), 1.0)
    assert launched == [0, 1, 0]
    assert current == [0]
