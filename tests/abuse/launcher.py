"""Commands in forked processes: torch is imported once, and every case has a process to lose.

Run as a script it is the server: it imports the package, runs each command once so that nothing is
left to import, and then forks a child per request. A child has pipes of its own for file
descriptors 1 and 2 (C libraries included), a time limit, and whatever a case does to it: a kill at
a given moment, a disk that is full from the n-th write on, a limit on open files.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import importlib
import io
import json
import os
import resource
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import IO, Any, NamedTuple

MEMORY = 8 * 2**30
"""Bytes of address space that a child may have."""
OUTPUT = 2**20
"""Bytes of output that are kept of a child."""


class Outcome(NamedTuple):
    """What a process did: its exit code (negative: the signal that ended it), and its output."""

    code: int
    out: str
    err: str
    hung: bool
    """Whether it was ended because it ran into its time limit."""
    seconds: float


class Launcher:
    """The server, and requests to it."""

    def __init__(self, folder: Path) -> None:
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "HNETS_CACHE": str(folder / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(folder),
        }
        for name in ("FORCE_COLOR", "COLUMNS", "PYTEST_CURRENT_TEST"):
            environment.pop(name, None)
        self._server = subprocess.Popen(
            [sys.executable, __file__],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the server and everything that it started."""
        with self._server as server:
            assert server.stdin is not None
            server.stdin.close()
            server.wait(60)

    def hnets(self, *arguments: str, folder: Path, limit: float = 60, **options: Any) -> Outcome:
        """Run an hnets command in a folder; see `_Child` for the options."""
        return self.call(
            "abuse.launcher:command", folder, limit, arguments={"argv": arguments}, **options
        )

    def call(self, function: str, folder: Path, limit: float = 60, **options: Any) -> Outcome:
        """Call ``module:function`` of this folder in a child."""
        return Outcome(**self._ask(function=function, folder=str(folder), limit=limit, **options))

    def start(self, *arguments: str, folder: Path, **options: Any) -> int:
        """Start an hnets command whose output goes to the files out and err of a folder."""
        options = {
            "function": "abuse.launcher:command",
            "arguments": {"argv": arguments},
            **options,
        }
        pid = self._ask(start=True, folder=str(folder), **options)["pid"]
        return int(pid)

    def stop(self, pid: int) -> int | None:
        """Kill what `start` started; its exit code if it had ended before, else None."""
        code = self._ask(stop=pid)["code"]
        return code if code is None else int(code)

    def _ask(self, **request: Any) -> dict[str, Any]:
        server = self._server
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        line = server.stdout.readline()
        assert line, f"the launcher ended with code {server.wait(10)}"
        reply: dict[str, Any] = json.loads(line)
        return reply


def command(argv: list[str]) -> None:
    """What ``python -m hnets`` does."""
    from hnets.cli import main

    sys.argv = ["hnets", *argv]
    main()


class _FullDisk:
    """Makes the n-th write to a folder fail, and perhaps all later ones.

    Python announces each file that it opens, folder that it makes and file that it renames; that
    is where a write is made to fail. From there on a file may grow to ``left`` bytes only, also
    for writers that are not Python's.
    """

    def __init__(self, folder: str, number: int, left: int, lasting: bool) -> None:
        self.folder, self.number, self.left, self.lasting = folder, number, left, lasting
        self.events = list[str]()
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        path = self._written(event, arguments)
        if path is None:
            return
        self.events.append(f"{event} {Path(path).name}")
        if len(self.events) == self.number:
            if self.left < 0 or event != "open":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            _limit(resource.RLIMIT_FSIZE, self.left)
        elif len(self.events) > self.number > 0 and self.lasting:
            if self.left < 0 or event != "open":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        elif len(self.events) == self.number + 1 > 1:
            _limit(resource.RLIMIT_FSIZE, resource.RLIM_INFINITY)

    def _written(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        """The path that an event is about to write to, if it lies in the folder."""
        if event not in ("open", "os.mkdir", "os.rename"):
            return None
        path = arguments[1] if event == "os.rename" else arguments[0]
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & writes):
            return None
        full = os.path.abspath(os.fsdecode(path))
        return full if full.startswith(self.folder + os.sep) else None


def _limit(kind: int, value: int) -> None:
    resource.setrlimit(kind, (value, resource.getrlimit(kind)[1]))


