"""MNIST: what its files hold, and downloads from servers on this machine, good and bad."""

import gzip
import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from hnets import data
from hnets.data import mnist
from hnets.errors import InputError

NAMES = tuple(mnist.FILES)
CONTENT = {name: gzip.compress(bytes(16) + bytes(range(10))) for name in NAMES}


def test_mnist_is_mnist(data_folder: Path) -> None:
    images, labels = mnist.arrays()
    assert labels[:8].tolist() == [5, 0, 4, 1, 9, 2, 1, 3]
    assert images.mean() / 255 == pytest.approx(0.1309, abs=1e-4)
    first = data.load("mnist", "test").images[0, 0] * 255
    assert np.array_equal(first.round(), images[60_000])


def test_root_comes_before_the_environment(
    tmp_path: Path, data_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HNETS_DATA", str(tmp_path))
    assert mnist.find(data_folder)[0].parent == data_folder / "mnist"
    (tmp_path / "mnist").mkdir()
    for name in NAMES:
        (tmp_path / "mnist" / name).write_bytes(b"something else")
    with pytest.raises(InputError, match=r"images-idx3-ubyte.gz is damaged or another .*; delete"):
        data.load("mnist", "test")


# Downloads


class Handler(BaseHTTPRequestHandler):
    """Serves `CONTENT`, well or badly, and notes what it was asked for."""

    content: bytes | None = None
    length: int | None = None
    status = 200
    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        if self.status != 200:
            self.send_error(self.status)
            return
        content = CONTENT[self.path.lstrip("/")] if self.content is None else self.content
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.length])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def serve(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:  # fmt: skip
    """Starts servers of small files in place of MNIST's, and gives their addresses."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv("HNETS_DATA", raising=False)
    published = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
    monkeypatch.setattr(mnist, "FILES", published)
    servers = []

    def start(requests: list[str] | None = None, **behaviour: object) -> str:
        noted = [] if requests is None else requests
        handler = type("Behaving", (Handler,), {**behaviour, "requests": noted})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_files_are_downloaded_whole_and_once(own_cache: Path, serve: Callable[..., str]) -> None:
    requests: list[str] = []
    mirror = serve(requests)
    paths = mnist.find(mirrors=[mirror])
    assert [path.name for path in paths] == list(NAMES)
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert {path.name for path in (own_cache / "mnist").iterdir()} == set(NAMES)
    assert mnist.find(mirrors=[mirror]) == paths
    assert requests == [f"/{name}" for name in NAMES]


def test_after_bad_mirrors_the_next_is_tried(serve: Callable[..., str]) -> None:
    requests: list[str] = []
    bad = [serve(content=b"<html>please log in</html>"), serve(status=404), serve(length=9)]
    paths = mnist.find(mirrors=[*bad, serve(requests), serve(status=500)])
    assert [path.read_bytes() for path in paths] == list(CONTENT.values())
    assert len(requests) == 4


def test_when_all_mirrors_fail_the_error_names_each_and_what_to_do(
    own_cache: Path, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mnist, "_TIMEOUT", 0.2)
    silence = threading.Event()
    mirrors = [
        serve(content=b"y" * 50),
        serve(status=503),
        serve(length=20),
        serve(do_GET=lambda self: silence.wait(5)),
        "http://127.0.0.1:9/",  # the port of a service that no one runs
    ]
    with pytest.raises(InputError) as caught:
        mnist.find(mirrors=mirrors)
    silence.set()
    message = str(caught.value)
    assert message.startswith("MNIST is not here and could not be downloaded (")
    reasons = ["sent other bytes", ".*503", "sent other bytes", ".*timed out", ".*refused"]
    for mirror, reason in zip(mirrors, reasons, strict=True):
        assert re.search(f"{mirror} {reason}", message), message
    assert f"get {', '.join(NAMES)} from {mirrors[0]} into {own_cache / 'mnist'}" in message
    assert "\n" not in message
    assert not list((own_cache / "mnist").iterdir()), "no half file is left"


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "file"))
    with pytest.raises(InputError, match=r"could not be downloaded .*Not a directory.*; get"):
        mnist.find(mirrors=[serve()])
