"""One thread that computes, and a short queue before it.

Networks use all cores already: two at once would each take twice as long. Who finds the queue full
is told so at once and may ask again, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from hnets.web.refusal import Refused

__all__ = ["Worker"]

PLACES = 32
"""Requests that are read, wait or are computed; each may hold a picture in memory."""
SECONDS = 30.0
"""How long one waits for an answer."""

Given = ParamSpec("Given")
Answer = TypeVar("Answer")


class Worker:
    """Computes one thing after the other, and refuses what it cannot come to soon."""

    def __init__(self, places: int = PLACES, seconds: float = SECONDS) -> None:
        self._places = threading.BoundedSemaphore(places)
        self._seconds = seconds
        self._thread = ThreadPoolExecutor(1, "hnets-demo")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue, to be taken before anything is read."""
        if not self._places.acquire(blocking=False):
            raise Refused(503, "too much is asked at once; wait a second and try again")
        try:
            yield
        finally:
            self._places.release()

    async def run(
        self, job: Callable[Given, Answer], *args: Given.args, **options: Given.kwargs
    ) -> Answer:
        """Compute in the thread; a job that has begun is not stopped, but is no longer awaited."""
        future = self._thread.submit(job, *args, **options)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except TimeoutError:
            raise Refused(503, "this took too long; try again, or give a smaller picture") from None

    def close(self) -> None:
        """Forget what has not begun."""
        self._thread.shutdown(wait=False, cancel_futures=True)
