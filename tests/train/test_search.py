"""The search for hyperparameters: trials that processes share, and no test set for them."""

import json
import multiprocessing
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from optuna.trial import FrozenTrial, TrialState
from PIL import Image
from torch import nn

from commands import Command
from hnets import data
from hnets.errors import InputError
from hnets.train import (
    Diverged,
    Recipe,
    Result,
    Run,
    Team,
    Watch,
    read_recipe,
    search,
    trial_storage,
)
from hnets.train.search import best_of, open_study, ranked, train_trials

CPU = Team(0, 1, torch.device("cpu"))
GPU = Team(0, 1, torch.device("cuda"))
HEAD = """
title = "a few digits"
model.name = "z2cnn"
training = { epochs = 1, batch = 46 }
data = { name = "digits", limit = 46, test = "test" }
[search]
trials = 3
"""
SPACE = """
[search.space]
"optimiser.rate" = { low = 1e-3, high = 1e-1, log = true }
"optimiser.weight_decay" = { low = 0, high = 1 }
"training.batch" = { choices = [23, 46] }
"schedule.every" = { low = 1, high = 3 }
"""


def recipe(space: str = SPACE) -> Recipe:
    Path("tiny.toml").write_text(HEAD + space)
    return read_recipe("tiny.toml")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    recipe()


@pytest.fixture
def hnets_search(hnets_command: Command) -> Command:
    return lambda arguments: hnets_command("search", *arguments.split(), "--device", "cpu")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[Recipe]:
    """Train trials in no time; the error follows from the learning rate, and 1e30 diverges."""
    trained = list[Recipe]()

    def train(runs: Sequence[Run], team: Team, watch: Watch | None = None) -> list[Result]:
        trained.extend(run.recipe for run in runs)
        rates = {run: run.recipe.optimiser.rate for run in runs}
        rows = {
            run: {"epoch": 1.0, "val_error": 100 * rate, "val_loss": rate}
            for run, rate in rates.items()
            if rate < 1e30
        }
        results = [Result(run, nn.Identity(), [row], 0.5) for run, row in rows.items()]
        if lost := [run for run in runs if run not in rows]:
            error = Diverged("the loss became nan", lost, results)
            raise error
        return results

    monkeypatch.setattr(search, "train", train)
    monkeypatch.setattr(search, "prepare", lambda *_, **__: None)
    return trained


def trials(
    count: int, folder: str = ".", url: str | None = None, **options: Any
) -> list[FrozenTrial]:
    Path(folder).mkdir(exist_ok=True)
    with open_study(read_recipe("tiny.toml"), "tiny", Path(folder), url) as (study, storage):
        list(train_trials(read_recipe("tiny.toml"), study, storage, count, CPU, **options))
        return study.get_trials()


def states(rows: Sequence[FrozenTrial]) -> list[str]:
    return [search.STATES[one.state] for one in rows]


# The command ---------------------------------------------------------------------------------


