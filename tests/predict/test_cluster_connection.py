"""Connections to Ray clusters: who answers there, and how many workers they have room for."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from hnets.errors import InputError
from hnets.predict import cluster_connection
from hnets.predict.cluster import _SHARE
from hnets.predict.cluster_connection import Crew, HeadWatch, _reached, connected, crew_of
from processes import free_port

pytest.importorskip("ray", reason="needs Ray: pip install .[dev-cluster]")


@pytest.mark.parametrize(
    ("resources", "device", "expected"),
    [
        ({"CPU": 1}, None, (1, 0.5, 0)),
        ({"CPU": 2}, None, (1, 1, 0)),
        ({"CPU": 16}, None, (15, 1, 0)),
        ({"CPU": 64}, None, (60, 1, 0)),
        ({"CPU": 16, "GPU": 2}, None, (2, 1, 1)),
        ({"CPU": 2, "GPU": 2}, None, (2, 0.5, 1)),
        ({"CPU": 16, "GPU": 2}, "cpu", (15, 1, 0)),
    ],
)
def test_workers_leave_room_for_those_that_read(
    resources: dict[str, float], device: str | None, expected: tuple[int, float, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("ray.cluster_resources", lambda: resources)
    monkeypatch.setattr(cluster_connection, "_check_room", lambda crew: None)
    crew = crew_of(device, None)
    assert crew[:3] == expected
    others = resources["CPU"] - crew.number * crew.cpus
    assert others >= 2 * _SHARE
    assert crew.gpus or others >= 2 * _SHARE * crew.readers


def test_a_cluster_that_has_not_what_it_takes_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: {"memory": 1e9})
    with pytest.raises(InputError, match=r"^the Ray cluster has no CPU to offer; add a machine"):
        crew_of(None, None)
    with pytest.raises(
        InputError, match=r"^the Ray cluster has no GPU; add a machine with one, or"
    ):
        crew_of("cuda", None)


def test_a_cluster_without_room_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import GetTimeoutError, RaySystemError

    crew = Crew(1, 1, 1, 2)
    probe = SimpleNamespace(remote=lambda: "reference")
    monkeypatch.setattr("ray.remote", lambda **_: lambda function: probe)
    for answer, message in (
        (GetTimeoutError(), "the Ray cluster has no room: 1 CPU and a GPU did not get free in 120"),
        (RaySystemError("No module\nnamed 'hnets'"), "a worker of the .*No module named 'hnets'"),
        ("0.0.1", r"expected hnets 0\.1\.0 on the machines of the Ray cluster, got 0\.0\.1"),
    ):

        def get(reference: str, timeout: float, answer: Any = answer) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr("ray.get", get)
        with pytest.raises(InputError, match=f"^{message}") as caught:
            cluster_connection._check_room(crew)
        assert "\n" not in str(caught.value)


def test_a_cluster_that_is_gone_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray remembers the address of a cluster that was killed."""
    nobody = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr("ray._private.utils.read_ray_address", lambda: nobody)
    with caplog.at_level("WARNING"):
        assert _reached(None) == "local"
    assert caplog.messages == [f"the Ray cluster at {nobody} is gone: this machine works alone"]
    with pytest.raises(ConnectionRefusedError):
        _reached("auto")
    monkeypatch.setattr("ray._private.utils.read_ray_address", lambda: None)
    assert (_reached(None), _reached("auto")) == (None, "auto")


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """The address of a server that gives one answer to whoever comes, or none at all."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):  # it is closed in the end
                while True:
                    client, _ = server.accept()
                    clients.append(client)
                    if answer is not None:
                        client.recv(100)
                        client.sendall(answer)
                        client.close()

        clients = list[socket.socket]()
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for client in clients:
            client.close()


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.0 505 HTTP Version Not Supported\r\n\r\n", "what listens there is not Ray"),
        (b"", "what listens there is not Ray"),
        (None, "what listens there has not answered in 0.5 s"),
    ],
)
def test_what_is_not_ray_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, answer: bytes | None, message: str, scheme: str
) -> None:
    """Ray itself waits for minutes, without a word."""
    monkeypatch.setattr(cluster_connection, "_ANSWER", 0.5)
    with listening(answer) as address:
        pattern = f"^cannot connect to the Ray cluster at {scheme}{address} .{message}.; give --ray"
        with pytest.raises(InputError, match=pattern), connected(scheme + address):
            pass


def test_another_service_of_grpc_is_not_waited_for() -> None:
    grpc = pytest.importorskip("grpc")
    server = grpc.server(ThreadPoolExecutor(1))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        pattern = f"^cannot connect to the Ray cluster at {address} .what listens there is not the"
        with pytest.raises(InputError, match=pattern), connected(address):
            pass
    finally:
        server.stop(0)


def test_a_head_that_is_gone_for_half_a_minute_ends_the_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray ends the process a minute after, without a word."""
    address, now, answers = f"127.0.0.1:{free_port()}", 0.0, list[bool]()
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setattr("ray.get_runtime_context", lambda: SimpleNamespace(gcs_address=address))
    greet = cluster_connection._greet

    def greeted(host: str, port: int) -> None:
        answers.append(now == 20)  # once it comes back
        if not answers[-1]:
            greet(host, port)

    monkeypatch.setattr(cluster_connection, "_greet", greeted)
    head = HeadWatch()
    while now < 50:
        head.look()
        now += 1
    assert answers == [False, True, False, False], "it is asked every ten seconds"
    message = f"the head of the Ray cluster at {address} is gone .*refused.; start it again, and"
    with pytest.raises(InputError, match=message):
        head.look()
