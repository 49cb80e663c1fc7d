"""Downloads against real servers on this machine: good ones, and each kind of bad one."""

import hashlib
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hnets.data import download, load, mnist
from hnets.data.download import DownloadError, File, fetch
from hnets.errors import InputError

CONTENT = bytes(range(256)) * 4000
FILE = File("numbers.bin", len(CONTENT), hashlib.md5(CONTENT).hexdigest())


class Handler(BaseHTTPRequestHandler):
    """Serves `CONTENT`, well or badly, and notes from which byte on it was asked to."""

    ranges = True
    content = CONTENT
    dies_after: int | None = None
    status = 200
    asked: list[int]

    def do_GET(self) -> None:
        wish = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(wish[1]) if wish and self.ranges else 0
        self.asked.append(int(wish[1]) if wish else 0)
        if self.status != 200:
            self.send_error(self.status)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(self.content) - 1}/*")
        self.send_header("Content-Length", str(len(self.content) - start))
        self.end_headers()
        stop = len(self.content) if self.dies_after is None else start + self.dies_after
        self.wfile.write(self.content[start:stop])

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Start servers that behave as told; gives their address, and notes what they were asked."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    servers = []

    def start(asked: list[int] | None = None, **behaviour: object) -> str:
        noted = [] if asked is None else asked
        handler = type("Told", (Handler,), {**behaviour, "asked": noted})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_file_arrives_whole_and_alone(tmp_path: Path, serve: Callable[..., str]) -> None:
    told = []
    folder = tmp_path / "new" / "folder"
    path = fetch(FILE, folder, [serve()], progress=lambda *args: told.append(args))
    assert path.read_bytes() == CONTENT
    assert [p.name for p in folder.iterdir()] == [FILE.name]
    assert told[-1] == (FILE.name, FILE.size, FILE.size)
    assert len(told) > 2


def test_an_interrupted_download_goes_on(tmp_path: Path, serve: Callable[..., str]) -> None:
    (tmp_path / "numbers.bin.part").write_bytes(CONTENT[:300_000])
    asked: list[int] = []
    path = fetch(FILE, tmp_path, [serve(asked)])
    assert asked == [300_000]
    assert path.read_bytes() == CONTENT


def test_a_server_that_dies_midway_is_asked_for_the_rest(
    tmp_path: Path, serve: Callable[..., str]
) -> None:
    asked: list[int] = []
    path = fetch(FILE, tmp_path, [serve(asked, dies_after=400_000)])
    assert asked == [0, 400_000, 800_000]
    assert path.read_bytes() == CONTENT


def test_what_one_mirror_began_another_completes(tmp_path: Path, serve: Callable[..., str]) -> None:
    dying = serve(dies_after=400_000, ranges=False)  # and so never gets any further
    asked: list[int] = []
    path = fetch(FILE, tmp_path, [dying, serve(asked)])
    assert asked == [400_000]
    assert path.read_bytes() == CONTENT


def test_a_server_that_ignores_the_range_starts_again(
    tmp_path: Path, serve: Callable[..., str]
) -> None:
    (tmp_path / "numbers.bin.part").write_bytes(b"x" * 1000)
    path = fetch(FILE, tmp_path, [serve(ranges=False)])
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("length", [1000, FILE.size, FILE.size + 5])
def test_a_bad_part_is_dropped(tmp_path: Path, serve: Callable[..., str], length: int) -> None:
    (tmp_path / "numbers.bin.part").write_bytes(b"x" * length)
    path = fetch(FILE, tmp_path, [serve()])
    assert path.read_bytes() == CONTENT


def test_after_bad_mirrors_the_next_is_tried(tmp_path: Path, serve: Callable[..., str]) -> None:
    wrong = serve(content=b"y" * len(CONTENT))
    portal = serve(content=b"<html>please log in</html>")
    endless = serve(content=CONTENT[::-1] * 2)
    absent = serve(status=404)
    path = fetch(FILE, tmp_path, [wrong, portal, endless, absent, serve()])
    assert path.read_bytes() == CONTENT


def test_when_all_mirrors_fail_each_says_why(tmp_path: Path, serve: Callable[..., str]) -> None:
    mirrors = [serve(content=b"y" * len(CONTENT)), serve(status=503), serve(dies_after=0)]
    with pytest.raises(DownloadError) as caught:
        fetch(FILE, tmp_path, mirrors)
    wrong, refused, dead = str(caught.value).split("; ")
    assert "sent other bytes than were published" in wrong
    assert "answered 503" in refused
    assert "stopped after 0 of 1,024,000 bytes" in dead
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir()), "nothing worth keeping is left"


def test_an_attempt_that_fails_keeps_its_part(tmp_path: Path, serve: Callable[..., str]) -> None:
    with pytest.raises(DownloadError, match="stopped after 7,000"):
        fetch(FILE, tmp_path, [serve(dies_after=7000, ranges=False)])
    assert (tmp_path / "numbers.bin.part").read_bytes() == CONTENT[:7000]


def test_a_silent_server_is_given_up(tmp_path: Path, serve: Callable[..., str]) -> None:
    silence = threading.Event()
    mirror = serve(do_GET=lambda self: silence.wait(5))
    try:
        with pytest.raises(DownloadError, match="timed out"):
            fetch(FILE, tmp_path, [mirror], timeout=0.2)
    finally:
        silence.set()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot be written .*; set HNETS_CACHE"):
        fetch(FILE, tmp_path / "file" / "folder", [])


def test_offline_the_user_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path))
    monkeypatch.delenv("HNETS_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    nobody = "http://127.0.0.1:9/"  # the port of a service that no one runs
    with pytest.raises(InputError) as caught:
        mnist.find(mirrors=(nobody,))
    message = str(caught.value)
    assert message.startswith("MNIST is not here and could not be downloaded")
    assert all(file.name in message for file in mnist.FILES)
    assert f"from {nobody} into {tmp_path / 'mnist'}, or set HNETS_DATA" in message
    assert "\n" not in message


def test_mnist_is_downloaded_once(
    tmp_path: Path,
    data_folder: Path,
    serve: Callable[..., str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def do_get(self: Handler) -> None:
        self.content = (data_folder / "mnist" / self.path.lstrip("/")).read_bytes()
        Handler.do_GET(self)

    asked: list[int] = []
    mirror = serve(asked, do_GET=do_get)
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path))
    monkeypatch.delenv("HNETS_DATA")
    paths = mnist.find(mirrors=(mirror,))
    assert [path.name for path in paths] == [file.name for file in mnist.FILES]
    assert mnist.find(mirrors=(mirror,)) == paths
    assert len(asked) == 4
    assert len(load("mnist", "val")) == 10_000


def test_md5_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(CONTENT)
    assert download.md5(tmp_path / "file") == FILE.md5
