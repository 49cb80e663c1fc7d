"""Devices: how much they hold."""

from pathlib import Path

import pytest
import torch

from hnets.devices import memory


def test_the_memory_is_that_of_the_machine_or_of_its_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = torch.device("cpu")
    assert 2**26 < memory(cpu) < 2**60
    monkeypatch.setattr(Path, "read_text", lambda _: "12345678\n")
    assert memory(cpu) == 12345678
    monkeypatch.setattr(Path, "read_text", lambda _: "max\n")
    assert memory(cpu) > 2**26
