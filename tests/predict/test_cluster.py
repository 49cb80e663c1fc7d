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
from drawings import blobs
from hnets.errors import InputError
from hnets.predict import EdgeWorker, cluster
from hnets.predict.batch import KINDS
from hnets.predict.storage import Place

pytest.importorskip("ray", reason="needs Ray: pip install .[dev-cluster]")
pytest.importorskip("moto.server", reason="needs an S3 server: pip install .[dev-cluster]")
pq = pytest.importorskip("pyarrow.parquet")

ENVIRONMENT = {
    **os.environ,
    "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1",
    "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1",
}  # fmt: skip
WAIT = 180
"""Seconds after which a test gives up; on a quiet machine each step takes a few."""


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


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


def fill(place: Place, number: int) -> tuple[dict[str, bytes], set[str]]:
    """Images in folders, and the names of those among them that are broken."""
    contents, broken = dict[str, bytes](), set[str]()
    for index in range(number):
        file = io.BytesIO()
        Image.fromarray(np.roll(blobs(24, 32 + index % 3), index, axis=1)).save(file, "png")
        name, content = f"{index % 7}/{index:05}.png", file.getvalue()
        if index % 10 == 3:
            content = (b"", b"no image", content[: len(content) // 2])[index // 10 % 3]
            broken.add(name)
        contents[name] = content
    with cluster.ThreadPoolExecutor(16) as pool:
        list(pool.map(place.write, contents.keys(), contents.values()))
    return contents, broken


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


# Without a cluster --------------------------------------------------------------------------------


class Ledger:
    """What a ledger in the cluster is, in this process: calls have ``remote``."""

    def __init__(self) -> None:
        self.book = cluster._Ledger()

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self.book, name))


