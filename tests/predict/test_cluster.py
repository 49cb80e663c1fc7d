"""Edges by a Ray cluster: nothing lost, nothing twice, whoever dies.

The cluster is two nodes of one CPU each, the bucket one of a server on this machine, and the jobs
are processes of their own. ``pytest tests/predict/test_cluster.py --long`` takes 2,000 images.
"""

import contextlib
import csv
import io
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from commands import Command
from hnets.errors import Unwritable
from hnets.predict import EdgeWorker, cluster
from hnets.predict.batch import KINDS
from hnets.predict.cluster_connection import Crew
from hnets.predict.storage import Place
from photographs import fill
from processes import free_port

pytest.importorskip("ray", reason="needs Ray: pip install .[dev-cluster]")
pytest.importorskip("moto.server", reason="needs an S3 server: pip install .[dev-cluster]")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ENVIRONMENT = {
    **os.environ,
    "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
    "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1",
}  # fmt: skip
WAIT = 180
"""Seconds after which a test gives up; on a quiet machine each step takes a few."""


def until(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """What the condition gives, as soon as that is true."""
    end = time.monotonic() + WAIT
    while not (value := condition()):
        assert time.monotonic() < end, "waited too long"
        assert process is None or process.poll() is None, "the process ended too early"
        time.sleep(0.2)
    return value


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def descendants(processes: list[subprocess.Popen[str]], title: bytes = b"") -> list[int]:
    """The processes that some have started, and those of these, if a text is in their title."""
    ancestors, found = {process.pid for process in processes}, list[int]()
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and title in (entry / "cmdline").read_bytes():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                while parent > 1 and parent not in ancestors:
                    stat = Path(f"/proc/{parent}/stat").read_text()
                    parent = int(stat.rpartition(")")[2].split()[1])
                found += [int(entry.name)] if parent in ancestors else []
        except OSError:  # it has just ended
            continue
    return found


@pytest.fixture(scope="module")
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that end with the tests."""
    started = list[subprocess.Popen[str]]()
    yield started
    for process in descendants(started):  # Ray's own way to stop takes half a minute
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    for node in started:
        node.kill()
        node.wait(WAIT)


@pytest.fixture(scope="module")
def ray_folder() -> Iterator[str]:
    """Where Ray puts its sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.fixture(scope="module")
def ray_address(ray_folder: str, processes: list[subprocess.Popen[str]]) -> str:
    """A cluster of two nodes, each with one CPU."""
    address = f"127.0.0.1:{free_port()}"
    start = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--num-cpus=1",
             "--object-store-memory=100000000"]  # fmt: skip
    head = [*start, "--head", f"--port={address.split(':')[1]}", "--include-dashboard=false",
            f"--temp-dir={ray_folder}"]  # fmt: skip
    for command in (head, [*start, f"--address={address}"]):
        node = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True,
            env=ENVIRONMENT,
        )  # fmt: skip
        processes.append(node)
        until(lambda: listens(int(address.split(":")[1])), node)
    return address


@pytest.fixture(scope="module")
def bucket(processes: list[subprocess.Popen[str]]) -> Iterator[Callable[[str], str]]:
    """The URL of a folder in a bucket, on a server of this machine."""
    port = free_port()
    serve = "from moto.server import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", serve, "-p", str(port)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT,
    )  # fmt: skip
    processes.append(server)
    until(lambda: listens(port), server)
    options = f"?scheme=http&endpoint_override=127.0.0.1:{port}&allow_bucket_creation=true"
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_REGION"):
            patch.setenv(name, ENVIRONMENT[name])
        place = Place.of(f"s3://images{options}")
        place.filesystem.create_dir("images")
        yield lambda folder: f"s3://images/{folder}{options}"


