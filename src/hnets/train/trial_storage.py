"""Where the trials of a search lie: a database or a journal file that processes share.

A running trial reports by heartbeats. One without them is of a process that was killed, and is
tried again. Optuna has that for databases; for journal files it is here.
"""

from __future__ import annotations

import json
import re
import threading
import time
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from hnets.errors import InputError, MissingExtra, reason

try:
    import optuna
    import sqlalchemy
    from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
    from optuna.storages import JournalStorage, RDBStorage, RetryHeartbeatStaleTrialCallback
    from optuna.storages._heartbeat import BaseHeartbeat
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
    from optuna.trial import TrialState
except ModuleNotFoundError:
    raise MissingExtra("searches", "optuna", "search") from None

HEARTBEAT, GRACE = 20, 90
"""Seconds between heartbeats of a running trial, and without one before it is tried again."""
JOURNAL = ".journal"
"""The suffix of a journal file, by which it is told from the URL of a database."""
_LOST = (sqlalchemy.exc.SQLAlchemyError, StorageInternalError)
"""What is raised if a storage cannot be used."""
_BEAT = "hnets:heartbeat"


class Journal(JournalStorage, BaseHeartbeat):
    """Optuna's journal with heartbeats, by the clocks of the machines that write to it."""

    def record_heartbeat(self, trial_id: int) -> None:
        """Note that a trial is alive."""
        # A trial that is tried again has the attributes of the first, but is none of its age.
        beat = {"trial": trial_id, "time": time.time()}
        with suppress(UpdateFinishedTrialError):
            self.set_trial_system_attr(trial_id, _BEAT, beat)

    def _get_stale_trial_ids(self, study_id: int) -> list[int]:
        running = self.get_all_trials(study_id, deepcopy=False, states=(TrialState.RUNNING,))
        beats = {trial._trial_id: trial.system_attrs.get(_BEAT, {}) for trial in running}
        latest = time.time() - GRACE
        return [
            trial
            for trial, beat in beats.items()
            if beat.get("trial") == trial and beat["time"] < latest
        ]

    def get_heartbeat_interval(self) -> int:
        """Seconds from one heartbeat to the next."""
        return HEARTBEAT

    def get_heartbeat_stale_trial_callback(self) -> Any:
        """What is done about a trial without heartbeats: it is tried again."""
        return RetryHeartbeatStaleTrialCallback()


class _File(JournalFileBackend):
    """A journal file; what is wrong with it is the error of any storage that cannot be used."""

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        with _storage_error():
            yield from super().read_logs(log_number_from)

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        with _storage_error():
            super().append_logs(logs)


@contextmanager
def _storage_error() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, RuntimeError) as error:  # disks, damage, locks
        raise StorageInternalError(getattr(error, "strerror", None) or reason(error)) from None


TrialStorage: TypeAlias = RDBStorage | Journal


@contextmanager
def open_storage(location: str, name: str) -> Iterator[tuple[optuna.Study, TrialStorage, str]]:
    """A study, new or as it was left, what holds it, and how errors call that.

    ``location`` is the URL of a database or the path of a journal file. What goes wrong with it, at
    any time, is one line.
    """
    shown = re.sub(r"(//[^:/@]*):[^/]*@", r"\1:***@", location)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Heartbeat|.*experimental")
            is_file = location.endswith(JOURNAL) and "://" not in location
            open_one = _open_journal if is_file else _open_database
            yield *open_one(location, name), shown
    except _LOST as error:
        cause = error.__cause__ or error
        message = reason(getattr(cause, "orig", None) or cause)
        raise InputError(
            f"the storage {shown} cannot be used ({message}); expected the URL of a database that "
            "can be written, such as sqlite:///search.db or postgresql://user:password@host/name, "
            f"or a file such as search{JOURNAL}"
        ) from None


def _open_journal(location: str, name: str) -> tuple[optuna.Study, Journal]:
    path = Path(location).absolute()
    with _storage_error():
        _check_journal(path)
        storage = Journal(_File(str(path), JournalFileOpenLock(str(path))))
    study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
    return study, storage


def _check_journal(path: Path) -> None:
    """See that a file is a journal, since Optuna would append to any."""
    if not path.exists():
        return
    with path.open("rb") as file:
        line = file.readline(10**6)
    try:
        known = not line or "op_code" in json.loads(line)
    except (ValueError, TypeError):
        known = False
    if not known:
        raise ValueError("it is there and is not a journal of Optuna")


def _open_database(url: str, name: str) -> tuple[optuna.Study, RDBStorage]:
    if url.startswith("sqlite:"):
        options: dict[str, Any] = {"connect_args": {"timeout": 60}}
    else:
        # A connection for each request, which are few: servers limit them, and may be restarted.
        options = {"poolclass": sqlalchemy.pool.NullPool}
        url = re.sub(r"^postgres(ql)?:", "postgresql+psycopg:", url)  # the driver of the extra
        if url.startswith("postgresql+psycopg:"):
            try:
                import_module("psycopg")
            except ImportError:
                raise MissingExtra("searches in PostgreSQL", "psycopg", "postgresql") from None
    for pause in (0.1, 0.5, 0.0):
        try:
            storage = RDBStorage(
                url.replace("{", "{{").replace("}", "}}"),  # Optuna formats it
                options,
                heartbeat_interval=HEARTBEAT,
                grace_period=GRACE,
                heartbeat_stale_trial_callback=RetryHeartbeatStaleTrialCallback(),
            )
            study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
            return study, storage
        except sqlalchemy.exc.DatabaseError:
            if not pause:
                raise
            time.sleep(pause)  # another process may be making the tables
        except (ImportError, RuntimeError, ValueError) as error:  # drivers, and tables of others
            raise sqlalchemy.exc.SQLAlchemyError(str(error.__cause__ or error)) from None
    raise AssertionError


def beat(study: optuna.Study, storage: TrialStorage, trials: Sequence[optuna.Trial]) -> None:
    """Tell other processes that trials are alive."""
    number = storage.get_study_id_from_name(study.study_name)
    for trial in trials:
        one = storage.get_trial_id_from_study_id_trial_number(number, trial.number)
        storage.record_heartbeat(one)


@contextmanager
def beating(
    study: optuna.Study, storage: TrialStorage, trials: Sequence[optuna.Trial]
) -> Iterator[None]:
    """Record a heartbeat of trials every `HEARTBEAT` seconds, from a thread."""
    ended = threading.Event()

    def beat_on() -> None:
        while not ended.wait(HEARTBEAT):
            with suppress(*_LOST):  # a storage may come back before the grace period is over
                beat(study, storage, trials)

    thread = threading.Thread(target=beat_on, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