class _Child:
    """A forked process on its way."""

    def __init__(
        self,
        function: str,
        folder: str,
        arguments: dict[str, Any] | None = None,
        files: int | None = None,
        full_disk: dict[str, Any] | None = None,
        unprivileged: bool = False,
        to_files: bool = False,
    ) -> None:
        """Fork a process.

        Args:
            function: ``module:function``.
            folder: its working folder.
            arguments: of the function.
            files: how many it may have open.
            full_disk: arguments of `_FullDisk`.
            unprivileged: whether permissions of files hold for it even if it runs as root.
            to_files: its output goes to the files out and err of its folder, not into pipes.
        """
        names = [os.path.join(folder, name) for name in ("out", "err")] if to_files else []
        pipes = [] if to_files else [os.pipe(), os.pipe()]
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        ends = [os.open(name, flags) for name in names] or [write for _, write in pipes]
        self.pipes = [read for read, _ in pipes]
        self.began = time.monotonic()
        self.pid = os.fork()
        if not self.pid:
            code = 70
            try:
                os.setpgid(0, 0)
                for number, end in enumerate(ends, start=1):
                    os.dup2(end, number)
                for end in (*ends, *self.pipes):
                    os.close(end)
                sys.stdout, sys.stderr = (
                    open(number, "w", buffering=1, encoding="utf-8", closefd=False)  # noqa: SIM115
                    for number in (1, 2)
                )
                os.chdir(folder)
                _limit(resource.RLIMIT_AS, MEMORY)
                _limit(resource.RLIMIT_CORE, 0)
                if files is not None:
                    _limit(resource.RLIMIT_NOFILE, files)
                if unprivileged:
                    _obey_permissions()
                disk = _FullDisk(**full_disk) if full_disk else None
                code = _run(function, arguments or {})
                if disk is not None and disk.number == 0:  # only counted
                    sys.stdout.write(json.dumps(disk.events))
                    sys.stdout.flush()
            finally:
                os._exit(code)
        # Both sides make the group, so that it is there whichever runs first.
        with contextlib.suppress(OSError):
            os.setpgid(self.pid, self.pid)
        for end in ends:
            os.close(end)

    def kill(self) -> None:
        """End it and what it started, at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def wait(self, limit: float, kill_after: float | None) -> dict[str, Any]:
        """Its end, or the one that is put to it."""
        deadline = self.began + (limit if kill_after is None else kill_after)
        parts: dict[int, list[bytes]] = {pipe: [] for pipe in self.pipes}
        status, listening, hung = None, list(self.pipes), False
        while status is None or listening:
            for pipe in select.select(listening, [], [], 0.002 if status is None else 0)[0]:
                data = os.read(pipe, 65536)
                parts[pipe].append(data)
                if not data:
                    listening.remove(pipe)
            if status is not None and not select.select(listening, [], [], 0)[0]:
                break  # a process that it started may hold the pipes open
            if status is None:
                status = self.ended()
            if status is None and time.monotonic() > deadline:
                hung = kill_after is None
                self.kill()
                deadline += 3600
        for pipe in self.pipes:
            os.close(pipe)
        out, err = (b"".join(parts[pipe])[:OUTPUT].decode(errors="replace") for pipe in self.pipes)
        return {
            "code": status, "out": out, "err": err, "hung": hung,
            "seconds": time.monotonic() - self.began,
        }  # fmt: skip

    def ended(self) -> int | None:
        """Its exit code, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if pid else None


def _run(function: str, arguments: dict[str, Any]) -> int:
    """Call a function as the interpreter calls a program; the exit code."""
    code: object = 0
    module, _, name = function.partition(":")
    try:
        getattr(importlib.import_module(module), name)(**arguments)
    except SystemExit as stopped:
        code = stopped.code
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code if isinstance(code, int) else 0


def _obey_permissions() -> None:
    """Give up root's right to read what its permissions forbid."""
    if os.geteuid() == 0 and sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)
        sets = (ctypes.c_uint32 * 6)()
        libc.capget(header, sets)
        for number in range(3):  # effective, permitted, inheritable
            sets[number] &= ~0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH
        if libc.capset(header, sets):
            raise OSError(ctypes.get_errno(), "capset")


def _serve(requests: IO[str], reply: IO[str]) -> None:
    started: dict[int, _Child] = {}
    try:
        for line in requests:
            request = json.loads(line)
            answer: dict[str, Any]
            if "stop" in request:
                child = started.pop(request["stop"])
                code = child.ended()
                if code is None:
                    child.kill()
                    os.waitpid(child.pid, 0)
                answer = {"code": code}
            elif request.pop("start", False):
                child = _Child(**request, to_files=True)
                started[child.pid] = child
                answer = {"pid": child.pid}
            else:
                limit, kill_after = request.pop("limit"), request.pop("kill_after", None)
                answer = _Child(**request).wait(limit, kill_after)
            reply.write(json.dumps(answer) + "\n")
            reply.flush()
    finally:
        for child in started.values():
            child.kill()


def _warm_up() -> None:
    """Run what the children run, so that they find everything imported."""
    import numpy as np
    import torch
    from PIL import Image

    from abuse.fixtures import data_folder, recipe

    torch.set_num_threads(1)
    folder = Path("warm")
    (folder / "images").mkdir(parents=True)
    Image.fromarray(np.full((16, 16, 3), 99, np.uint8)).save(folder / "images" / "a.png")
    (folder / "tiny.toml").write_text(recipe(data_folder(folder / "data"), epochs=1))
    edges = ["edges", f"{folder}/images", "-o", f"{folder}/out", "--npz"]
    for argv in (["train", f"{folder}/tiny.toml", "--out", f"{folder}/run"], edges):
        errors = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
            try:
                command(argv)
            except SystemExit as stopped:
                if stopped.code:
                    raise RuntimeError(errors.getvalue()) from None
    for module in ("lifespan.on", "loops.auto", "protocols.http.auto"):
        importlib.import_module(f"uvicorn.{module}")
    importlib.import_module("hnets.web.server")


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # children import abuse.MODULE
    # The server's own pipes are out of the reach of its children.
    requests, reply = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    _warm_up()
    _serve(requests, reply)
