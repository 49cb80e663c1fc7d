"""The server as a process: its socket, its address, and a clean stop."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Callable

import uvicorn

from hnets.errors import InputError
from hnets.web.routes import create_app

__all__ = ["serve"]

BACKLOG = 256
"""Connections that may wait to be accepted."""


def serve(host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve the page until an interrupt; ``ready`` gets its address once it can be opened."""
    with _listen(host, port) as listening:
        bound = listening.getsockname()[1]
        app = create_app(host)
        shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
        ready(f"http://{shown}:{bound}/")
        config = uvicorn.Config(
            app, log_level="warning", server_header=False, proxy_headers=False, ws="none",
            backlog=BACKLOG, timeout_graceful_shutdown=2,
        )  # fmt: skip
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


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
