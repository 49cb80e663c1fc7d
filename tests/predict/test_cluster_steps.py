"""What a cluster runs, in this process: rows from file to file, whoever dies."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hnets.errors import InputError
from hnets.predict import EdgeWorker, cluster_steps
from hnets.predict.batch import KINDS
from hnets.predict.cluster import _blocks, _in_parquet
from hnets.predict.cluster_steps import ClusterWorker, read_files, write_files
from hnets.predict.storage import Place
from photographs import fill

pytest.importorskip("ray", reason="needs Ray: pip install .[dev-cluster]")
pq = pytest.importorskip("pyarrow.parquet")


class Ledger:
    """What a ledger in the cluster is, in this process: calls have ``remote``."""

    def __init__(self) -> None:
        self.book = cluster_steps.Ledger()

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
    return lambda *kinds: ClusterWorker(ledger, {"device": "cpu", "kinds": kinds or ["edges"]})


def test_a_worker_computes_with_the_cpu_it_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[int]()
    monkeypatch.setattr("torch.set_num_threads", threads.append)
    ClusterWorker(Ledger(), {"device": "cpu"})
    assert threads == [1]


def test_rows_go_from_file_to_file(worker: Callable[..., Any], tmp_path: Path) -> None:
    begin, end = Place.of(str(tmp_path / "in")), Place.of(str(tmp_path / "out"))
    contents, broken = fill(begin, 14)
    Path(begin.path, "deep").mkdir()
    names = {name: name.removesuffix(".png") for name in [*contents, "deep"]}
    paths = {f"{begin.url}/{name}" for name in names}
    (table,) = _blocks(begin, names, paths, rows=64)
    edges = worker("edges", "npz")(read_files(table, begin))
    results = write_files(edges, end, ["edges", "npz"], parquet=False).to_pylist()
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
        for table in list(_blocks(begin, names, todo, rows=10))[:number]:
            write_files(one(read_files(table, begin)), end, kinds, parquet=True)

    run(2, paths)  # and then it is killed
    present = _in_parquet(end, end.files(), kinds, go_on=True)
    assert 0 < len(present) < len(good)
    run(2, paths)  # by workers that do not know yet that it was
    assert _in_parquet(end, end.files(), kinds, go_on=True) == present
    run(9, paths - present)
    assert _in_parquet(end, end.files(), kinds, go_on=True) == good
    rows = [path for name in end.files() for path in pq.read_table(Path(end.path, name))["path"]]
    assert len(rows) == len(good)
    with pytest.raises(InputError, match="holds Parquet files already; add --skip-existing"):
        _in_parquet(end, end.files(), kinds, go_on=False)
    with pytest.raises(InputError, match="has no column thin; give the options"):
        _in_parquet(end, end.files(), ["edges", "thin"], go_on=True)
    monkeypatch.delattr(Place, "read")  # of whole files
    assert _in_parquet(end, end.files(), kinds, go_on=True) == good
    name = end.files()[0]
    Path(end.path, name).write_bytes(b"PAR1 no more")
    with pytest.raises(InputError, match=f"{name} cannot be read"):
        _in_parquet(end, end.files(), kinds, go_on=True)


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
    (table,) = _blocks(begin, names, {f"{begin.url}/{name}" for name in names}, rows=64)
    table = read_files(table, begin)
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
    (table,) = _blocks(begin, names, {f"{begin.url}/{name}" for name in names}, rows=64)

    def full(*_: object) -> None:
        raise MemoryError("16 GiB are too much")

    monkeypatch.setattr(EdgeWorker, "detect", full)
    rows = worker()(read_files(table, begin)).to_pylist()
    errors = {row["error"] for row in rows}
    assert errors == {"its batch failed (MemoryError: 16 GiB are too much)"}


def test_a_full_disk_ends_the_job(
    worker: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin, end = Place.of(str(tmp_path)), Place.of(str(tmp_path / "out"))
    contents, _ = fill(begin, 1)
    (table,) = _blocks(begin, dict.fromkeys(contents, "a"), {f"{begin.url}/0/00000.png"}, 9)
    edges = worker()(read_files(table, begin))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Place, "write", full)
    for parquet in (False, True):
        (row,) = write_files(edges, end, ["edges"], parquet).to_pylist()
        assert row["fatal"]
        assert row["error"].endswith("cannot be written (No space left on device)")
