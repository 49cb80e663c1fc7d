"""Clients that trickle their requests do not keep an honest one waiting."""

from __future__ import annotations

import random
import resource
import socket
import threading
import time
from pathlib import Path

import pytest

from abuse.demo_server import Server, ask, serving
from abuse.fixtures import photograph
from abuse.harness import NewPart, Part
from abuse.launcher import Launcher

PATIENCE = 2.0
"""Seconds in which an honest client is answered."""


class Crowd:
    """Hostile clients: each sends a little of a request at a time, and connects again when cut."""

    def __init__(self, port: int, count: int, rng: random.Random) -> None:
        self.port, self.rng = port, rng
        self.clients: list[tuple[socket.socket | None, bytes]] = [(None, b"")] * count
        self.connected = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Crowd:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        for connection, _ in self.clients:
            if connection is not None:
                connection.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            for number, (connection, left) in enumerate(self.clients):
                try:
                    if connection is None:
                        connection, left = self._connect(), self._request()
                        self.connected += 1
                        if self.rng.random() < 0.5:  # the headers at once, and then the body
                            headers, end, body = left.partition(b"\r\n\r\n")
                            connection.send(headers + end)
                            left = body
                    size = self.rng.choice((0, 1, 1, 20))
                    if size and left:
                        connection.send(left[:size])
                    self.clients[number] = connection, left[size:]
                except OSError:  # cut off, or not let in
                    if connection is not None:
                        connection.close()
                    self.clients[number] = None, b""
            self._ended.wait(0.3)

    def _connect(self) -> socket.socket:
        connection = socket.socket()
        try:
            connection.settimeout(0.05)
            connection.connect(("127.0.0.1", self.port))
            connection.setblocking(False)
        except OSError:
            connection.close()
            raise
        return connection

    def _request(self) -> bytes:
        """What a client sends, byte by byte: some of it never ends."""
        headers = b"".join(b"X-%d: %d\r\n" % (n, n) for n in range(self.rng.choice((0, 5, 200))))
        host = b"Host: 127.0.0.1:%d\r\n" % self.port
        return self.rng.choice(
            (
                b"",
                b"G",
                b"GET / HTTP/1.1\r\n" + host + headers,
                b"GET /" + b"a" * 5000,
                b"POST /api/edges HTTP/1.1\r\n" + host + b"Content-Length: 90000\r\n\r\n" + headers,
                b"POST /api/digit HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n5\r\n",
                self.rng.randbytes(200),
            )
        )


def answer(server: Server, image: bytes, number: int) -> tuple[str, float]:
    """What an honest client gets (empty: what it should), and after how many seconds."""
    path, body = (("/", None), ("/api/edges", image), ("/api/about", None))[number % 3]
    began, told = time.monotonic(), ""
    try:
        status, _ = ask(server.port, path, body, timeout=10)
        told = "" if status == 200 else f"status {status} for {path}"
    except OSError as error:
        told = f"{error!r} for {path}"
    return told, time.monotonic() - began


@pytest.mark.parametrize("files", [None, 256], ids=["usual", "with 256 files"])
def test_an_honest_client_is_answered_within_two_seconds(
    files: int | None, part: NewPart, launcher: Launcher, tmp_path: Path
) -> None:
    named = "" if files is None else f", the server limited to {files} files"
    attacked = part(f"Clients that trickle{named}", "hostile clients", share=0.01, target=500)
    count = 500 if attacked.minutes else 300
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 2 * count)), hard))
    image = photograph(tmp_path / "a.png").read_bytes()
    try:
        with serving(launcher, tmp_path, files) as server:
            assert answer(server, image, 1)[0] == ""  # the network is loaded
            _besiege(attacked, server, image, count)
            said = server.errors()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if len(said) > 2000:
        attacked.failures.append(f"{len(said)} characters on stderr, {said[:500]}")
    attacked.check()


def _besiege(attacked: Part, server: Server, image: bytes, count: int) -> None:
    slowest = 0.0
    with Crowd(server.port, count, random.Random(attacked.seed)) as crowd:
        deadline = time.monotonic() + 30
        while crowd.connected < count and time.monotonic() < deadline:
            time.sleep(0.05)
        for case in attacked.cases(9):
            told, seconds = answer(server, image, case.number)
            slowest = max(slowest, seconds)
            if told or seconds > PATIENCE:
                attacked.fail(case, f"{told or 'answered'} after {seconds:.1f} s")
            time.sleep(0.3)
        attacked.tried = count
        happened = f"connections of theirs; an honest client answered within {slowest:.1f} s"
        attacked.happened[happened] = crowd.connected
