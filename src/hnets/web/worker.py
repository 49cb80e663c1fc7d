"""One thread that computes, and a short queue in front of it.

A network uses all cores already: two at once would each take twice as long. When the queue is full
a request is refused immediately and may be repeated, and no request waits indefinitely.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from fastapi import HTTPException

__all__ = ["Worker"]

PLACES = 32
"""Requests that are being read, waiting or computed; each may hold an image in memory."""
SECONDS = 30.0
"""How long a request waits for its result."""

R = TypeVar("R")


class Worker:
    """Runs one job after the other, and refuses more than it can finish soon."""

    def __init__(self, places: int = PLACES, seconds: float = SECONDS) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._seconds = seconds
        self._thread = ThreadPoolExecutor(1, "hnets-demo")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue, to be taken before the body of a request is read."""
        if not self._places.acquire(blocking=False):
            raise _unavailable("the server is busy; wait a second and try again")
        try:
            yield
        finally:
            self._places.release()

    async def run(self, job: Callable[..., R], *args: object) -> R:
        """The result of a job in the thread; after the time limit it is no longer awaited."""
        future = self._thread.submit(job, *args)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            raise _unavailable("this took too long; try again, or give a smaller image") from None

    def close(self) -> None:
        """Drop the jobs that have not started."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _unavailable(message: str) -> HTTPException:
    return HTTPException(503, message, {"Retry-After": "1"})
