"""The edges of images by a Ray cluster: any number of images, machines and GPUs.

Tasks read files, a pool of actors with one network each takes them to edges, and tasks write them.
Each output appears when it is complete, under a name that depends on its input alone: work that is
done twice, because a worker died or the job was started again, is there once.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import queue
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hnets.errors import InputError, MissingExtra, Unwritable, reason
from hnets.predict import EDGE_MODEL
from hnets.predict.batch import KINDS, is_image_name, no_images, output_names
from hnets.predict.cluster_connection import (
    PATIENCE,
    Crew,
    HeadWatch,
    connected,
    crew_of,
)
from hnets.predict.cluster_steps import AT_ONCE, ClusterWorker, Ledger, read_files, write_files
from hnets.predict.storage import Place

if TYPE_CHECKING:
    from torch import nn

REPORT = "_report.csv"
"""The file beside the output that lists the images that failed, and why."""
ROWS = 64
"""Images per task at most, and per file of Parquet."""
_SHARE = 0.25
"""CPUs of a task that reads or writes: it waits for disks and networks."""


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
    fast: bool = False,
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
        fast: as `EdgeDetector` takes it.
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
    start, names, errors = _images(start)
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
    end.remove_stale({"", *(output.rpartition("/")[0] for output in names.values())})
    done, began = set[str](), time.monotonic()
    if todo:
        with connected(address):
            crew = crew_of(device, workers)
            rows = ROWS if parquet else min(ROWS, -(-len(todo) // (4 * crew.number)))
            dataset = ray.data.from_arrow(list(_blocks(start, names, todo, rows)))
            options = {"kinds": kinds, "scales": scales, "weights": network, "fast": fast}
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
    seconds, written = time.monotonic() - began, len(todo - errors.keys())
    return Outcome(written, len(errors), len(present), seconds, end.at(REPORT))


# Files --------------------------------------------------------------------------------------------


def _images(place: Place) -> tuple[Place, dict[str, str], dict[str, str]]:
    """The folder, the images in it with the names of their outputs, and what is wrong with others.

    The latter by their paths, as the report has them.
    """
    unreadable = dict[str, str]()
    files = place.files(errors=unreadable)
    if files == [""]:
        place, name = place.parent()
        names = [name]
    else:
        skip = tuple(KINDS.values())
        names = [
            name
            for name in files
            if is_image_name(name.rpartition("/")[2], skip) and not _is_hidden(name)
        ]
    errors = {
        name: f"cannot be read ({text})"
        for name, text in unreadable.items()
        if not _is_hidden(name)
    }
    for name in [name for name in names if not _is_utf8(place.at(name))]:
        errors[name] = "has a name that is not UTF-8, as texts in tables of Ray are; rename it"
        names.remove(name)
    if not names and not errors:
        raise no_images(place.url)
    paths = {Path(name): Path(name).parent for name in names}
    outputs = output_names(paths, Path(), tuple(KINDS.values()))
    named = dict(zip(names, (output.as_posix() for output in outputs), strict=True))
    places = {name: place.at(name) for name in errors}
    return place, named, {places[name]: f"{places[name]} {errors[name]}" for name in errors}


def _is_hidden(name: str) -> bool:
    return re.search(r"(^|/)\.", name) is not None


def _is_utf8(text: str) -> bool:
    """Whether a path can be a text elsewhere; other bytes of names are surrogates in Python."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


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

    with ThreadPoolExecutor(AT_ONCE) as pool:
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
    return text.getvalue().encode(errors="backslashreplace")  # for names that are not UTF-8


# The work -----------------------------------------------------------------------------------------


def _stages(
    dataset: Any,
    start: Place,
    end: Place,
    options: dict[str, Any],
    parquet: bool,
    crew: Crew,
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
    ledger = ray.remote(num_cpus=0)(Ledger).remote()
    tasks = {"compute": ray.data.TaskPoolStrategy(size=crew.readers), "num_cpus": _SHARE}
    actors = {
        "compute": ray.data.ActorPoolStrategy(size=crew.number),
        "num_cpus": crew.cpus,
        "num_gpus": crew.gpus or None,
        "fn_constructor_kwargs": {"ledger": ledger, "options": options},
    }
    written = {"folder": end, "kinds": options["kinds"], "parquet": parquet}
    for step, how in (
        (read_files, {**tasks, "fn_kwargs": {"folder": start}}),
        (ClusterWorker, actors),
        (write_files, {**tasks, "fn_kwargs": written}),
    ):
        dataset = dataset.map_batches(step, batch_format="pyarrow", **how)
    return dataset


def _results(dataset: Any, crew: Crew) -> Iterator[tuple[str, str]]:
    """The paths of images that are done, and what is wrong with each."""
    import ray

    results = queue.SimpleQueue[Any]()

    def consume() -> None:
        fatal: list[Any] = []
        try:
            # With a batch ahead of time each would come only when the next one is done.
            batches = dataset.iter_batches(
                batch_size=None, batch_format="pyarrow", prefetch_batches=0
            )
            with contextlib.closing(iter(batches)) as ahead:
                for batch in ahead:
                    rows = batch.to_pylist()
                    if fatal := [row for row in rows if row["fatal"]]:
                        break
                    results.put(rows)
            # Only now, else this thread would go on, and start a cluster when the job leaves this.
            results.put(fatal or None)
        except BaseException as error:
            results.put(error)

    threading.Thread(target=consume, daemon=True).start()
    head, heard = HeadWatch(), time.monotonic()
    while True:
        head.look()
        try:
            rows = results.get(timeout=1)
        except queue.Empty:
            if time.monotonic() - heard < PATIENCE:
                continue
            heard = time.monotonic()
            resources = ray.cluster_resources()
            if resources.get("CPU", 0) < crew.cpus or resources.get("GPU", 0) < crew.gpus:
                raise InputError(
                    "the Ray cluster has lost the machines that worked; add one, and start the job "
                    "again with --skip-existing"
                ) from None
            continue
        heard = time.monotonic()
        if rows is None:
            return
        if isinstance(rows, BaseException):
            raise InputError(f"the Ray cluster gave up ({reason(rows)[-300:]})") from None
        for row in rows:
            if row["fatal"]:
                raise Unwritable(row["error"])
            yield row["path"], row["error"]
