"""The server of hnets demo: what it returns and what it refuses, over real HTTP."""

import io
import random
import re
import struct
import threading
import zlib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from webserver import Server, saved, seven

pytest.importorskip("fastapi", reason='needs fastapi: pip install "hnets[web]"')

from hnets.web import guard
from hnets.web.payloads import drawing

STATIC = Path(guard.__file__).parent / "static"


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


# What it returns -----------------------------------------------------------------------------


def test_the_page_is_complete_and_loads_nothing_from_elsewhere(server: Server) -> None:
    names = {path.name for path in STATIC.iterdir()}
    assert names > {"index.html", "page.css", "main.js"}
    for name in names:
        response = server.request("/" if name == "index.html" else f"/{name}")
        assert (response.status, response.body) == (200, (STATIC / name).read_bytes())
        assert response.headers["x-content-type-options"] == "nosniff"
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "http" not in policy
        assert "unsafe" not in policy
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
        for file in re.findall(r'(?:src|href|from) ?=? ?"\./?([\w.]+)"', text):
            assert file in names


def test_the_prediction_stays_and_phases_advance_by_the_order(server: Server) -> None:
    plain = set()
    for angle in (0.0, 40.0, 90.0, 200.0):
        prediction = server.request(f"/api/digit?angle={angle}", seven()).json
        assert prediction["hnet"]["digit"] == prediction["upright"]["hnet"]["digit"] == 7
        assert len(prediction["hnet"]["probabilities"]) == 10
        plain.add(prediction["plain"]["digit"])
        for sent in prediction["maps"]:
            off = (sent["phase"] - sent["order"] * angle + 180) % 360 - 180
            assert abs(off) < 12
            assert 0 < sent["height"] == sent["width"]
    assert 7 in plain
    assert len(plain) > 1, "the plain CNN should fail at some angle"


def test_predictions_over_a_full_rotation(server: Server) -> None:
    predictions = server.request("/api/round", seven()).json
    assert predictions["angles"] == list(range(0, 360, 10))
    assert set(predictions["hnet"]) == {7}
    assert len(set(predictions["plain"])) > 1


@pytest.mark.parametrize("layer", range(1, 8))
def test_maps_filters_and_phases_of_every_layer(server: Server, layer: int) -> None:
    about = server.request("/api/about").json["layers"][layer - 1]
    for order in about["orders"]:
        query = f"layer={layer}&order={order}"
        fields = server.request(f"/api/fields?{query}", seven()).json
        count = int(re.findall(rf"(\d+)x{order}", about["streams"])[0])
        assert fields["count"] == count
        filters = server.request(f"/api/filters?{query}").json
        assert [kind["order"] for kind in filters["kinds"]] == [
            order - kind["from"] for kind in filters["kinds"]
        ]
        # The last layer has no phases.
        assert sum(filters["histogram"]) == (about["filters"] if layer < 7 else 0)


def test_edges_of_an_image_and_of_a_rotated_one(server: Server) -> None:
    sample = server.request("/api/sample").body
    images = server.request("/api/edges", sample).json
    assert max(images["width"], images["height"]) <= 480
    assert {"image", "edges", "orientation", "thin", "overlay"} <= images.keys()
    arrays = np.load(io.BytesIO(server.request("/api/edges.npz", sample).body))
    assert arrays["magnitude"].shape == (images["height"], images["width"])
    assert server.request("/api/turned?angle=90", sample).json["error"] < 1e-3
    assert server.request("/api/turned?angle=25", sample).json["error"] < 0.5


