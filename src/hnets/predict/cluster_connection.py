"""A connection to a Ray cluster, and the workers that the cluster has room for."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from importlib import import_module
from typing import NamedTuple

import hnets
from hnets.data.image_file import stderr_discarded
from hnets.errors import InputError, reason

log = logging.getLogger(__name__)

PATIENCE = 120.0
"""Seconds to wait for room in the cluster."""
_ANSWER = 10.0
"""Seconds to wait for a cluster's first answer."""
_LOOK, _GONE = 10.0, 30.0
"""Seconds between looks at the head of a cluster, and without an answer before it is gone."""
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
"""The frame of HTTP/2 that both sides begin with: length (3 bytes), type 4, flags, stream."""


class Crew(NamedTuple):
    """The workers that have a network, and what each of them needs."""

    number: int
    cpus: float
    gpus: int
    threads: int

    @property
    def readers(self) -> int:
        """Tasks that read for them at the same time; as many others write."""
        return 2 * self.number if self.gpus else -(-self.number // 8)


@contextlib.contextmanager
def connected(address: str | None) -> Iterator[None]:
    """A connection to a Ray cluster, if there is none yet."""
    import ray

    if ray.is_initialized():
        yield
        return
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    address = address or os.environ.get("RAY_ADDRESS")
    try:
        address = _reached(address)
        with stderr_discarded():  # where Ray says that it heeds the level of its logs
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"the Ray cluster at {address}" if address else "a Ray cluster"
        raise InputError(
            f"cannot connect to {where} ({reason(error)}); give --ray HOST:PORT as ray start says"
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def _reached(address: str | None) -> str | None:
    """The address of a cluster, if one answers there; Ray itself would wait for minutes.

    Of a cluster that was killed Ray remembers the address. Unless that was asked for with "auto",
    a new one of this machine takes its place.
    """
    from ray._private.utils import read_ray_address

    place = read_ray_address() if address in (None, "auto") else address
    try:
        if place and (match := re.fullmatch(r"(ray://)?(.+):(\d+)", place)):
            _greet(match[2].strip("[]"), int(match[3]))
            if not match[1]:
                _ask(place)
    except OSError:
        if address is not None:
            raise
        log.warning("the Ray cluster at %s is gone: this machine works alone", place)
        return "local"
    return address


def _greet(host: str, port: int) -> None:
    """Begin to speak HTTP/2, as Ray does; an `OSError` if what listens there does not."""
    with socket.create_connection((host, port), timeout=_ANSWER) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return  # not in plain text
        try:
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _SETTINGS)
            answer = connection.recv(4)
        except TimeoutError:
            raise TimeoutError(f"what listens there has not answered in {_ANSWER:g} s") from None
    if answer[3:] != _SETTINGS[3:4]:
        raise ConnectionError("what listens there is not Ray")


def _ask(address: str) -> None:
    """See that the head of a cluster is there, and not another service that speaks HTTP/2."""
    from ray.exceptions import RpcError

    client = import_module("ray._raylet").GcsClient  # compiled: it has no types
    try:
        with stderr_discarded():
            client(address=address)
    except RpcError as error:
        message = f"what listens there is not the head of a Ray cluster: {reason(error)}"
        raise ConnectionError(message) from None


class HeadWatch:
    """Sees that the head of the cluster that this process is connected to still answers.

    A minute after it does not, Ray ends the process without a word.
    """

    def __init__(self) -> None:
        import ray
        from ray.util.client import ray as client

        # Through ray:// it cannot be reached from here, and Ray does not end the process.
        self.address = "" if client.is_connected() else ray.get_runtime_context().gcs_address
        self.looked = self.answered = time.monotonic()

    def look(self) -> None:
        """Call this often; an `InputError` if the head is gone."""
        now = time.monotonic()
        if not self.address or now - self.looked < _LOOK:
            return
        self.looked = now
        host, _, port = self.address.rpartition(":")
        try:
            _greet(host.strip("[]"), int(port))
            self.answered = now
        except OSError as error:
            if now - self.answered >= _GONE:
                raise InputError(
                    f"the head of the Ray cluster at {self.address} is gone ({reason(error)}); "
                    "start it again, and the job with --skip-existing"
                ) from None


def crew_of(device: str | None, workers: int | None) -> Crew:
    """As many workers as the cluster has GPUs, or CPUs but for those that read and write."""
    import ray

    resources = ray.cluster_resources()
    cpus, gpus = resources.get("CPU", 0), int(resources.get("GPU", 0))
    if device == "cuda" and not gpus:
        raise InputError("the Ray cluster has no GPU; add a machine with one, or use --device cpu")
    if not cpus:
        raise InputError("the Ray cluster has no CPU to offer; add a machine with ray start")
    if gpus and device != "cpu":
        number = workers or gpus
        crew = Crew(number, min(1, cpus / (2 * number)), 1, max(2, int(cpus / gpus) - 1))
    else:
        # Workers on all CPUs would leave none to those that read for them.
        number = workers or max(1, int(cpus) - max(1, round(cpus / 16)))
        crew = Crew(number, 1 if cpus > number else cpus / (2 * number), 0, 1)
    _check_room(crew)
    return crew


def _check_room(crew: Crew) -> None:
    """See that a worker can start, before work waits for it."""
    import ray
    from ray.exceptions import GetTimeoutError, RayError

    needs = f"{crew.cpus:g} CPU" + (" and a GPU" if crew.gpus else "")
    try:
        probe = ray.remote(num_cpus=crew.cpus, num_gpus=crew.gpus)(_version)
        version = ray.get(probe.remote(), timeout=PATIENCE)
    except GetTimeoutError:
        raise InputError(
            f"the Ray cluster has no room: {needs} did not get free in {PATIENCE:g} s; wait for "
            "other jobs or add a machine"
        ) from None
    except RayError as error:
        raise InputError(
            f"a worker of the Ray cluster cannot start ({reason(error)[-300:]}); install "
            "hnets on all machines"
        ) from None
    if version != hnets.__version__:
        raise InputError(
            f"expected hnets {hnets.__version__} on the machines of the Ray cluster, got "
            f"{version}; install the same version"
        )


def _version() -> str:
    return hnets.__version__
