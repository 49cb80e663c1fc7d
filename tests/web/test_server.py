"""The process of hnets demo: its options, its connections and their limits, and its end."""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from webserver import running

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

import uvicorn

from hnets.web import server

# The command ---------------------------------------------------------------------------------


def test_a_port_in_use_is_one_line(hnets_command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = hnets_command("demo", "--port", str(port), "--no-browser")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"hnets: port {port} is in use; give another with --port\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "no.such.host.invalid"], "the host 'no.such.host.invalid' is unknown"),
        (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7"),
        (["--port", "99999"], "expected a whole number from 0 to 65535, got '99999'"),
    ],
)
def test_a_host_or_port_that_cannot_be_used_is_one_line(
    hnets_command: Command, arguments: list[str], message: str
) -> None:
    done = hnets_command("demo", "--no-browser", *arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


def test_without_the_extra_the_error_names_it(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("hnets.web.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fastapi", None)
    done = hnets_command("demo")
    expected = 'hnets: the page and its server need fastapi: pip install "hnets[web]"\n'
    assert (done.code, done.out, done.err) == (2, "", expected)


# Its connections -----------------------------------------------------------------------------

LARGE = 2**24
"""Bytes of a response that no socket holds in its buffers."""


async def application(scope: Any, _receive: Any, send: Any) -> None:
    """Responds with its path, slowly to ``/slow`` and with many bytes to ``/large``."""
    if scope["path"] == "/slow":
        await asyncio.sleep(1)
    body = bytes(LARGE) if scope["path"] == "/large" else scope["path"].encode()
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A server of `application` with the connections of hnets demo."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(application, http=server.Connection, lifespan="off",
                                log_level="critical", timeout_graceful_shutdown=1)  # fmt: skip
        started = uvicorn.Server(config)
        thread = threading.Thread(target=started.run, kwargs={"sockets": [listening]})
        thread.start()
        yield listening.getsockname()[1]
        started.should_exit = True
        thread.join()


def connect(port: int, opening: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    client.sendall(opening)
    return client


def is_open(client: socket.socket) -> bool:
    """Whether the server has not closed the connection; what it has sent is discarded."""
    client.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        try:
            while client.recv(2**20):
                pass
        except ConnectionError:
            pass
        return False
    return True


GET, POST = b"GET / HTTP/1.1\r\nHost: a\r\n", b"POST / HTTP/1.1\r\nHost: a\r\n"


@pytest.mark.parametrize(
    "opening",
    [b"", GET, GET + b"\r\n" + GET, POST + b"Content-Length: 999\r\n\r\n"],
    ids=["nothing", "headers", "second", "body"],
)
def test_a_request_that_trickles_in_is_cut_off(
    port: int, opening: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.4)
    monkeypatch.setattr(server, "REQUEST_SECONDS", 0.4)
    with connect(port, opening) as client:
        started = time.monotonic()
        while is_open(client):
            assert time.monotonic() - started < 5
            time.sleep(0.05)
            with contextlib.suppress(OSError):
                client.send(b"x")
        assert time.monotonic() - started > 0.3


def test_a_response_that_is_not_received_is_cut_off(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "RESPONSE_SECONDS", 0.3)
    with connect(port, b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n") as client:
        time.sleep(1)
        received = 0
        with contextlib.suppress(ConnectionError):
            while part := client.recv(2**20):
                received += len(part)
    assert 0 < received < LARGE


def test_of_too_many_connections_those_that_are_silent_longest_are_closed(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "connection_limit", lambda: 4)
    with contextlib.ExitStack() as stack:
        busy = stack.enter_context(connect(port, b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"))
        time.sleep(0.1)
        first, *clients = [stack.enter_context(connect(port, GET)) for _ in range(3)]
        for _ in range(4):
            time.sleep(0.05)
            first.sendall(b"X: y\r\n")
            time.sleep(0.05)
            clients.append(stack.enter_context(connect(port, GET)))
        time.sleep(0.05)
        assert [is_open(client) for client in clients] == 4 * [False] + 2 * [True]
        assert is_open(first)
        busy.setblocking(True)
        response = busy.recv(999)
        while not response.endswith(b"/slow"):  # headers and body may come in two parts
            part = busy.recv(999)
            assert part
            response += part


def test_the_limit_of_connections_follows_that_of_open_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resource = pytest.importorskip("resource")
    for files, limit in ((256, 64), (2**20, 512), (resource.RLIM_INFINITY, 512)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, files=files: (files, files))
        assert server.connection_limit() == limit


def test_log_records_from_one_place_pass_once_in_ten_seconds() -> None:
    def record(line: int, created: float, error: type[Exception] | None = None) -> Any:
        info = error and (error, error(), None)
        made = logging.LogRecord("asyncio", logging.ERROR, "a.py", line, "m", None, info)
        made.created = created
        return made

    rate = server.RateLimit()
    passed = [rate.filter(record(1, 1000 + second)) for second in range(25)]
    assert [second for second, each in enumerate(passed) if each] == [0, 10, 20]
    assert rate.filter(record(2, 1024))
    assert rate.filter(record(1, 1024, OSError))
    assert not rate.filter(record(1, 1024, OSError))


def test_trickling_clients_do_not_stop_the_page_and_an_interrupt_stops_it_cleanly(
    tmp_path: Path,
) -> None:
    """More clients than the server may open files, each with a part of its headers or body."""
    openings = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n",
        b"POST /api/digit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n",
    )
    with running(tmp_path, files=128) as started, contextlib.ExitStack() as stack:
        for number in range(160):
            stack.enter_context(connect(started.port, openings[number % 3]))
        for path in ("/", "/api/about", "/api/filters"):
            before = time.monotonic()
            assert started.request(path, timeout=10).status == 200
            assert time.monotonic() - before < 2
        # Bodies that are on their way do not take the place of one that has arrived.
        assert started.request("/api/digit", b"x", timeout=10).status == 415
        started.process.send_signal(signal.SIGINT)
        assert started.process.wait(20) == 0
        assert started.process.stderr is not None
        assert started.process.stderr.read() == ""
