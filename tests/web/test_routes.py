"""The server of hnets demo: what it answers, and what it refuses, over real HTTP."""

import asyncio
import io
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from commands import Command
from hnets.errors import InputError
from webserver import Server, running

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

from hnets.web import guard
from hnets.web import routes as app
from hnets.web.digit_views import Digits
from hnets.web.refusal import Refused
from hnets.web.uploads import _drawing, read
from hnets.web.worker import Worker

STATIC = Path(app.__file__).parent / "static"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("server")) as started:
        yield started


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    held = io.BytesIO()
    image.save(held, kind, **options)
    return held.getvalue()


def seven(kind: str = "PNG") -> bytes:
    """A 7, light on black."""
    image = Image.new("L", (224, 224))
    draw = ImageDraw.Draw(image)
    draw.line([(65, 45), (158, 42), (102, 188)], fill=255, width=20, joint="curve")
    return saved(image, kind)


def bomb(side: int = 40_000) -> bytes:
    """A small PNG file of very many black pixels."""

    def chunk(name: bytes, content: bytes) -> bytes:
        total = zlib.crc32(name + content)
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", total)

    header = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((side // 8 + 1) * 64))
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    )


# What it answers -----------------------------------------------------------------------------


def test_the_page_comes_whole_and_asks_for_nothing_from_elsewhere(server: Server) -> None:
    names = {path.name for path in STATIC.iterdir()}
    assert names > {"index.html", "page.css", "main.js"}
    for name in names:
        reply = server.ask("/" if name == "index.html" else f"/{name}")
        assert (reply.status, reply.body) == (200, (STATIC / name).read_bytes())
        assert reply.headers["x-content-type-options"] == "nosniff"
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert "unsafe" not in policy
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        for wanted in re.findall(r'(?:src|href|from) ?=? ?"\./?([\w.]+)"', text):
            assert wanted in names


def test_the_answer_stays_and_phases_advance_by_the_order(server: Server) -> None:
    plain = set()
    for angle in (0.0, 40.0, 90.0, 200.0):
        found = server.ask(f"/api/digit?angle={angle}", seven()).json
        assert found["hnet"]["digit"] == found["upright"]["hnet"]["digit"] == 7
        assert len(found["hnet"]["chances"]) == 10
        plain.add(found["plain"]["digit"])
        for sent in found["maps"]:
            off = (sent["phase"] - sent["order"] * angle + 180) % 360 - 180
            assert abs(off) < 12
            assert 0 < sent["height"] == sent["width"]
    assert 7 in plain
    assert len(plain) > 1, "the plain CNN was to stumble"


def test_an_update_while_the_dial_turns_costs_less_than_100_ms() -> None:
    """Of computing, on one core and in the best of some: what others do here does not count."""
    digits, body, spent = Digits(), seven(), []
    for angle in range(0, 60, 10):
        before = time.process_time()
        digits.turned(body, angle, 2)
        spent.append(time.process_time() - before)
    assert min(spent) < 0.1


def test_all_the_way_round(server: Server) -> None:
    found = server.ask("/api/round", seven()).json
    assert found["angles"] == list(range(0, 360, 10))
    assert set(found["hnet"]["digits"]) == {7}
    assert len(set(found["plain"]["digits"])) > 1


@pytest.mark.parametrize("layer", range(1, 8))
def test_maps_filters_and_phases_of_every_layer(server: Server, layer: int) -> None:
    about = server.ask("/api/about").json["layers"][layer - 1]
    for order in about["orders"]:
        where = f"layer={layer}&order={order}"
        fields = server.ask(f"/api/fields?{where}", seven()).json
        count = int(re.findall(rf"(\d+)x{order}", about["streams"])[0])
        assert fields["count"] == count
        found = server.ask(f"/api/filters?{where}").json
        assert [kind["order"] for kind in found["kinds"]] == [
            order - kind["from"] for kind in found["kinds"]
        ]
        assert (sum(found["histogram"]) == 0) == (layer == 7)  # the last one has no phases
        if layer < 7:
            assert sum(found["histogram"]) == about["filters"]


def test_edges_of_a_picture_and_of_a_turned_one(server: Server) -> None:
    sample = server.ask("/api/sample").body
    found = server.ask("/api/edges", sample).json
    assert max(found["width"], found["height"]) <= 480
    assert {"picture", "edges", "orientation", "lines", "overlay"} <= found.keys()
    numbers = np.load(io.BytesIO(server.ask("/api/edges.npz", sample).body))
    assert numbers["magnitude"].shape == (found["height"], found["width"])
    assert server.ask("/api/turned?angle=90", sample).json["error"] < 1e-3
    assert server.ask("/api/turned?angle=25", sample).json["error"] < 0.5


# What it refuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/edges", b"", 400, "no picture came"),
        ("/api/edges", b"hello", 415, "not a PNG, JPEG, WebP, GIF or BMP"),
        ("/api/edges", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "not a PNG"),
        ("/api/edges", seven()[:-200], 400, "damaged or cut short"),
        ("/api/edges", bomb(), 413, "more than 24 million pixels"),
        ("/api/edges", bomb(5_000), 413, "more than 24 million pixels"),
        ("/api/edges", b"\xff\xd8" + 500 * b"\xff\xda", 400, "is damaged"),
        ("/api/edges", bytes(12 * 2**20 + 1), 413, "larger than 12 MB"),
        ("/api/edges", saved(Image.new("RGB", (5, 5))), 400, "at least 16×16"),
        ("/api/digit", bytes(2**20 + 1), 413, "larger than 1 MB"),
        ("/api/digit", saved(Image.new("L", (99, 99))), 400, "no digit is to be seen"),
        ("/api/digit?angle=nan", seven(), 400, "angle: "),
        ("/api/digit?angle=x", seven(), 400, "angle: "),
        ("/api/digit?layer=8", seven(), 400, "layer: "),
        ("/api/fields?order=2", seven(), 400, "order: "),
        ("/api/turned?angle=1e9", seven(), 400, "angle: "),
    ],
    ids=lambda given: given if isinstance(given, str) else None,
)
def test_what_cannot_be_used_is_refused_in_one_line(
    server: Server, path: str, body: bytes, status: int, message: str
) -> None:
    reply = server.ask(path, body)
    assert (reply.status, message in reply.json["error"]) == (status, True), reply
    assert "\n" not in reply.json["error"]


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/%2e%2e/app.py", "/static/..%2f..%2fapp.py", "//etc/passwd", "/index.html/",
     "/..%5capp.py", "/docs", "/openapi.json"],
)  # fmt: skip
def test_no_path_leads_to_another_file(server: Server, path: str) -> None:
    reply = server.ask(path)
    assert reply.status == 404
    assert reply.json == {"error": "Not Found"}