def job(source: str, target: str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "hnets", "edges", source, "-o", target, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip


def report_of(place: Place) -> dict[str, str]:
    rows = csv.DictReader(io.StringIO(place.read(cluster.REPORT).decode()))
    return {row["path"]: row["error"] for row in rows}


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds workers in /proc")
@pytest.mark.parametrize("parquet", [False, True], ids=["images", "parquet"])
def test_nothing_is_lost_and_nothing_is_twice(
    pytestconfig: pytest.Config,
    processes: list[subprocess.Popen[str]],
    ray_address: str,
    bucket: Callable[[str], str],
    parquet: bool,
) -> None:
    long = pytestconfig.getoption("--long")
    if parquet and not long:
        pytest.skip("needs minutes: pytest --long")
    source, target = bucket("photos"), bucket("maps.parquet" if parquet else "maps")
    begin, end = Place.of(source), Place.of(target)
    contents, broken = fill(begin, 2000 if long else 48)
    first = job(source, target, "--ray", ray_address)

    def written() -> list[str]:
        return [name for name in end.files() if name != cluster.REPORT]

    until(lambda: len(written()) >= 2, first)
    for worker in until(lambda: descendants(processes, b"MapWorker"), first):
        os.kill(worker, signal.SIGKILL)
    before = len(written())
    until(lambda: len(written()) > before, first)
    first.kill()
    first.communicate()
    before = len(written())
    assert before < len(contents)
    out, err = job(source, target, "--ray", ray_address, "--skip-existing").communicate()
    good = len(contents) - len(broken)
    assert err == f"hnets: {len(broken)} images failed; {end.url}/{cluster.REPORT} says why\n", err
    assert f" {len(broken)} failed, " in out
    assert int(out.split()[-2]) > 0, "nothing was left out"
    assert report_of(end).keys() == {f"{begin.url}/{name}" for name in broken}
    if parquet:
        assert all(name.endswith(".parquet") for name in written())
        tables = [pq.read_table(io.BytesIO(end.read(name))) for name in written()]
        rows = [row for table in tables for row in table.to_pylist()]
        edges = {row["path"].removeprefix(f"{begin.url}/"): row["edges"] for row in rows}
        assert len(rows) == good
    else:
        assert sorted(written()) == sorted(
            name.removesuffix(".png") + KINDS["edges"] for name in contents.keys() - broken
        )
        edges = {}
    assert edges.keys() in ({}.keys(), contents.keys() - broken)
    sample = sorted(contents.keys() - broken)[:: max(1, good // 20)]
    expected = EdgeWorker(device="cpu")(
        {"path": sample, "bytes": [contents[name] for name in sample]}
    )
    for name, content in zip(sample, expected["edges"], strict=True):
        ours = edges[name] if parquet else end.read(name.removesuffix(".png") + KINDS["edges"])
        difference = np.subtract(
            *(np.asarray(Image.open(io.BytesIO(each)), int) for each in (ours, content))
        )
        assert np.abs(difference).max() <= 1


def test_a_job_that_is_interrupted_says_so_and_nothing_else(
    ray_address: str, tmp_path: Path
) -> None:
    source, target = Place.of(str(tmp_path / "in")), Place.of(str(tmp_path / "out"))
    fill(source, 200)
    interrupted = job(source.url, target.url, "--ray", ray_address)
    until(lambda: len(target.files()) > 2, interrupted)
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=WAIT)
    assert (interrupted.returncode, err) == (130, "hnets: stopped\n")


# Without a cluster --------------------------------------------------------------------------------


def test_a_full_disk_ends_the_work_before_the_job_leaves_the_cluster(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else Ray starts a cluster for the work that is left, once the job has left its own."""
    monkeypatch.setattr(cluster, "HeadWatch", lambda: SimpleNamespace(look=lambda: None))
    events = list[str]()

    def batches(**_: object) -> Iterator[Any]:
        try:
            for path in ("a", "b", "c"):
                events.append(path)
                yield pa.table({"path": [path], "error": ["full"], "fatal": [path == "b"]})
        finally:
            time.sleep(0.2)
            events.append("closed")

    results = cluster._results(SimpleNamespace(iter_batches=batches), Crew(1, 1, 0, 1))
    assert next(results) == ("a", "full")
    with pytest.raises(Unwritable, match="full"):
        next(results)
    assert events == ["a", "b", "closed"]


def test_a_full_disk_is_exit_code_1_as_without_a_cluster(
    hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    fill(Place.of("in"), 1)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Place, "write", full)
    done = hnets_command("edges", "in", "-o", "out", "--ray")
    assert done == (1, "", "hnets: out cannot be written (No space left on device)\n")


@pytest.mark.skipif(sys.platform == "win32", reason="needs names of any bytes")
def test_what_cannot_be_listed_is_a_row_of_the_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(str(tmp_path / "in"))
    place.write("a.png", b"")
    Path(os.fsdecode(os.fsencode(place.path) + b"/\xff.png")).touch()
    locked = {"x/locked": "Permission denied", ".cache/locked": "Permission denied"}
    files = Place.files

    def listed(self: Place, errors: dict[str, str]) -> list[str]:
        errors |= locked
        return files(self)

    monkeypatch.setattr(Place, "files", listed)
    _, names, errors = cluster._images(place)
    assert names == {"a.png": "a"}
    assert errors == {
        f"{place.url}/x/locked": f"{place.url}/x/locked cannot be read (Permission denied)",
        f"{place.url}/\udcff.png": f"{place.url}/\udcff.png has a name that is not UTF-8, as texts "
        "in tables of Ray are; rename it",
    }
    assert rb"\udcff.png" in cluster._report(errors.items())


def test_what_is_wrong_is_one_line(
    hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    fill(Place.of("in"), 1)
    Path("empty").mkdir()
    nobody = f"127.0.0.1:{free_port()}"
    for arguments, message in (
        (f"in --ray {nobody}", f"cannot connect to the Ray cluster at {nobody} (.*refused)"),
        (f"--ray {nobody} in", f"cannot connect to the Ray cluster at {nobody} (.*refused)"),
        ("empty --ray", "there is no image in the folder empty; expected files that end in .png"),
        ("--ray missing", "there is no image in the folder missing; expected files"),
        ("nowhere://x --ray", "cannot use nowhere://x (Protocol not known: nowhere)"),
        ("in empty --ray", ".*expected one folder, image or URL with --ray, got in empty; an"),
        ("- --ray", ".*expected one folder, image or URL with --ray, got -; an address is"),
        ("in --ray --device moon", "workers of a Ray cluster compute on cpu or cuda, got 'moon'"),
        ("in -o - --ray", ".*expected a folder or URL with --ray, got stdout; give one with -o"),
        (
            "in -o in/0/00000.png --ray",
            ".*expected a folder to write to, got 'in/0/00000.png' (Not",
        ),
        ("s3://bucket/photos", ".*expected --ray with s3://bucket/photos; add it"),
        ("in --parquet", ".*expected --ray with --parquet; add it"),
    ):
        done = hnets_command("edges", *arguments.split())
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), done.err
        pattern = re.escape(f"hnets: {message}").replace(r"\.\*", ".*")
        assert re.match(pattern, done.err), done.err
    monkeypatch.setitem(sys.modules, "ray", None)
    done = hnets_command("edges", "in", "--ray")
    assert (done.code, done.err) == (2, 'hnets: clusters need Ray: pip install "hnets[cluster]"\n')
