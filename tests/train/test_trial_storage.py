"""Where trials lie: journal files, whose heartbeats are ours, and what is wrong with them."""

import os
from pathlib import Path

import pytest
from optuna.storages import fail_stale_trials
from optuna.trial import TrialState

from hnets.errors import InputError
from hnets.train import trial_storage
from hnets.train.trial_storage import beat, open_storage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "search.journal"


def test_a_trial_in_a_journal_is_stale_without_heartbeats_and_tried_again_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr("time.time", lambda: now)
    with open_storage(str(path), "one") as (study, storage, _):
        alive, dead, silent = (study.ask() for _ in range(3))
        for trial in (alive, dead):
            trial.suggest_float("x", 0, 1)
            beat(study, storage, [trial])
        now += trial_storage.GRACE - 1
        beat(study, storage, [alive])
        fail_stale_trials(study)
        assert {trial.state for trial in study.get_trials()} == {TrialState.RUNNING}
        now += 2
        fail_stale_trials(study)
        states = [trial.state.name for trial in study.get_trials()]
        assert states == ["RUNNING", "FAIL", "RUNNING", "WAITING"], "one never told that it lives"
        assert silent.number == 2
        again = study.ask()
        assert (again.number, again.params) == (3, dead.params)
        fail_stale_trials(study)  # before its first heartbeat: that of the dead one does not count
        assert study.get_trials()[3].state == TrialState.RUNNING
        beat(study, storage, [dead])  # it was only asleep
        assert study.get_trials()[1].state == TrialState.FAIL


def test_a_file_that_is_not_a_journal_stays_as_it_is(path: Path) -> None:
    for content in (b"notes", b"notes\nand more\n", b"[1]\n", b"3\n"):
        path.write_bytes(content)
        message = "cannot be used .it is there and is not a journal of Optuna.; expected the URL"
        with pytest.raises(InputError, match=message), open_storage(str(path), "one"):
            pass
        assert path.read_bytes() == content
    path.write_bytes(b"")
    with open_storage(str(path), "one") as (study, _, _):
        assert study.get_trials() == []
    assert sorted(os.listdir(path.parent)) == [path.name], "a lock is left"


def test_a_journal_that_is_damaged_is_one_line(path: Path) -> None:
    with open_storage(str(path), "one") as (study, _, _):
        study.ask()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:1], b"{damage\n", *lines[1:]]))
    expected = pytest.raises(InputError, match=r"search\.journal cannot be used")
    with expected as caught, open_storage(str(path), "one"):
        pass
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_one_line(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    expected = pytest.raises(InputError, match=r"journal cannot be used .No space left on device")
    with expected, open_storage(str(path), "one"):
        pass


def test_errors_of_others_stay_what_they_are(path: Path) -> None:
    """What goes wrong in a training is not the storage's."""
    with pytest.raises(FileNotFoundError), open_storage(str(path), "one"):
        raise FileNotFoundError
