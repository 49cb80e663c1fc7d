"""The server as a process: its socket, its connections and their limits, and a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from hnets.errors import InputError
from hnets.web.guard import BODY_SECONDS
from hnets.web.routes import create_app

HEADER_SECONDS = 10.0
"""How long the headers of a request may take to arrive."""
REQUEST_SECONDS = BODY_SECONDS + 5
"""How long the rest of a request may take, even if the application does not read it."""
RESPONSE_SECONDS = 60.0
"""How long a response may take to be computed and received."""
MOST_CONNECTIONS = 512
"""Open at the same time; fewer if the process may open few files."""
BACKLOG = 1024
"""Connections that may wait to be accepted."""
LOG_SECONDS = 10.0
"""The shortest time between two log records from the same place."""


def serve(host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until an interrupt; ``ready`` gets its address once it can be opened."""
    with _listen(host, port) as listening:
        bound = listening.getsockname()[1]
        app = create_app(host)
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{bound}/")
        config = uvicorn.Config(
            app, http=Connection, log_level="warning", server_header=False, proxy_headers=False,
            ws="none", backlog=connection_limit() // 2, timeout_graceful_shutdown=2,
        )  # fmt: skip
        for name in ("asyncio", "uvicorn.error"):
            logging.getLogger(name).addFilter(RateLimit())
        with contextlib.suppress(KeyboardInterrupt):
            _Server(config).run(sockets=[listening])


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen with a longer backlog than the number of connections that asyncio accepts."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(BACKLOG)


def connection_limit() -> int:
    """Connections that may be open: at most a quarter of the files that the process may open.

    Before one too many is closed, asyncio accepts up to three times the backlog.
    """
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return MOST_CONNECTIONS
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = files == resource.RLIM_INFINITY
    return MOST_CONNECTIONS if unlimited else min(MOST_CONNECTIONS, files // 4)


class Connection(H11Protocol):
    """An HTTP connection that is closed if its client is too slow.

    With too many connections open, the one whose client has been silent for longest is closed:
    someone who sends an image is never silent, unlike clients that send a byte now and then.
    """

    _timer: asyncio.TimerHandle | None = None

    @property
    def waits_for_client(self) -> bool:
        """Whether the rest of a request has not arrived, or of a response not been received."""
        awaited = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        return awaited or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: Any) -> None:
        """Wait for a request, and close a connection if there are too many."""
        super().connection_made(transport)
        self._limit_time()
        peers = [c for c in self.connections if isinstance(c, Connection) and c._timer]
        if len(peers) > connection_limit():
            min((c for c in peers if c.waits_for_client), key=lambda c: c._active)._abort()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the time limit changes once its headers or body are there."""
        super().data_received(data)
        self._active = self.loop.time()
        if self.conn.their_state is not self._state:
            self._limit_time()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._limit_time()

    def shutdown(self) -> None:
        """Finish what is being computed, if anything, and close."""
        if self.waits_for_client:
            self._abort()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _limit_time(self) -> None:
        self._stop_timer()
        self._state, self._active = self.conn.their_state, self.loop.time()
        seconds = RESPONSE_SECONDS
        if not self.transport.get_write_buffer_size():
            limits = {h11.IDLE: HEADER_SECONDS, h11.SEND_BODY: REQUEST_SECONDS}
            seconds = limits.get(self._state, seconds)
        self._timer = self.loop.call_later(seconds, self._abort)

    def _stop_timer(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _abort(self) -> None:
        self._stop_timer()
        self.transport.abort()


class RateLimit(logging.Filter):
    """Passes a log record unless one from the same place has just passed: logs stay small."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: dict[tuple[str, int, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        error = record.exc_info and record.exc_info[0]
        key = (record.pathname, record.lineno, error)
        if record.created - self._passed.get(key, 0.0) < LOG_SECONDS:
            return False
        self._passed[key] = record.created
        return True


def _listen(host: str, port: int) -> socket.socket:
    """A listening socket: clients can connect from now on, and are served later."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError):
        raise InputError(
            f"the host {host!r} is unknown here; leave --host out, or use 0.0.0.0"
        ) from None
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"port {port} is in use; give another with --port") from None
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}); give others with --host and "
            "--port"
        ) from None
    return listening
