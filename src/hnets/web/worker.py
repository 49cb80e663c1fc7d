"""One thread that computes, and a short queue in front of it.

A network uses all cores already: two at once would each take twice as long. When the queue is full
a request is refused immediately and may be repeated, and no request waits indefinitely.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from hnets.web.guard import unavailable

PLACES = 32
"""Requests that may wait or be computed."""
SECONDS = 30.0
"""How long a request waits for its result."""

R = TypeVar("R")


class Worker:
    """Runs one job after the other, and refuses more than it can finish soon."""

    def __init__(self, places: int = PLACES, seconds: float = SECONDS) -> None:
        self._places, self._seconds = places, seconds
        self._thread = ThreadPoolExecutor(1, "hnets-demo")

    async def run(self, job: Callable[..., R], *args: object) -> R:
        """The result of a job in the thread; after the time limit it is no longer awaited."""
        if not self._places:
            raise unavailable("the server is busy; wait a second and try again")
        self._places -= 1
        try:
            future = asyncio.wrap_future(self._thread.submit(job, *args))
            return await asyncio.wait_for(future, self._seconds)
        except TimeoutError:
            raise unavailable("this took too long; try again, or give a smaller image") from None
        finally:
            self._places += 1

    def close(self) -> None:
        """Drop the jobs that have not started."""
        self._thread.shutdown(wait=False, cancel_futures=True)
