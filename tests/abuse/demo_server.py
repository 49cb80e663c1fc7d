"""The server of ``hnets demo`` as a child of the launcher, and honest requests to it."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from abuse.launcher import Launcher


class Server(NamedTuple):
    """A server that runs, and the folder with its output."""

    port: int
    folder: Path

    def errors(self) -> str:
        """What it wrote on stderr; of much, the beginning."""
        with (self.folder / "err").open(errors="replace") as file:
            return file.read(10**6)


@contextmanager
def serving(launcher: Launcher, folder: Path, files: int | None = None) -> Iterator[Server]:
    """A server on a free port, which may have so many files open."""
    pid = launcher.start("demo", "--port", "0", "--no-browser", folder=folder, files=files)
    try:
        address, deadline = None, time.monotonic() + 60
        while address is None and time.monotonic() < deadline:
            time.sleep(0.02)
            address = re.search(r"http://127\.0\.0\.1:(\d+)/", (folder / "out").read_text())
        assert address, (folder / "err").read_text()
        yield Server(int(address[1]), folder)
    finally:
        code = launcher.stop(pid)
    assert code is None, f"the server ended by itself with code {code}"


def ask(port: int, path: str, body: bytes | None = None, timeout: float = 60) -> tuple[int, bytes]:
    """Status and body of the answer to one honest request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("GET" if body is None else "POST", path, body)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def upload(port: int, content: bytes) -> tuple[int, Any]:
    """Status and JSON of the answer to an upload."""
    status, body = ask(port, "/api/edges", content)
    return status, json.loads(body)