# What it refuses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/edges", b"", 400, "the request has no image"),
        ("/api/edges", b"hello", 415, "not a PNG, JPEG, WebP, GIF or BMP"),
        ("/api/edges", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", 415, "not a PNG"),
        ("/api/edges", seven()[:-200], 400, "damaged"),
        ("/api/edges", bomb(), 413, "more than 24 million pixels"),
        ("/api/edges", bomb(5_000), 413, "more than 24 million pixels"),
        ("/api/edges", b"\xff\xd8" + 500 * b"\xff\xda", 400, "damaged"),
        ("/api/edges", bytes(12 * 2**20 + 1), 413, "larger than 12 MB"),
        ("/api/edges", saved(Image.new("RGB", (5, 5))), 400, "at least 16×16"),
        ("/api/digit", bytes(2**20 + 1), 413, "larger than 1 MB"),
        ("/api/digit", saved(Image.new("L", (99, 99))), 400, "no digit"),
        ("/api/digit?angle=nan", seven(), 400, "angle: "),
        ("/api/digit?angle=x", seven(), 400, "angle: "),
        ("/api/digit?layer=8", seven(), 400, "layer: "),
        ("/api/fields?order=2", seven(), 400, "order: "),
        ("/api/turned?angle=1e9", seven(), 400, "angle: "),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_unusable_requests_are_refused_in_one_line(
    server: Server, path: str, body: bytes, status: int, message: str
) -> None:
    response = server.request(path, body)
    assert (response.status, message in response.json["error"]) == (status, True), response
    assert "\n" not in response.json["error"]


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/%2e%2e/app.py", "/static/..%2f..%2fapp.py", "//etc/passwd", "/index.html/",
     "/..%5capp.py", "/docs", "/openapi.json"],
)  # fmt: skip
def test_no_path_leads_to_another_file(server: Server, path: str) -> None:
    response = server.request(path)
    assert response.status == 404
    assert response.json == {"error": "Not Found"}


def test_other_hosts_and_other_pages_are_refused(server: Server) -> None:
    ours = f"127.0.0.1:{server.port}"
    assert server.request("/", Host=f"localhost:{server.port}").status == 200
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
        "",
        "[",
        "a b",
        "127.0.0.1@evil.example",
    ):
        assert server.request("/", Host=host).status == 400, host
    assert server.request("/api/round", seven(), Origin=f"http://{ours}").status == 200
    for origin in ("https://evil.example", "null", f"http://{ours}.evil.example", "http://["):
        response = server.request("/api/round", seven(), Origin=origin)
        assert (response.status, response.headers["cache-control"]) == (403, "no-store")
    assert server.request("/api/round").status == 405
    assert server.request("/api/round", seven(), method="DELETE").status == 405


def test_broken_files_are_refused_or_read_and_never_break_the_server(server: Server) -> None:
    """Files of five formats with bytes changed, cut, doubled and mixed."""
    generator = random.Random(5)
    intact = [seven(kind) for kind in ("PNG", "JPEG", "WEBP", "GIF", "BMP")]
    statuses: Counter[int] = Counter()
    for _ in range(60):
        file = bytearray(generator.choice(intact))
        for _ in range(generator.randint(1, 8)):
            at = generator.randrange(len(file))
            match generator.randrange(4):
                case 0:
                    file[at] = generator.randrange(256)
                case 1 if len(file) > 20:
                    del file[at : at + generator.randrange(1, 400)]
                    file = file or bytearray(b"x")
                case 2:
                    file[at:at] = generator.randbytes(generator.randrange(1, 40))
                case _:
                    file[at : at + 50] = generator.choice(intact)[at : at + 50] or b"?"
        response = server.request("/api/digit", bytes(file))
        assert response.status == 200 or len(response.json["error"].splitlines()) == 1
        statuses[response.status] += 1
    assert set(statuses) <= {200, 400, 413, 415}, statuses
    assert server.request("/api/digit", seven()).status == 200


def test_two_hundred_at_once_are_served_or_refused_with_retry_after(server: Server) -> None:
    body, gate = seven(), threading.Barrier(200)

    def send(_: int) -> tuple[int, bool]:
        gate.wait()
        response = server.request("/api/digit?angle=33", body)
        return response.status, "retry-after" in response.headers

    with ThreadPoolExecutor(200) as crowd:
        statuses = Counter(crowd.map(send, range(200)))
    assert set(statuses) <= {(200, False), (503, True)}
    assert statuses[200, False] >= 32
    assert server.request("/api/digit", body).status == 200


def test_nothing_is_written_to_disk(server: Server) -> None:
    server.request("/api/digit", seven())
    large = drawing().resize((900, 600))
    server.request("/api/edges", saved(large, "BMP"))  # 1.6 MB, more than forms hold in memory
    assert not list(server.folder.iterdir())