def test_other_hosts_and_other_pages_are_refused(server: Server) -> None:
    ours = f"127.0.0.1:{server.port}"
    assert server.ask("/", Host=f"localhost:{server.port}").status == 200
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        "[",
        "a b",
        "127.0.0.1@evil.example",
    ):
        assert server.ask("/", Host=host).status == 400, host
    assert server.ask("/api/round", seven(), Origin=f"http://{ours}").status == 200
    for origin in ("https://evil.example", "null", f"http://{ours}.evil.example", "http://["):
        reply = server.ask("/api/round", seven(), Origin=origin)
        assert (reply.status, reply.headers["cache-control"]) == (403, "no-store")
    assert server.ask("/api/round").status == 405
    assert server.ask("/api/round", seven(), method="DELETE").status == 405


def test_broken_files_are_refused_or_read_and_never_break_the_server(server: Server) -> None:
    """Bytes changed, cut, doubled and mixed, of five formats."""
    chance = random.Random(5)
    whole = [seven(kind) for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP")]
    seen: Counter[int] = Counter()
    for _ in range(60):
        file = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 8)):
            at = chance.randrange(len(file))
            match chance.randrange(4):
                case 0:
                    file[at] = chance.randrange(256)
                case 1 if len(file) > 20:
                    del file[at : at + chance.randrange(1, 400)]
                    file = file or bytearray(b"x")
                case 2:
                    file[at:at] = chance.randbytes(chance.randrange(1, 40))
                case _:
                    file[at : at + 50] = chance.choice(whole)[at : at + 50] or b"?"
        reply = server.ask("/api/digit", bytes(file))
        assert reply.status == 200 or len(reply.json["error"].splitlines()) == 1
        seen[reply.status] += 1
    assert set(seen) <= {200, 400, 413, 415}, seen
    assert server.ask("/api/digit", seven()).status == 200


