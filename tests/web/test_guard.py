"""The bodies of requests and the jobs they start: accepted, or refused, within their limits."""

import asyncio
import time

import pytest

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

from fastapi import HTTPException

from hnets.web import guard


def sent(*parts: bytes, end: str = "end") -> guard.Request:
    """A request with a body in parts; then it ends, stalls, or its client disconnects."""
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]

    async def receive() -> dict[str, object]:
        if messages:
            return messages.pop(0)
        if end == "stall":
            await asyncio.sleep(9)
        return {"type": "http.disconnect" if end == "disconnect" else "http.request"}

    return guard.Request({"type": "http", "headers": []}, receive)


@pytest.mark.parametrize(
    ("request_", "status", "message"),
    [
        (sent(b"part", end="stall"), 408, "did not arrive in time"),
        (sent(b"part", end="disconnect"), 400, "closed before the image arrived"),
        (sent(b"first", b"second", b"third"), 413, "larger than"),
        (sent(b"first", b"2nd"), 503, "the server is busy"),
    ],
    ids=["slow", "cut short", "large", "busy"],
)
def test_a_body_that_is_refused_releases_its_memory(
    monkeypatch: pytest.MonkeyPatch, request_: guard.Request, status: int, message: str
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)
    bodies = guard.Bodies(most=7)

    async def read(request: guard.Request) -> bytes:
        async with bodies.read(request, limit=10) as body:
            return body

    with pytest.raises(HTTPException, match=message) as caught:
        asyncio.run(read(request_))
    assert caught.value.status_code == status
    assert asyncio.run(read(sent(b"7 bytes"))) == b"7 bytes"


def test_jobs_that_take_too_long_and_too_many_jobs_are_refused() -> None:
    worker = guard.Worker(places=1, seconds=0.05)

    async def run_two() -> None:
        await asyncio.gather(worker.run(time.sleep, 0.02), worker.run(time.sleep, 0.0))

    with pytest.raises(HTTPException, match="the server is busy"):
        asyncio.run(run_two())
    with pytest.raises(HTTPException, match="took too long") as caught:
        asyncio.run(worker.run(time.sleep, 0.3))
    assert (caught.value.status_code, caught.value.headers) == (503, {"Retry-After": "1"})
    worker.close()
