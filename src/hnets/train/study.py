"""A study: numbered trials that any number of processes share through a storage.

A process takes the next trial, trains it and writes down how it ended. While it trains, it signs
its trials every few seconds, so that those of a process that was killed are known by their silence
and others take their place.
"""

from __future__ import annotations

import datetime
import os
import platform
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any, Literal, Self

from hnets.errors import InputError, MissingExtra
from hnets.train.sampler import ByNumber, Method, distributions
from hnets.train.space import Space
from hnets.train.storage import failing, hidden, open_storage

try:
    import optuna
    from optuna.trial import FrozenTrial, TrialState
except ModuleNotFoundError:
    raise MissingExtra("searches", "optuna", "search") from None

__all__ = ["State", "Study", "Trial"]

SIGN_EVERY = 20.0
"""Seconds."""
SILENT = 300.0
"""Seconds without a sign after which a trial is given up; by so much may clocks differ."""

State = Literal["running", "done", "diverged", "stopped"]
STATES: dict[TrialState, State] = {
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "diverged",
    TrialState.FAIL: "stopped",
}


@dataclass(frozen=True)
class Trial:
    """What was tried, and what came of it."""

    number: int
    state: State
    values: Mapping[str, Any]
    """Of the recipe's keys."""
    val_error: float | None = None
    """In percent, after the last epoch."""
    val_loss: float | None = None
    seconds: float | None = None
    host: str = ""
    """The machine."""