def said_of(data: bytes) -> str:
    try:
        return read(data).mode
    except (Refused, InputError) as error:
        return str(error)


@given(st.binary(max_size=200), st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP"]))
def test_whatever_comes_is_a_picture_or_one_clear_refusal(noise: bytes, kind: str) -> None:
    file = seven(kind)
    for data in (noise, file[:20] + noise, file[: len(file) // 2] + noise):
        assert len(said_of(data).splitlines()) == 1


def test_a_jpeg_that_asks_for_thousands_of_scans_is_refused() -> None:
    file = seven("JPEG")
    with pytest.raises(Refused, match="more scans than any camera makes"):
        read(file + 200 * b"\xff\xda")


def test_two_hundred_at_once_are_answered_or_refused_politely(server: Server) -> None:
    body, gate = seven(), threading.Barrier(200)

    def ask(_: int) -> tuple[int, bool]:
        gate.wait()
        reply = server.ask("/api/digit?angle=33", body)
        return reply.status, "retry-after" in reply.headers

    with ThreadPoolExecutor(200) as crowd:
        found = Counter(crowd.map(ask, range(200)))
    assert set(found) <= {(200, False), (503, True)}
    assert found[200, False] >= 32
    assert server.ask("/api/digit", body).status == 200


def test_nothing_of_the_users_is_written(server: Server) -> None:
    server.ask("/api/digit", seven())
    large = _drawing().resize((900, 600))
    server.ask("/api/edges", saved(large, "BMP"))  # 1.6 MB, more than forms hold in memory
    assert not list(server.folder.iterdir())


# Its parts -----------------------------------------------------------------------------------


def test_a_body_that_does_not_come_is_not_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "SLOWEST", 0.05)

    async def receive() -> dict[str, object]:
        await asyncio.sleep(9)
        return {}

    request = guard.Request({"type": "http", "headers": []}, receive)
    with pytest.raises(Refused, match="did not arrive in time") as caught:
        asyncio.run(guard.read_body(request, 9))
    assert caught.value.status == 408


def test_a_job_that_takes_too_long_is_answered_for() -> None:
    worker = Worker(places=1, seconds=0.05)
    with pytest.raises(Refused, match="took too long") as caught:
        asyncio.run(worker.run(time.sleep, 0.3))
    assert caught.value.status == 503
    with worker.place(), pytest.raises(Refused, match="too much is asked at once"), worker.place():
        pass
    worker.close()


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
        (["--host", "no.such.host.invalid"], "there is no host 'no.such.host.invalid'"),
        (["--host", "203.0.113.7"], "cannot listen on 203.0.113.7"),
        (["--port", "99999"], "expected a whole number from 0 to 65535, got '99999'"),
    ],
)
def test_what_cannot_be_listened_on_is_one_line(
    hnets_command: Command, arguments: list[str], message: str
) -> None:
    done = hnets_command("demo", "--no-browser", *arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert message in done.err


def test_without_the_extra_it_says_what_to_install() -> None:
    program = (
        "import sys; sys.argv = ['hnets', 'demo']\n"
        "sys.modules['fastapi'] = None\n"
        "from hnets.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=False
    )
    expected = 'hnets: the page and its server need fastapi: pip install "hnets[web]"\n'
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


def test_an_interrupt_ends_it_without_a_word(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        assert server.ask("/").status == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
        assert server.process.stderr is not None
        assert server.process.stderr.read() == ""
