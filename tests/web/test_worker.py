"""The thread that computes, and its queue."""

import asyncio
import time

import pytest

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

from fastapi import HTTPException

from hnets.web.worker import Worker


def test_jobs_that_take_too_long_and_too_many_jobs_are_refused() -> None:
    worker = Worker(places=1, seconds=0.05)

    async def run_two() -> None:
        await asyncio.gather(worker.run(time.sleep, 0.02), worker.run(time.sleep, 0.0))

    with pytest.raises(HTTPException, match="the server is busy"):
        asyncio.run(run_two())
    with pytest.raises(HTTPException, match="took too long") as caught:
        asyncio.run(worker.run(time.sleep, 0.3))
    assert (caught.value.status_code, caught.value.headers) == (503, {"Retry-After": "1"})
    worker.close()
