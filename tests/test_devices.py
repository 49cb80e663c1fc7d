"""Devices: how much they hold."""

from pathlib import Path

import pytest
import torch

from hnets.devices import cpu_has_bfloat16, memory, usable
from hnets.errors import InputError


def test_the_memory_is_that_of_the_machine_or_of_its_container(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cpu = torch.device("cpu")
    assert 2**26 < memory(cpu) < 2**60
    monkeypatch.setattr(Path, "read_text", lambda _: "12345678\n")
    assert memory(cpu) == 12345678
    monkeypatch.setattr(Path, "read_text", lambda _: "max\n")
    assert memory(cpu) > 2**26


def test_instructions_for_bfloat16_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for known, has in (({"avx512_bf16": True}, True), ({"avx2": True}, False), ({}, False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda known=known: known, raising=False)
        assert cpu_has_bfloat16() is has
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert not cpu_has_bfloat16()


def test_a_device_that_cannot_compute_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def zeros(*_: object, **options: object) -> None:
        raise NotImplementedError("Could not run this. " + 50 * "It could be the backend. ")

    monkeypatch.setattr(torch, "zeros", zeros)
    message = r"^cannot compute on 'mps' \(Could not run this\); use cpu$"
    with pytest.raises(InputError, match=message):
        usable("mps")
