"""The server of hnets demo in a process of its own, requests to it over HTTP, and files to send."""

import http.client
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image, ImageDraw


class Response(NamedTuple):
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Server(NamedTuple):
    """A running server, and its working and temporary folder."""

    port: int
    folder: Path
    process: "subprocess.Popen[str]"

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def request(
        self,
        path: str,
        body: bytes | None = None,
        method: str | None = None,
        timeout: float = 60,
        **headers: str,
    ) -> Response:
        """The response to a request; path and host are sent as they are, not normalised."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            method = method or ("GET" if body is None else "POST")
            connection.putrequest(method, path, skip_host="Host" in headers)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            for key, value in headers.items():
                connection.putheader(key, value)
            connection.endheaders(body)
            response = connection.getresponse()
            sent = {k.lower(): v for k, v in response.getheaders()}
            return Response(response.status, sent, response.read())
        finally:
            connection.close()


@contextmanager
def running(folder: Path, files: int | None = None) -> Iterator[Server]:
    """A server on a free port; its working and temporary folder is the empty ``folder``.

    With ``files``, it may open so many files at the same time.
    """
    command = [sys.executable, "-m", "hnets", "demo", "--port", "0", "--no-browser"]
    if files is not None:
        command = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *command]
    environment = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            line = process.stdout.readline()
            address = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
            assert address, line + process.stderr.read()
            yield Server(int(address[1]), folder, process)
        finally:
            process.kill()


def saved(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def seven(kind: str = "PNG") -> bytes:
    """A 7, light on black."""
    image = Image.new("L", (224, 224))
    draw = ImageDraw.Draw(image)
    draw.line([(65, 45), (158, 42), (102, 188)], fill=255, width=20, joint="curve")
    return saved(image, kind)