class Died(BaseException):
    """The end of a worker."""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Makes workers of a cluster in this process, which have one ledger."""
    monkeypatch.setattr("ray.get", lambda value: value)
    monkeypatch.setattr("torch.set_num_threads", lambda number: None)  # for the tests that follow
    ledger = Ledger()
    return lambda *kinds: cluster._Worker(ledger, {"device": "cpu", "kinds": kinds or ["edges"]})


def test_a_worker_computes_with_the_cpu_it_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[int]()
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    cluster._Worker(Ledger(), {"device": "cpu"})
    assert threads == [1]


def test_rows_go_from_file_to_file(worker: Callable[..., Any], tmp_path: Path) -> None:
    begin, end = Place.of(str(tmp_path / "in")), Place.of(str(tmp_path / "out"))
    contents, broken = fill(begin, 14)
    Path(begin.path, "deep").mkdir()
    names = {name: name.removesuffix(".png") for name in [*contents, "deep"]}
    paths = {f"{begin.url}/{name}" for name in names}
    (table,) = cluster._blocks(begin, names, paths, rows=64)
    edges = worker("edges", "npz")(cluster._read(table, begin))
    results = cluster._write(edges, end, ["edges", "npz"], parquet=False).to_pylist()
    failed = {row["path"] for row in results if row["error"]}
    assert failed == {f"{begin.url}/{name}" for name in [*broken, "deep"]}
    assert not any(row["fatal"] for row in results)
    good = sorted(names[name] for name in contents.keys() - broken)
    assert end.files() == sorted(
        f"{name}{KINDS[kind]}" for name in good for kind in ("edges", "npz")
    )
    with np.load(Path(end.path, f"{good[0]}.edges.npz")) as arrays:
        assert arrays["magnitude"].shape == (24, 32)


def test_parquet_files_have_each_row_once_however_often_they_are_written(
    worker: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, end = Place.of(str(tmp_path / "in")), Place.of(str(tmp_path / "out"))
    contents, broken = fill(begin, 24)
    names = dict.fromkeys(sorted(contents), "")
    paths = {f"{begin.url}/{name}" for name in names}
    good = paths - {f"{begin.url}/{name}" for name in broken}
    kinds, one = ["edges"], worker()

    def run(number: int, todo: set[str]) -> None:
        for table in list(cluster._blocks(begin, names, todo, rows=10))[:number]:
            cluster._write(one(cluster._read(table, begin)), end, kinds, parquet=True)

    run(2, paths)  # and then it is killed
    present = cluster._in_parquet(end, end.files(), kinds, go_on=True)
    assert 0 < len(present) < len(good)
    run(2, paths)  # by workers that do not know yet that it was
    assert cluster._in_parquet(end, end.files(), kinds, go_on=True) == present
    run(9, paths - present)
    assert cluster._in_parquet(end, end.files(), kinds, go_on=True) == good
    rows = [path for name in end.files() for path in pq.read_table(Path(end.path, name))["path"]]
    assert len(rows) == len(good)
    with pytest.raises(InputError, match="holds Parquet files already; add --skip-existing"):
        cluster._in_parquet(end, end.files(), kinds, go_on=False)
    with pytest.raises(InputError, match="has no column thin; give the options"):
        cluster._in_parquet(end, end.files(), ["edges", "thin"], go_on=True)
    monkeypatch.delattr(Place, "read")  # of whole files
    assert cluster._in_parquet(end, end.files(), kinds, go_on=True) == good
    name = end.files()[0]
    Path(end.path, name).write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        cluster._in_parquet(end, end.files(), kinds, go_on=True)


def test_an_image_that_workers_die_of_fails_alone(
    worker: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Place.of(str(tmp_path))
    contents, _ = fill(begin, 3)
    names = dict.fromkeys(sorted(contents), "")
    deaths, call = list[str](), EdgeWorker.__call__

    def die(self: EdgeWorker, batch: Any) -> Any:
        if any(path.endswith("1.png") for path in batch["path"]):
            deaths.append(batch["path"])
            raise Died
        return call(self, batch)

    monkeypatch.setattr(EdgeWorker, "__call__", die)
    (table,) = cluster._blocks(begin, names, {f"{begin.url}/{name}" for name in names}, rows=64)
    table = cluster._read(table, begin)
    one = worker()  # stands for all of them: what they share is the ledger
    for _ in range(3):
        with pytest.raises(Died):
            one(table)
    rows = one(table).to_pylist()
    assert [row["error"] for row in rows] == [
        None, f"{begin.url}/1/00001.png has let 3 workers die", None
    ]  # fmt: skip
    assert [len(paths) for paths in deaths] == [3, 1, 1]


def test_a_batch_that_fails_is_said_of_its_images(
    worker: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = Place.of(str(tmp_path))
    contents, _ = fill(begin, 2)
    names = dict.fromkeys(contents, "")
    (table,) = cluster._blocks(begin, names, {f"{begin.url}/{name}" for name in names}, rows=64)

    def full(*_: object) -> None:
        raise MemoryError("16 GiB are too much")

    monkeypatch.setattr(EdgeWorker, "detect", full)
    rows = worker()(cluster._read(table, begin)).to_pylist()
    errors = {row["error"] for row in rows}
    assert errors == {"its batch failed (MemoryError: 16 GiB are too much)"}


def test_a_full_disk_ends_the_job(
    worker: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, end = Place.of(str(tmp_path)), Place.of(str(tmp_path / "out"))
    contents, _ = fill(begin, 1)
    (table,) = cluster._blocks(begin, dict.fromkeys(contents, "a"), {f"{begin.url}/0/00000.png"}, 9)
    edges = worker()(cluster._read(table, begin))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Place, "write", full)
    for parquet in (False, True):
        (row,) = cluster._write(edges, end, ["edges"], parquet).to_pylist()
        assert row["fatal"]
        assert row["error"].endswith("cannot be written (No space left on device)")


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
    monkeypatch.setattr(cluster, "_check_room", lambda crew: None)
    crew = cluster._crew(device, None)
    assert crew[:3] == expected
    others = resources["CPU"] - crew.number * crew.cpus
    assert others >= 2 * cluster._SHARE
    assert crew.gpus or others >= 2 * cluster._SHARE * crew.readers


def test_a_cluster_that_has_not_what_it_takes_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.cluster_resources", lambda: {"memory": 1e9})
    with pytest.raises(InputError, match=r"^the Ray cluster has no CPU to offer; add a machine"):
        cluster._crew(None, None)
    with pytest.raises(
        InputError, match=r"^the Ray cluster has no GPU; add a machine with one, or"
    ):
        cluster._crew("cuda", None)


def test_a_cluster_without_room_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import GetTimeoutError, RaySystemError

    crew = cluster._Crew(1, 1, 1, 2)
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
            cluster._check_room(crew)
        assert "\n" not in str(caught.value)


def test_a_cluster_that_is_gone_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Ray remembers the address of a cluster that was killed."""
    nobody = f"127.0.0.1:{free_port()}"
    monkeypatch.setattr("ray._private.utils.read_ray_address", lambda: nobody)
    with caplog.at_level("WARNING"):
        assert cluster._reached(None) == "local"
    assert caplog.messages == [f"the Ray cluster at {nobody} is gone: this machine works alone"]
    with pytest.raises(ConnectionRefusedError):
        cluster._reached("auto")
    monkeypatch.setattr("ray._private.utils.read_ray_address", lambda: None)
    assert (cluster._reached(None), cluster._reached("auto")) == (None, "auto")


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
        ("in -o in/0/00000.png --ray", "in/0/00000.png cannot be written"),
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
