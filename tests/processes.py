"""A team of two processes."""

import multiprocessing
import socket
from collections.abc import Callable
from typing import Any


def run_two(member: Callable[..., None], *arguments: Any) -> None:
    """Call ``member(rank, port, *arguments)`` in two forked processes, and see both succeed.

    Forked, they need not import torch again.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    fork = multiprocessing.get_context("fork")
    two = [fork.Process(target=member, args=(rank, port, *arguments)) for rank in range(2)]
    for process in two:
        process.start()
    for process in two:
        process.join(120)
    assert [process.exitcode for process in two] == [0, 0]
