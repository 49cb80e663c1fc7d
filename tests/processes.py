"""A team of two processes, and ports for their like."""

import multiprocessing
import socket
from collections.abc import Callable
from typing import Any


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def run_two(member: Callable[..., None], *arguments: Any) -> None:
    """Call ``member(rank, port, *arguments)`` in two forked processes, and see both succeed.

    Forked, they need not import torch again.
    """
    port, fork = free_port(), multiprocessing.get_context("fork")
    two = [fork.Process(target=member, args=(rank, port, *arguments)) for rank in range(2)]
    for process in two:
        process.start()
    for process in two:
        process.join(120)
    assert [process.exitcode for process in two] == [0, 0]