class Study:
    """The trials of one recipe, as one of the processes that share them sees them.

    Use it as a context: at its end, trials that were not ended are given up.

    Args:
        url: of the storage, in SQLAlchemy's form.
        name: of the study; it is made if the storage has none of this name.
        recipe: which all processes must agree on, as a dictionary.
        space: what is tried.
        method: how values are drawn.
        seed: of the draws.
    """

    def __init__(
        self,
        url: str,
        name: str,
        recipe: Mapping[str, Any],
        space: Space,
        method: Method = "random",
        seed: int = 0,
    ) -> None:
        self.url, self.name = url, name
        self._space = distributions(space)
        self._mine = dict[int, optuna.Trial]()
        self._over = threading.Event()
        with ExitStack() as closing:
            closing.callback(optuna.logging.set_verbosity, optuna.logging.get_verbosity())
            optuna.logging.set_verbosity(optuna.logging.ERROR)
            storage = open_storage(url)
            closing.callback(storage.engine.dispose)
            with failing(url):
                self._study = optuna.create_study(
                    storage=storage,
                    study_name=name,
                    sampler=ByNumber(method, seed),
                    load_if_exists=True,
                )
                self._agree(recipe)
            self._closing = closing.pop_all()

    def __enter__(self) -> Self:
        thread = threading.Thread(target=self._sign, daemon=True)
        thread.start()
        self._closing.callback(thread.join)
        self._closing.callback(self._over.set)
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing, suppress(InputError):  # why it ends here is said already
            for number in list(self._mine):
                self._end(number, TrialState.FAIL)

    def take(self, count: int, upto: int) -> list[Trial]:
        """Begin ``count`` trials, or as many as there are left of ``upto`` in all.

        Of the processes that take a trial at the same moment, those too many see it by the numbers
        of their trials and give them back: together they do as many as they should.
        """
        taken = list[Trial]()
        with failing(self.url):
            self._bury()
            while len(taken) < count and self._counted() < upto:
                try:
                    trial = self._study.ask(self._space)
                    trial.set_user_attr("owner", _owner())
                except RuntimeError:
                    continue  # another process took it for one that was left behind
                self._mine[trial.number] = trial
                if self._counted(before=trial.number) >= upto:
                    trial.set_user_attr("surplus", True)
                    self._end(trial.number, TrialState.FAIL)
                    break
                taken.append(Trial(trial.number, "running", trial.params, host=platform.node()))
        return taken

    def done(self, trial: Trial, val_error: float, val_loss: float, seconds: float) -> None:
        """Write down what a trial has found."""
        found = {"val_loss": val_loss, "seconds": seconds}
        self._end(trial.number, TrialState.COMPLETE, val_error, found)

    def diverged(self, trial: Trial) -> None:
        """Write down that a trial's loss is no number any more; it counts as a trial."""
        self._end(trial.number, TrialState.PRUNED)

    def trials(self) -> list[Trial]:
        """All that were begun, by any process."""
        with failing(self.url):
            found = self._study.get_trials(deepcopy=False, states=tuple(STATES))
        return [_trial(one) for one in found if "surplus" not in one.user_attrs]

    def _end(
        self,
        number: int,
        state: TrialState,
        value: float | None = None,
        found: Mapping[str, float] | None = None,
    ) -> None:
        # One that another process has given up, since this one was silent, stays given up.
        with failing(self.url), suppress(RuntimeError):
            self._mine[number].set_user_attr("found", found or {})
            self._study.tell(self._mine[number], value, state)
        del self._mine[number]

    def _counted(self, before: int | None = None) -> int:
        """Trials that are done or on their way, of all or of those before a number."""
        states = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
        found = self._study.get_trials(deepcopy=False, states=states)
        return sum(before is None or one.number < before for one in found)

    def _bury(self) -> None:
        """Give up the trials of processes that are no more."""
        for one in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if one.number not in self._mine and _left_behind(one):
                with suppress(RuntimeError, ValueError):  # another process was quicker
                    self._study.tell(one.number, state=TrialState.FAIL)

    def _sign(self) -> None:
        while not self._over.wait(SIGN_EVERY):
            for trial in list(self._mine.values()):
                # A storage that fails now may be back next time, and the trial may be over.
                with suppress(Exception):
                    trial.set_user_attr("owner", _owner())

    def _agree(self, recipe: Mapping[str, Any]) -> None:
        """Go on with a study of the same recipe only."""
        before = self._study.user_attrs.get("recipe")
        if before is None and not self._study.get_trials(deepcopy=False):
            self._study.set_user_attr("recipe", recipe)
            return
        remedy = "name another with --study, or another folder with --out"
        if before is None:
            raise InputError(
                f"the study {self.name!r} in {hidden(self.url)} is no search of hnets; {remedy}"
            )
        for part, values in before.items():
            for key, value in values.items():
                now = recipe.get(part, {}).get(key)
                if value != now:
                    raise InputError(
                        f"the study {self.name!r} in {hidden(self.url)} was begun with "
                        f"{part}.{key} = {value!r}, and the recipe says {now!r}: change it back, "
                        f"or {remedy}"
                    )


def _trial(one: FrozenTrial) -> Trial:
    found = one.user_attrs.get("found", {})
    return Trial(
        one.number,
        STATES[one.state],
        one.params,
        one.value if one.state == TrialState.COMPLETE else None,
        found.get("val_loss"),
        found.get("seconds"),
        one.user_attrs.get("owner", {}).get("host", ""),
    )


def _owner() -> dict[str, Any]:
    return {
        "host": platform.node(),
        "processes": _processes(),
        "pid": os.getpid(),
        "signed": time.time(),
    }


def _processes() -> str:
    """What the number of a process is unique in: a container may have the name of its host."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _left_behind(trial: FrozenTrial) -> bool:
    owner, now = trial.user_attrs.get("owner"), _owner()
    if owner is None:  # so it was begun a moment ago, or killed in that moment
        begun = trial.datetime_start or datetime.datetime.min
        return abs((datetime.datetime.now() - begun).total_seconds()) > SILENT
    here = (owner["host"], owner["processes"]) == (now["host"], now["processes"])
    return (here and not _lives(owner["pid"])) or now["signed"] - owner["signed"] > SILENT


def _lives(pid: int) -> bool:
    if pid == os.getpid():
        return False  # an earlier process of the same number: this one knows its own trials
    if sys.platform == "win32":
        return True  # there is no harmless way to ask, so its silence must tell
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