def test_the_protocol(hnets_search: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, load = list[str](), data.load

    def loading(name: str, split: str, **rest: Any) -> data.Dataset:
        loaded.append(split)
        return load(name, split, **rest)

    monkeypatch.setattr(data, "load", loading)
    code, out, err = hnets_search("tiny.toml --out out --seeds 2")
    assert (code, err) == (0, "")
    assert loaded == ["train", "val", "train+val", "test"], "each is loaded once, test at the end"

    content = json.loads(Path("out/search.json").read_text())
    rows = content["trials"]
    assert [one["state"] for one in rows] == ["done"] * 3
    assert all(one["seconds"] > 0 and one["val_loss"] > 0 for one in rows)
    best = min(rows, key=lambda one: (one["val_error"], one["val_loss"]))
    assert content["best"] == best["number"]

    final = read_recipe("out/best.toml")
    values = {key: final.to_dict()[key.split(".")[0]][key.split(".")[1]] for key in best["values"]}
    assert values == best["values"], "the best values are not written down exactly"
    assert (final.data.train, final.data.val, final.data.test) == ("train+val", "", "test")
    result = json.loads(Path("out/result.json").read_text())
    assert result["recipe"] == json.loads(json.dumps(final.to_dict()))
    assert [seed["seed"] for seed in result["seeds"]] == [1, 2]
    assert f"{result['summary']['test']['mean']:.2f} ± " in out
    assert "(seeds: 2)" in out
    assert f"the best on validation is trial {best['number']}  val" in out
    checkpoint = Path(f"out/trial-{best['number']}/seed-2/checkpoint.safetensors")

    before = checkpoint.stat().st_ino
    code, _, _ = hnets_search("tiny.toml --out out --seeds 2 --trials 4 --sampler tpe")
    again = json.loads(Path("out/search.json").read_text())
    assert (code, len(again["trials"]), again["trials"][:3]) == (0, 4, rows)
    if again["best"] == best["number"]:
        assert checkpoint.stat().st_ino == before, "trained twice"


def test_a_folder_without_test_images(hnets_search: Command) -> None:
    random = np.random.default_rng(0)
    for place in ("train/a", "train/b", "val/a", "val/b"):
        Path("images", place).mkdir(parents=True)
        for i in range(3):
            pixels = random.integers(256, size=(28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(Path("images", place, f"{i}.png"))
    space = '[search.space]\n"optimiser.rate" = { choices = [0.01] }'
    Path("mine.toml").write_text(HEAD + space)
    arguments = (
        "mine.toml --seeds 1 --trials 1 --set data.limit=0 --set data.name=./images "
        "--set training.batch=6"
    )
    code, _, err = hnets_search(f"{arguments} --out out")
    assert code == 2
    assert "images/test has 0 sub-folders" in err
    assert json.loads(Path("out/search.json").read_text())["trials"][0]["state"] == "done"
    arguments += " --out untested --storage sqlite:///out/search.db --set data.test="
    code, out, err = hnets_search(arguments)
    assert (code, err) == (0, "")
    assert len(json.loads(Path("untested/search.json").read_text())["trials"]) == 1
    assert list(json.loads(Path("untested/result.json").read_text())["summary"]) == ["train+val"]
    assert "test error" not in out


def test_stopped_and_begun_again(hnets_search: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    train, calls = search.train, list[int]()

    def stop(*arguments: Any, **options: Any) -> list[Result]:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(*arguments, **options)

    monkeypatch.setattr(search, "train", stop)
    code, out, _ = hnets_search("tiny.toml --out out --seeds 1")
    assert code == 130
    assert "run the same command again" in out
    first = json.loads(Path("out/search.json").read_text())["trials"][0]
    assert hnets_search("tiny.toml --out out --seeds 1")[0] == 0
    rows = json.loads(Path("out/search.json").read_text())["trials"]
    assert [one["state"] for one in rows] == ["done", "stopped", "done", "done"]
    assert rows[0] == first
    assert len(calls) == 4


def test_a_trial_that_diverges(hnets_search: Command) -> None:
    recipe('[search.space]\n"optimiser.rate" = { choices = [0.001, 1e30] }')
    code, out, err = hnets_search("tiny.toml --out out --trials 4 --seeds 1")
    assert (code, err) == (0, "")
    rows = json.loads(Path("out/search.json").read_text())["trials"]
    outcomes = {(one["values"]["optimiser.rate"], one["state"]) for one in rows}
    assert outcomes == {(0.001, "done"), (1e30, "diverged")}
    assert "diverged  optimiser.rate = 1e+30" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("missing.toml", r"there is no recipe or \.toml file missing\.toml"),
        ("tiny.toml --trials 0", "expected a whole number from 1 to"),
        ("tiny.toml --sampler grid", "'grid' is not one of .*random.*tpe"),
        ("tiny.toml --parallel 4", "side by side on a GPU only, got 4 on cpu"),
        ("tiny.toml --set schedule.name=plateau", "expected .cosine.* got .plateau.*validation"),
        ("tiny.toml --set data.test=val", "data.test: expected test, or nothing, got 'val'"),
        ("tiny.toml --out taken", "expected a folder to write to, got 'taken'"),
        ("tiny.toml --out out --storage nonsense", "the storage nonsense cannot be used"),
        ("tiny.toml --out out --storage x://me:secret@h/n", r"x://me:\*\*\*@h/n cannot be used"),
        ("tiny.toml --out out --storage sqlite:////none/x.db", "/none/x.db cannot be used .unable"),
        ("tiny.toml --out out --storage sqlite:///taken", "taken cannot be used .file is not a"),
        ("tiny.toml --out out --storage no/x.journal", "x.journal cannot be used .No such file"),
        (
            "tiny.toml --out out --storage d.journal",
            r"d.journal cannot be used .Is a dir.*\.journal",
        ),
        ("tiny.toml --out old --set optimiser.eps=1", "begun with optimiser.eps = 1e-08, and .* 1"),
        ("wider.toml --out old --study tiny", "begun with search.space = .*--study"),
        ("tiny.toml --out old --study foreign", "'foreign' in .* is no search of hnets"),
    ],
)
def test_bad_input(
    hnets_search: Command, arguments: str, message: str, quick: list[Recipe]
) -> None:
    Path("taken").write_text("a file that is in the way" * 100)
    Path("d.journal").mkdir()
    Path("wider.toml").write_text((HEAD + SPACE).replace("1e-1", "1.0"))
    if "old" in arguments:
        Path("old").mkdir()
        with open_study(recipe(), "tiny", Path("old")) as (_, storage):
            other = optuna.create_study(storage=storage, study_name="foreign")
            other.tell(other.ask(), 1.0)
    code, out, err = hnets_search(arguments)
    assert (code, out, quick) == (2, "", [])
    assert err.count("\n") == 1
    assert re.search(message, err), err


def test_optuna_is_missing(hnets_search: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "optuna"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("search", "trial_storage"):
        monkeypatch.delitem(sys.modules, f"hnets.train.{name}")
        monkeypatch.delattr(f"hnets.train.{name}")
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, out, err = hnets_search("tiny.toml")
    assert (code, out) == (2, "")
    assert err == 'hnets: searches need optuna: pip install "hnets[search]"\n'
    assert not Path("runs").exists()


# The space -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("", r'no values to search: add \[search.space\].* "optimiser.rate" = \{ low = 0.001, '),
        ('"optimiser.rat" = { low = 1, high = 2 }', "no key 'optimiser.rat'; did you mean 'opti"),
        ("optimiser.rate = { low = 1, high = 2 }", "dotted and in quotes, got 'optimiser'"),
        ('"optimiser.rate.x" = { low = 1, high = 2 }', "no key 'optimiser.rate.x'; did you mean"),
        ('"data.limit" = { low = 1, high = 2 }', r"expected keys of model, .*, got 'data\.limit'"),
        ('"optimiser.rate" = 3', r"rate\": expected \{ low = .* or \{ choices = .* \}, got 3"),
        ('"optimiser.rate" = { low = 1, hihg = 2 }', "rate.: expected { low = .*'hihg': 2"),
        ('"optimiser.rate" = { low = 1, high = 2, lgo = 1 }', "expected { low = .*argument 'lgo'"),
        ('"optimiser.rate" = { choices = [1], log = true }', "unexpected keyword argument 'log'"),
        ('"optimiser.rate" = { low = 2, high = 1 }', "expected { low = .*`low <= high` must"),
        ('"optimiser.rate" = { low = 0.0, high = 1, log = true }', "`low > 0`"),
        ('"optimiser.rate" = { low = "1", high = 2 }', "expected { low = .* got {'low': '1'"),
        ('"optimiser.rate" = { low = 1, high = inf }', "rate: expected a number, got inf"),
        ('"optimiser.rate" = { choices = [] }', "choices` must contain one or more"),
        ('"optimiser.rate" = { choices = [[1]] }', r"expected { low = .* got {'choices': \[\[1"),
        ('"optimiser.rate" = { low = -1, high = 2 }', "rate: expected a number above 0"),
        ('"training.batch" = { low = 1.5, high = 2 }', "batch: expected a whole number, got 1.5"),
        ('"training.batch" = { choices = [1, "a"] }', "batch: expected a whole number, got 'a'"),
        ('"schedule.name" = { choices = ["cosine", "plateau"] }', "got .plateau., which watches"),
    ],
)
def test_wrong_spaces(hnets_search: Command, space: str, message: str) -> None:
    Path("wrong.toml").write_text(f"{HEAD}[search.space]\n{space}")
    code, out, err = hnets_search("wrong.toml")
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert re.search(message, err), err
    assert not Path("runs").exists()


def test_the_values_lie_in_the_space(quick: list[Recipe]) -> None:
    trials(20)
    rates = [one.optimiser.rate for one in quick]
    assert 1e-3 <= min(rates) < 3e-3, "a logarithmic range has as many low values as high ones"
    assert 3e-2 < max(rates) <= 1e-1
    decays = {one.optimiser.weight_decay for one in quick}
    assert len(decays) == 20, "0 to 1 are not the two whole numbers where any number will do"
    assert {one.training.batch for one in quick} == {23, 46}
    assert {one.schedule.every for one in quick} == {1, 2, 3}
    splits = {(one.data.train, one.data.val, one.data.test) for one in quick}
    assert splits == {("train", "val", "")}


def test_values_follow_from_seed_and_number(quick: list[Recipe]) -> None:
    at_once = [one.params for one in trials(3, "a", seed=1)]
    for count in (1, 2, 3):
        in_parts = [one.params for one in trials(count, "b", seed=1)]
    assert at_once == in_parts
    assert at_once != [one.params for one in trials(3, "c", seed=2)]


# Processes -----------------------------------------------------------------------------------


def member(url: str | None, mortal: bool) -> None:
    """One of the processes that share a study; a mortal one is killed in its second trial."""
    calls = list[int]()

    def train(runs: Sequence[Run], *_: object, **__: object) -> list[Result]:
        calls.append(1)
        if mortal and len(calls) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
        row = {"val_error": float(os.getpid()), "val_loss": 1.0}
        return [Result(runs[0], nn.Identity(), [row], 0.0)]

    search.train = train
    trials(12, url=url)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    """The URL of an empty PostgreSQL database that runs as long as the tests of this module."""
    folders = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    places = os.pathsep.join([os.environ["PATH"], *folders])
    initdb, server = (shutil.which(name, path=places) for name in ("initdb", "postgres"))
    if not initdb or not server:
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    pytest.importorskip("psycopg", reason='psycopg is not installed: pip install ".[postgresql]"')
    owner = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        secret = Path(folder, "secret")
        secret.write_text("p@ss{word}")
        if owner:
            shutil.chown(folder, owner)
            shutil.chown(secret, owner)
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        data, rest = f"{folder}/data", ["-U", "me", "--auth=scram-sha-256", "--no-sync"]
        made = [initdb, "-D", data, f"--pwfile={secret}", *rest, "--no-locale", "-E", "UTF8"]
        subprocess.run(made, user=owner, cwd=folder, check=True, capture_output=True)
        options = ["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-k", folder]
        log = Path(folder, "log")
        with log.open("w") as file:
            running = subprocess.Popen(
                [server, "-D", data, "-p", port, *options], user=owner, cwd=folder, stderr=file
            )
        try:
            while "ready to accept connections" not in log.read_text():
                assert running.poll() is None, log.read_text()
                time.sleep(0.02)
            yield f"postgresql://me:p%40ss%7Bword%7D@127.0.0.1:{port}/postgres"
        finally:
            running.send_signal(signal.SIGINT)  # ends its connections, then itself
            running.wait(30)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("storage", ["sqlite", "journal", "postgresql"])
def test_processes_share_a_study_and_retry_the_trial_of_a_killed_one(
    quick: list[Recipe],
    monkeypatch: pytest.MonkeyPatch,
    storage: str,
    request: pytest.FixtureRequest,
    capfd: pytest.CaptureFixture[str],
) -> None:
    urls = {"sqlite": lambda: None, "journal": lambda: "shared.journal"}
    url = urls.get(storage, lambda: request.getfixturevalue("postgresql"))()
    fork = multiprocessing.get_context("fork")
    two = [fork.Process(target=member, args=(url, mortal)) for mortal in (False, True)]
    for process in two:
        process.start()
    for process in two:
        process.join(120)
    assert [process.exitcode for process in two] == [0, -signal.SIGKILL]
    assert capfd.readouterr().err == ""
    with open_study(recipe(), "tiny", Path(), url) as (study, _):
        rows = study.get_trials()
    (lost,) = [one for one in rows if one.state == TrialState.RUNNING]
    ended = [one for one in rows if one.state == TrialState.COMPLETE]
    assert len(ended) == 11, "together with the one that runs there are as many as were asked for"
    assert {one.value for one in ended} == {process.pid for process in two}
    assert len({one.params["optimiser.rate"] for one in rows}) == len(rows)
    monkeypatch.setattr(trial_storage, "GRACE", 1)
    time.sleep(2)
    rows = trials(12, url=url)
    assert states(rows).count("done") == 12
    (again,) = [one for one in rows if one.system_attrs.get("failed_trial") == lost.number]
    assert again.params == lost.params
    assert [one.optimiser.rate for one in quick] == [lost.params["optimiser.rate"]]


def test_the_command_searches_in_postgresql(
    hnets_search: Command, quick: list[Recipe], postgresql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = f"--storage {postgresql} --study shared --seeds 1"
    with open_study(recipe(), "shared", Path(), postgresql) as (study, _):
        study.ask().set_user_attr("host", "elsewhere")
    code, out, err = hnets_search(f"tiny.toml --out out {options}")
    assert (code, err, len(quick)) == (0, "", 2)
    assert "1 of 3 trials still run on elsewhere" in out
    assert not Path("out/search.db").exists()
    wrong = postgresql.replace("p%40ss", "wrong")
    code, _, err = hnets_search(f"tiny.toml --out out --storage {wrong}")
    assert (code, err.count("\n")) == (2, 1)
    assert re.search(r"me:\*\*\*@127.*cannot be used \(.*password authentication failed", err), err
    monkeypatch.setitem(sys.modules, "psycopg", None)
    code, _, err = hnets_search(f"tiny.toml --out out {options}")
    expected = 'hnets: searches in PostgreSQL need psycopg: pip install "hnets[postgresql]"\n'
    assert (code, err) == (2, expected)


def test_trials_that_still_run_elsewhere_are_left_to_their_process(
    hnets_search: Command, quick: list[Recipe]
) -> None:
    with open_study(recipe(), "tiny", Path()) as (study, _):
        study.ask().set_user_attr("host", "elsewhere")
    code, out, _ = hnets_search("tiny.toml --out .")
    assert (code, len(quick)) == (0, 2)
    assert "1 of 3 trials still run on elsewhere" in out
    assert Path("best.toml").exists()
    assert not Path("result.json").exists()


def test_a_trial_that_others_gave_up_meanwhile_stays_given_up(
    quick: list[Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_study(recipe(), "tiny", Path()) as (study, storage):
        train = search.train

        def sleep(runs: Sequence[Run], *rest: Any, **options: Any) -> list[Result]:
            if len(quick) == 0:
                storage.set_trial_state_values(1, TrialState.FAIL)
            return train(runs, *rest, **options)

        monkeypatch.setattr(search, "train", sleep)
        list(train_trials(recipe(), study, storage, 2, CPU))
        assert states(study.get_trials()) == ["stopped", "done", "done"]


def test_processes_that_train_together_do_not_search() -> None:
    with (
        open_study(recipe(), "tiny", Path()) as (study, storage),
        pytest.raises(InputError, match="without torchrun, once for each GPU"),
    ):
        next(train_trials(recipe(), study, storage, 1, Team(0, 2, torch.device("cpu"))))


def test_of_trials_side_by_side_the_diverged_one_is_left_out(quick: list[Recipe]) -> None:
    chosen = recipe('[search.space]\n"optimiser.rate" = { choices = [0.001, 0.01, 1e30] }')
    with open_study(chosen, "tiny", Path()) as (study, storage):
        rounds = list(train_trials(chosen, study, storage, 8, GPU, parallel=4))
        outcomes = {(one.params["optimiser.rate"], one.state) for one in study.get_trials()}
    assert [len(rows) for rows in rounds] == [4, 8]
    assert outcomes == {
        (0.001, TrialState.COMPLETE),
        (0.01, TrialState.COMPLETE),
        (1e30, TrialState.PRUNED),
    }


def test_too_many_trials_for_the_gpu(quick: list[Recipe], monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(search, "train", train)
    with (
        open_study(recipe(), "tiny", Path()) as (study, storage),
        pytest.raises(InputError, match=r"3 trials at once need more memory.*--parallel"),
    ):
        next(train_trials(recipe(), study, storage, 3, GPU, parallel=3))


def test_the_lowest_error_then_the_lowest_loss() -> None:
    def trial(number: int, state: TrialState, error: float | None, loss: float) -> FrozenTrial:
        one = optuna.trial.create_trial(state=state, value=error, user_attrs={"val_loss": loss})
        one.number = number
        return one

    rows = [
        trial(0, TrialState.PRUNED, None, 0.0),
        trial(1, TrialState.COMPLETE, 2.0, 0.5),
        trial(2, TrialState.COMPLETE, 1.0, 0.9),
        trial(3, TrialState.COMPLETE, 1.0, 0.4),
    ]
    assert [one.number for one in ranked(rows)] == [3, 2, 1]
    assert best_of(rows).number == 3
    with pytest.raises(InputError, match="none of 1 trials came to an end"):
        best_of(rows[:1])
