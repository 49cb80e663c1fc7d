"""The edges of images by a Ray cluster: any number of images, machines and GPUs.

Tasks read files, a pool of actors with one network each takes them to edges, and tasks write them.
Each output appears when it is complete, under a name that depends on its input alone: work that is
done twice, because a worker died or the job was started again, is there once.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import logging
import os
import queue
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hnets
from hnets.data.image_file import stderr_discarded
from hnets.errors import InputError, MissingExtra, reason
from hnets.predict import EDGE_MODEL
from hnets.predict.batch import FOR_ALL, KINDS, EdgeWorker, is_image_name, no_images, output_names
from hnets.predict.storage import Place

if TYPE_CHECKING:
    from torch import nn

log = logging.getLogger(__name__)

REPORT = "_report.csv"
"""The file beside the output that lists the images that failed, and why."""
PATIENCE = 120.0
"""Seconds to wait for room in the cluster."""
ROWS = 64
"""Images per task at most, and per file of Parquet."""
_SHARE = 0.25
"""CPUs of a task that reads or writes: it waits for disks and networks."""
_AT_ONCE = 16
"""Files that a task reads or writes at the same time."""
_DEATHS = 2
"""How many workers may die of one image before it counts as one that failed."""


class Outcome(NamedTuple):
    """What became of a job."""

    written: int
    failed: int
    skipped: int
    seconds: float
    report: str
    """Where the images that failed are listed, as ``path,error``."""


def edges_on_ray(
    source: str,
    target: str,
    kinds: Sequence[str] = ("edges",),
    scales: Sequence[float] = (1.0,),
    device: str | None = None,
    address: str | None = None,
    parquet: bool = False,
    skip_existing: bool = False,
    workers: int | None = None,
    weights: nn.Module | str | os.PathLike[str] = EDGE_MODEL,
    begin: Callable[[int], Callable[[str], None]] = lambda total: lambda path: None,
) -> Outcome:
    """Write the edges of the images in a folder to another one, by a Ray cluster.

    Args:
        source: a folder, which is searched with those in it, or one image: a path that all machines
            of the cluster see, or a URL such as ``s3://bucket/photos``.
        target: a folder likewise, which mirrors the source.
        kinds: names in `KINDS`.
        scales: that images are resized to; the outputs are averaged.
        device: ``"cuda"`` or ``"cpu"``; by default GPUs if the cluster has any.
        address: of the cluster, as ``HOST:PORT``; by default that in ``RAY_ADDRESS``, or one that
            this machine belongs to, or else a new one of this machine alone.
        parquet: write Parquet files, rows of ``path`` and the kinds, in place of images.
        skip_existing: whether to leave out what the target has already.
        workers: that have a network; by default one per GPU, or per CPU but for those that read.
        weights: as `EdgeDetector` takes them; read here, so that workers need no file.
        begin: is called with the number of images, and what it returns with each that is done.
    """
    try:
        import ray.data
    except ImportError:
        raise MissingExtra("clusters", "Ray", "cluster") from None
    from hnets.predict.edge_detector import edge_network

    if device not in (None, "cpu", "cuda"):
        raise InputError(f"workers of a Ray cluster compute on cpu or cuda, got {device!r}")
    network, start, end = edge_network(weights), Place.of(source), Place.of(target)
    start, names = _images(start)
    outputs = {start.at(name): output for name, output in names.items()}
    existing = set(end.files(empty=False)) if skip_existing or parquet else set[str]()
    if parquet:
        present = _in_parquet(end, existing, kinds, skip_existing) & outputs.keys()
    else:
        present = {
            path
            for path, output in outputs.items()
            if existing.issuperset(f"{output}{KINDS[kind]}" for kind in kinds)
        }
    todo = outputs.keys() - present
    with end.errors("written"):  # before any work is done for it
        end.write(REPORT, _report([]))
    errors, done, began = dict[str, str](), set[str](), time.monotonic()
    if todo:
        with _connected(address):
            crew = _crew(device, workers)
            rows = ROWS if parquet else min(ROWS, -(-len(todo) // (4 * crew.number)))
            dataset = ray.data.from_arrow(list(_blocks(start, names, todo, rows)))
            options = {"kinds": kinds, "scales": scales, "weights": network}
            dataset = _stages(dataset, start, end, options, parquet, crew)
            show, began = begin(len(todo)), time.monotonic()
            for path, error in _results(dataset, crew):
                if error:
                    errors[path] = error
                if path not in done:
                    done.add(path)
                    show(path)
    errors |= dict.fromkeys(todo - done, "the workers that had it died; start the job again")
    with end.errors("written"):
        end.write(REPORT, _report(sorted(errors.items())))
    seconds, written = time.monotonic() - began, len(todo) - len(errors)
    return Outcome(written, len(errors), len(present), seconds, end.at(REPORT))


# Files --------------------------------------------------------------------------------------------


def _images(place: Place) -> tuple[Place, dict[str, str]]:
    """The folder, and the images in it: their names, with the names of their outputs."""
    files = place.files()
    if files == [""]:
        place, name = place.parent()
        names = [name]
    else:
        skip = tuple(KINDS.values())
        names = [
            name
            for name in files
            if is_image_name(name.rpartition("/")[2], skip) and not re.search(r"(^|/)\.", name)
        ]
    if not names:
        raise no_images(place.url)
    paths = {Path(name): Path(name).parent for name in names}
    outputs = output_names(paths, Path(), tuple(KINDS.values()))
    return place, dict(zip(names, (output.as_posix() for output in outputs), strict=True))


def _in_parquet(target: Place, files: Iterable[str], kinds: Sequence[str], go_on: bool) -> set[str]:
    """The paths of the images whose edges Parquet files hold."""
    import pyarrow.parquet

    parts = [name for name in files if name.endswith(".parquet")]
    if parts and not go_on:
        raise InputError(
            f"{target.url} holds Parquet files already; add --skip-existing to continue, or name "
            "another folder"
        )

    def paths(name: str) -> list[str]:
        try:
            # Only the paths are read: the other columns are as large as all edges.
            with target.open(name) as content, pyarrow.parquet.ParquetFile(content) as file:
                missing = {"path", *kinds}.difference(file.schema_arrow.names)
                rows: list[str] = []
                if not missing:
                    rows = file.read(columns=["path"])["path"].to_pylist()
        except (OSError, ValueError) as error:
            raise InputError(f"{target.at(name)} cannot be read ({reason(error)})") from None
        if missing:
            raise InputError(
                f"{target.at(name)} has no column {', '.join(sorted(missing))}; give the "
                "options that it was written with, or name another folder"
            )
        return rows

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return {path for rows in pool.map(paths, parts) for path in rows}


def _blocks(folder: Place, names: dict[str, str], todo: set[str], rows: int) -> Iterator[Any]:
    """Tables of images to do, each from as many neighbours in the whole list.

    So the same tables come when a job is started again, and Parquet files have the same names.
    """
    import pyarrow as pa

    listed = list(names)
    for first in range(0, len(listed), rows):
        block = [name for name in listed[first : first + rows] if folder.at(name) in todo]
        if block:
            rest = {"name": block, "output": [names[name] for name in block]}
            yield pa.table({"path": list(map(folder.at, block)), **rest})


def _report(errors: Iterable[tuple[str, str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows([("path", "error"), *errors])
    return text.getvalue().encode()


# The cluster --------------------------------------------------------------------------------------


class _Crew(NamedTuple):
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
def _connected(address: str | None) -> Iterator[None]:
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
    """The address of a cluster, if somebody listens there; Ray itself would wait for ever.

    Of a cluster that was killed Ray remembers the address. Unless that was asked for with "auto",
    a new one of this machine takes its place.
    """
    from ray._private.utils import read_ray_address

    place = read_ray_address() if address in (None, "auto") else address
    try:
        if place and (match := re.fullmatch(r"(?:ray://)?(.+):(\d+)", place)):
            socket.create_connection((match[1].strip("[]"), int(match[2])), timeout=10).close()
    except OSError:
        if address is not None:
            raise
        log.warning("the Ray cluster at %s is gone: this machine works alone", place)
        return "local"
    return address


def _crew(device: str | None, workers: int | None) -> _Crew:
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
        crew = _Crew(number, min(1, cpus / (2 * number)), 1, max(2, int(cpus / gpus) - 1))
    else:
        # Workers on all CPUs would leave none to those that read for them.
        number = workers or max(1, int(cpus) - max(1, round(cpus / 16)))
        crew = _Crew(number, 1 if cpus > number else cpus / (2 * number), 0, 1)
    _check_room(crew)
    return crew


def _check_room(crew: _Crew) -> None:
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


def _stages(
    dataset: Any,
    start: Place,
    end: Place,
    options: dict[str, Any],
    parquet: bool,
    crew: _Crew,
) -> Any:
    """The steps of the work on a data set of images, as Ray Data runs them.

    ``options`` are those of `EdgeWorker` that do not depend on the cluster.
    """
    import ray.data

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.max_errored_blocks = -1  # whose images are in the report
    context.max_consecutive_actor_init_deaths = 2 * crew.number
    options |= {"threads": crew.threads, "device": "cuda" if crew.gpus else "cpu"}
    ledger = ray.remote(num_cpus=0)(_Ledger).remote()
    tasks = {"compute": ray.data.TaskPoolStrategy(size=crew.readers), "num_cpus": _SHARE}
    actors = {
        "compute": ray.data.ActorPoolStrategy(size=crew.number),
        "num_cpus": crew.cpus,
        "num_gpus": crew.gpus or None,
        "fn_constructor_kwargs": {"ledger": ledger, "options": options},
    }
    written = {"folder": end, "kinds": options["kinds"], "parquet": parquet}
    for step, how in (
        (_read, {**tasks, "fn_kwargs": {"folder": start}}),
        (_Worker, actors),
        (_write, {**tasks, "fn_kwargs": written}),
    ):
        dataset = dataset.map_batches(step, batch_format="pyarrow", **how)
    return dataset


def _results(dataset: Any, crew: _Crew) -> Iterator[tuple[str, str]]:
    """The paths of images that are done, and what is wrong with each."""
    import ray

    results = queue.SimpleQueue[Any]()

    def consume() -> None:
        try:
            # With a batch ahead of time each would come only when the next one is done.
            batches = dataset.iter_batches(
                batch_size=None, batch_format="pyarrow", prefetch_batches=0
            )
            for batch in batches:
                results.put(batch.to_pylist())
            results.put(None)
        except BaseException as error:
            results.put(error)

    threading.Thread(target=consume, daemon=True).start()
    while True:
        try:
            rows = results.get(timeout=PATIENCE)
        except queue.Empty:
            resources = ray.cluster_resources()
            if resources.get("CPU", 0) < crew.cpus or resources.get("GPU", 0) < crew.gpus:
                raise InputError(
                    "the Ray cluster has lost the machines that worked; add one, and start the job "
                    "again with --skip-existing"
                ) from None
            continue
        if rows is None:
            return
        if isinstance(rows, BaseException):
            raise InputError(f"the Ray cluster gave up ({reason(rows)[-300:]})") from None
        for row in rows:
            if row["fatal"]:
                raise InputError(row["error"])
            yield row["path"], row["error"]


# What the cluster runs ----------------------------------------------------------------------------


def _read(table: Any, folder: Place) -> Any:
    """The table with the content of its files, or what is wrong with them."""
    import pyarrow as pa

    def content(name: str) -> tuple[bytes | None, str | None]:
        try:
            return folder.read(name), None
        except OSError as error:
            message = error.strerror or reason(error)
            return None, f"{folder.at(name)} cannot be read ({message})"

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        contents, errors = zip(*pool.map(content, table["name"].to_pylist()), strict=True)
    table = table.append_column("bytes", pa.array(contents, pa.large_binary()))
    return table.append_column("error", pa.array(errors, pa.string()))


class _Ledger:
    """How often work on something was begun and has not ended: its workers died, or are at it."""

    def __init__(self) -> None:
        self.begun = Counter[str]()

    def begin(self, key: str) -> int:
        self.begun[key] += 1
        return self.begun[key]

    def end(self, key: str) -> None:
        del self.begun[key]


class _Worker:
    """`EdgeWorker` on tables of Arrow, which does not die of one image again and again.

    Ray gives the table of a worker that died to another one, which takes its images one by one.
    """

    def __init__(self, ledger: Any, options: dict[str, Any]) -> None:
        import torch

        # A worker has reserved one CPU. Ray sees to it too, unless OMP_NUM_THREADS is set.
        torch.set_num_threads(1)
        self.ledger, self.work = ledger, EdgeWorker(**options)

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        key = f"the table of {table['path'][0]}"
        if self._begin(key) == 1:
            columns = self._try(table)
        else:
            rows = [self._alone(table.slice(row, 1)) for row in range(len(table))]
            columns = {name: [value for row in rows for value in row[name]] for name in rows[0]}
        self.ledger.end.remote(key)
        types = {kind: pa.large_binary() for kind in self.work.kinds}
        names = ("path", "output", "error", *self.work.kinds)
        return pa.table(
            {name: pa.array(columns[name], types.get(name, pa.string())) for name in names}
        )

    def _begin(self, key: str) -> int:
        import ray

        number: int = ray.get(self.ledger.begin.remote(key))
        return number

    def _alone(self, row: Any) -> dict[str, list[Any]]:
        path = row["path"][0].as_py()
        if self._begin(path) > _DEATHS:
            return self._failed(row, f"{path} has let {_DEATHS + 1} workers die")
        columns = self._try(row)
        self.ledger.end.remote(path)
        return columns

    def _try(self, table: Any) -> dict[str, list[Any]]:
        try:
            return self.work(table.to_pydict())
        except Exception as error:  # such as memory that does not suffice
            message = f"its batch failed ({type(error).__name__}: {reason(error)})"
            return self._failed(table, message)

    def _failed(self, table: Any, message: str) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = table.to_pydict()
        columns["error"] = [error or message for error in columns["error"]]
        return columns | {kind: [None] * len(table) for kind in self.work.kinds}


def _write(table: Any, folder: Place, kinds: Sequence[str], parquet: bool) -> Any:
    """Write the edges in a table, and tell what is wrong with each image."""
    import pyarrow as pa

    def row(cells: dict[str, Any]) -> tuple[str, bool]:
        if cells["error"]:
            return cells["error"], False
        for kind in kinds:
            error, fatal = _put(folder, f"{cells['output']}{KINDS[kind]}", cells[kind])
            if error:
                return error, fatal
        return "", False

    if parquet:
        good = table.filter(table["error"].is_null()).select(["path", *kinds])
        error, fatal = _put_parquet(folder, good) if len(good) else ("", False)
        outcomes = [(text or error, fatal) for text in table["error"].to_pylist()]
    else:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            outcomes = list(pool.map(row, table.to_pylist()))
    errors, fatal = zip(*outcomes, strict=True)
    return pa.table({"path": table["path"], "error": pa.array(errors, pa.string()), "fatal": fatal})


def _put_parquet(folder: Place, table: Any) -> tuple[str, bool]:
    """Write a file whose name depends on the images in it alone."""
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file)
    names = "\n".join(table["path"].to_pylist())
    digest = hashlib.sha256(names.encode()).hexdigest()[:20]
    return _put(folder, f"edges-{digest}.parquet", file.getvalue())


def _put(folder: Place, name: str, content: bytes) -> tuple[str, bool]:
    """Write a file; what is wrong, and whether others will suffer from it too."""
    try:
        folder.write(name, content)
    except OSError as error:
        message = f"{folder.at(name)} cannot be written ({error.strerror or reason(error)})"
        return message, error.errno in FOR_ALL
    return "", False
