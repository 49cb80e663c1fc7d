"""Which requests are accepted, how much of their bodies is read, and how many are computed.

A page on the internet can send requests to a server on the user's own machine, and can use a host
name that resolves to it. Neither must give it access: the server accepts its own host names and its
own pages only.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

from fastapi import HTTPException, Request
from fastapi.responses import JSONResponse
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect

BODY_SECONDS = 20.0
"""How long a body may take to arrive."""
MOST_BYTES = 2**28
"""Of all bodies that are held in memory at the same time."""
DRAINED = 8
"""A body that is too large is read up to this many times its limit: a client that is disconnected
while it sends sees a broken connection instead of the reason."""
PLACES = 32
"""Requests that may wait or be computed."""
SECONDS = 30.0
"""How long a request waits for its result."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
R = TypeVar("R")


class Guard:
    """Middleware that checks host and origin of every request, and adds `HEADERS` to responses.

    ``name`` is the host that the user had the server bind to.
    """

    def __init__(self, app: Any, name: str = "localhost") -> None:
        self.app, self.names = app, {"localhost", name.lower()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse one request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def add_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        app, headers = self.app, Request(scope).headers
        try:
            self.check(headers.get("host", ""), headers.get("origin"))
        except HTTPException as error:
            app = JSONResponse({"error": error.detail}, error.status_code)
        await app(scope, receive, add_headers)

    def check(self, host: str, origin: str | None) -> None:
        """Raise `HTTPException` unless host and origin are this server's.

        A numeric address is accepted: it cannot come from a hostile name server.

        >>> guard = Guard(None)
        >>> guard.check("127.0.0.1:8000", "http://127.0.0.1:8000")
        >>> guard.check("localhost:8000", "http://evil.example")
        Traceback (most recent call last):
        fastapi.exceptions.HTTPException: 403: another page may not use this server; open the \
address that hnets demo printed
        """
        advice = "open the address that hnets demo printed"
        name = _split(f"//{host}").hostname or ""
        if name not in self.names and not _is_address(name):
            raise HTTPException(400, f"the host {name[:100]!r} is not this server; {advice}")
        if origin is not None and _split(origin).netloc.lower() != host.lower():
            raise HTTPException(403, f"another page may not use this server; {advice}")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def unavailable(message: str) -> HTTPException:
    """A refusal for now: the client may try again a second later."""
    return HTTPException(503, message, {"Retry-After": "1"})


class Bodies:
    """The bodies of all requests that are being served, within a total number of bytes."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._left = most

    @asynccontextmanager
    async def read(self, request: Request, limit: int) -> AsyncIterator[bytes]:
        """The body of a request; refused if it is empty, too slow, or larger than ``limit``."""
        body, size, refusal = bytearray(), 0, None
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    size += len(part)
                    if size > limit:
                        allowed = f"{limit / 2**20:.0f} MB"
                        text = f"this file is larger than {allowed}; give a smaller image"
                        refusal = HTTPException(413, text)
                    elif len(part) > self._left:
                        refusal = unavailable("the server is busy; wait a second and try again")
                    if refusal is None:
                        body += part
                        self._left -= len(part)
                    elif size > DRAINED * limit:
                        break
            if refusal is not None:
                raise refusal
            if not body:
                raise HTTPException(400, "the request has no image; send one as its body")
            yield bytes(body)
        except TimeoutError:
            raise HTTPException(408, "the image did not arrive in time; send it again") from None
        except ClientDisconnect:
            raise HTTPException(400, "the connection was closed before the image arrived") from None
        finally:
            self._left += len(body)


class Worker:
    """Runs one job after the other in a thread, and refuses more than it can finish soon.

    A network uses all cores already: two at once would each take twice as long.
    """

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
