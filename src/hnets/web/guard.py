"""Who may ask, and how much: the outer ring of the server.

A page on the internet can send requests to a server on the user's own machine, and can call itself
by a name that leads there. Neither should be of use to it: the server answers to its own names and
its own pages only.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from typing import Any
from urllib.parse import urlsplit

from fastapi import Request
from fastapi.responses import JSONResponse

from hnets.web.refusal import Refused

__all__ = ["HEADERS", "Guard", "drain", "read_body"]

SLOWEST = 20.0
"""Seconds that a body may take to arrive."""
DRAINED = 8
"""How many times a limit a body that is too large is still read: a client that is cut off while it
sends sees a broken connection in place of the reason."""

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


class Guard:
    """Checks the host and the origin of every request, and adds `HEADERS` to every answer.

    Args:
        app: what is guarded.
        name: the host that the user had the server bind to.
    """

    def __init__(self, app: Any, name: str = "localhost") -> None:
        self.app, self.names = app, {"localhost", name.lower()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request, or pass it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def add_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [(key.lower().encode(), value.encode()) for key, value in HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *more]
            await send(message)

        request = Request(scope)
        reason = self.complaint(request.headers.get("host", ""), request.headers.get("origin"))
        if reason:
            status = 400 if reason.startswith("the host") else 403
            refusal = JSONResponse({"error": reason}, status)
            await refusal(scope, receive, add_headers)
            return
        await self.app(scope, receive, add_headers)

    def complaint(self, host: str, origin: str | None) -> str | None:
        """What is wrong with a request, if anything.

        An address made of numbers is never the work of a name server.

        >>> guard = Guard(None)
        >>> guard.complaint("127.0.0.1:8000", "http://127.0.0.1:8000")
        >>> guard.complaint("evil.example:8000", None)
        "the host 'evil.example' is not this server; open the address that hnets demo printed"
        """
        name = _hostname(host)
        if name not in self.names and not _numbers(name):
            return (
                f"the host {name[:100]!r} is not this server; open the address that hnets demo "
                "printed"
            )
        if origin is not None and _place(origin) != host.lower():
            return "another page may not use this server; open the address that hnets demo printed"
        return None


def _place(origin: str) -> str:
    """Host and port of an origin, in lower case; empty where there is none.

    >>> _place("http://LocalHost:80"), _place("null"), _place("http://[")
    ('localhost:80', '', '')
    """
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _hostname(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _numbers(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def read_body(request: Request, limit: int) -> bytes:
    """The body of a request, in memory, if it is not too large and does not take too long."""
    parts, size = list[bytes](), 0
    try:
        async with asyncio.timeout(SLOWEST):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    parts.clear()
                else:
                    parts.append(part)
                if size > DRAINED * limit:
                    break
    except TimeoutError:
        raise Refused(408, "the picture did not arrive in time; send it again") from None
    if size > limit:
        allowed = f"{limit / 2**20:.0f} MB"
        raise Refused(413, f"this file is larger than {allowed}; give a smaller picture")
    if not size:
        raise Refused(400, "no picture came; send one as the body of the request")
    return b"".join(parts)


async def drain(request: Request, limit: int) -> None:
    """Read a body that nobody wants, for the same reason."""
    left = DRAINED * limit
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SLOWEST):
            async for part in request.stream():
                left -= len(part)
                if left < 0:
                    return
