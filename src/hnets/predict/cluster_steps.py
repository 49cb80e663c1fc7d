"""What a Ray cluster runs for `hnets.predict.cluster`: reading, finding edges and writing.

Each step takes a table of Arrow to another one. What is wrong with an image is a text in its row.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hnets.errors import reason
from hnets.files import FOR_ALL
from hnets.predict.batch import KINDS, EdgeWorker
from hnets.predict.storage import Place

AT_ONCE = 16
"""Files that are read or written at the same time."""
_DEATHS = 2
"""How many workers may die of one image before it counts as one that failed."""


def read_files(table: Any, folder: Place) -> Any:
    """The table with the content of its files, or what is wrong with them."""
    import pyarrow as pa

    def content(name: str) -> tuple[bytes | None, str | None]:
        try:
            return folder.read(name), None
        except OSError as error:
            message = error.strerror or reason(error)
            return None, f"{folder.at(name)} cannot be read ({message})"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        contents, errors = zip(*pool.map(content, table["name"].to_pylist()), strict=True)
    table = table.append_column("bytes", pa.array(contents, pa.large_binary()))
    return table.append_column("error", pa.array(errors, pa.string()))


class Ledger:
    """How often work on something was begun and has not ended: its workers died, or are at it."""

    def __init__(self) -> None:
        self.begun = Counter[str]()

    def begin(self, key: str) -> int:
        """Note that work begins; how often it has, and has not ended."""
        self.begun[key] += 1
        return self.begun[key]

    def end(self, key: str) -> None:
        """Note that work has ended."""
        del self.begun[key]


class ClusterWorker:
    """`EdgeWorker` on tables of Arrow, which does not die of one image again and again.

    Ray gives the table of a worker that died to another one, which takes its images one by one.
    """

    def __init__(self, ledger: Any, options: dict[str, Any]) -> None:
        import torch

        # A worker has reserved one CPU. Ray sees to it too, unless OMP_NUM_THREADS is set.
        torch.set_num_threads(1)
        self.ledger, self.work = ledger, EdgeWorker(**options)

    def __call__(self, table: Any) -> Any:
        """The table with the edges of its images in place of their content."""
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


def write_files(table: Any, folder: Place, kinds: Sequence[str], parquet: bool) -> Any:
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
        with ThreadPoolExecutor(AT_ONCE) as pool:
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
