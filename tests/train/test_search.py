"""The search for hyperparameters: trials that processes share, and no test set for them."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console
from torch import nn

from commands import Command
from hnets import data
from hnets.cli import cmd_search as command
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
)
from hnets.train import study as studies
from hnets.train.recipe import Data, Model
from hnets.train.search import best_of, open_study, ranked, run_trials
from hnets.train.study import Study, Trial
from hnets.train.toml import to_toml

CPU = Team(0, 1, torch.device("cpu"))
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
    """Let a network be trained in no time; its error is told by its learning rate."""
    trained = list[Recipe]()

    def train(
        runs: Sequence[Run], team: Team, resume: bool = False, watch: Watch | None = None
    ) -> list[Result]:
        trained.extend(run.recipe for run in runs)
        rates = [run.recipe.optimiser.rate for run in runs]
        rows = [{"epoch": 1.0, "val_error": 100 * rate, "val_loss": rate} for rate in rates]
        return [Result(run, nn.Identity(), [row], 0.5) for run, row in zip(runs, rows, strict=True)]

    monkeypatch.setattr(search, "train", train)
    return trained


@pytest.fixture
def study() -> Iterator[Study]:
    with open_study(recipe(), "tiny", Path()) as opened:
        yield opened


# The command ---------------------------------------------------------------------------------


def test_the_protocol(hnets_search: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, load = list[str](), data.load

    def loading(name: str, split: str, **rest: Any) -> data.Dataset:
        loaded.append(split)
        return load(name, split, **rest)

    monkeypatch.setattr(data, "load", loading)
    code, out, err = hnets_search("tiny.toml --out out --seeds 2")
    assert (code, err) == (0, "")
    assert set(loaded[: loaded.index("train+val")]) == {"train", "val"}
    assert loaded.count("test") == 1
    assert loaded[-1] == "test"

    told = json.loads(Path("out/search.json").read_text())
    trials = told["trials"]
    assert [one["state"] for one in trials] == ["done"] * 3
    assert all(one["seconds"] > 0 and one["val_loss"] > 0 for one in trials)
    best = min(trials, key=lambda one: (one["val_error"], one["val_loss"]))
    assert told["best"] == best["number"]

    final = read_recipe("out/best.toml")
    values = {key: _at(final, key) for key in best["values"]}
    assert values == best["values"], "the best values are not written down exactly"
    assert (final.data.train, final.data.val, final.data.test) == ("train+val", "", "test")
    result = json.loads(Path("out/result.json").read_text())
    assert result["recipe"] == json.loads(json.dumps(final.to_dict()))
    assert [seed["seed"] for seed in result["seeds"]] == [1, 2]
    assert f"{result['summary']['test']['mean']:.2f} ± " in out
    assert "(seeds: 2)" in out
    assert "3/3 trials  best" in out
    weights = Path(f"out/trial-{best['number']}/seed-2/model.safetensors")
    assert weights.is_file()

    before = weights.stat().st_ino, (weights.parent / "checkpoint.safetensors").stat().st_ino
    assert hnets_search("tiny.toml --out out --seeds 2")[0] == 0
    assert json.loads(Path("out/result.json").read_text())["seeds"] == result["seeds"]
    assert (weights.parent / "checkpoint.safetensors").stat().st_ino == before[1], "trained twice"

    code, _, _ = hnets_search("tiny.toml --out out --trials 4 --seeds 1 --sampler tpe")
    again = json.loads(Path("out/search.json").read_text())["trials"]
    assert (code, len(again), again[:3]) == (0, 4, trials)


def _at(recipe: Recipe, key: str) -> object:
    part, name = key.split(".")
    return getattr(getattr(recipe, part), name)


def test_a_folder_without_test_pictures(hnets_search: Command) -> None:
    random = np.random.default_rng(0)
    for place in ("train/a", "train/b", "val/a", "val/b"):
        Path("pictures", place).mkdir(parents=True)
        for i in range(3):
            pixels = random.integers(256, size=(28, 28), dtype=np.uint8)
            Image.fromarray(pixels).save(Path("pictures", place, f"{i}.png"))
    arguments = "tiny.toml --seeds 1 --trials 1 --set data.limit=0 --set data.name=./pictures"
    code, _, err = hnets_search(f"{arguments} --out out")
    assert code == 2
    assert "none for test" in err
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
    trials = json.loads(Path("out/search.json").read_text())["trials"]
    assert [one["state"] for one in trials] == ["done", "stopped", "done", "done"]
    assert trials[0] == first
    assert len(calls) == 4


def test_a_trial_that_diverges(hnets_search: Command) -> None:
    recipe('[search.space]\n"optimiser.rate" = { choices = [0.001, 1e30] }')
    code, out, err = hnets_search("tiny.toml --out out --trials 4 --seeds 1")
    assert (code, err) == (0, "")
    trials = json.loads(Path("out/search.json").read_text())["trials"]
    outcomes = {(one["values"]["optimiser.rate"], one["state"]) for one in trials}
    assert outcomes == {(0.001, "done"), (1e30, "diverged")}
    assert "diverged  optimiser.rate = 1e+30" in out


def test_trials_of_another_machine_are_waited_for(
    hnets_search: Command, quick: list[Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as there, open_study(recipe(), "tiny", Path()) as other:
        there.setattr(platform, "node", lambda: "elsewhere")
        other.take(1, upto=3)
        there.undo()
        code, out, _ = hnets_search("tiny.toml --out .")
    assert (code, len(quick)) == (0, 2)
    assert "1 of 3 trials still run on elsewhere" in out
    assert Path("best.toml").exists()
    assert not Path("result.json").exists()


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
        ("tiny.toml --out old --set optimiser.eps=1", "begun with optimiser.eps = 1e-08, and .* 1"),
        ("wider.toml --out old --study tiny", "begun with search.space = .*--study"),
        ("tiny.toml --out old --study foreign", "'foreign' in .* is no search of hnets"),
    ],
)
def test_bad_input(
    hnets_search: Command, arguments: str, message: str, quick: list[Recipe]
) -> None:
    import optuna

    Path("taken").write_text("a file that is in the way" * 100)
    Path("wider.toml").write_text((HEAD + SPACE).replace("1e-1", "1.0"))
    Path("old").mkdir()
    with open_study(recipe(), "tiny", Path("old")) as old:
        other = optuna.create_study(storage=old._study._storage, study_name="foreign")
        other.tell(other.ask(), 1.0)
    code, out, err = hnets_search(arguments)
    assert (code, out, quick) == (2, "", [])
    assert err.count("\n") == 1
    assert re.search(message, err), err


def test_optuna_is_missing(hnets_search: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = ("hnets.train.study", "hnets.train.sampler", "hnets.train.storage")
    for name in [n for n in sys.modules if n.split(".")[0] == "optuna" or n in ours]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, out, err = hnets_search("tiny.toml")
    assert (code, out) == (2, "")
    assert err == 'hnets: searches need optuna: pip install "hnets[search]"\n'
    assert not Path("runs").exists()


def test_one_line_on_a_terminal() -> None:
    file = StringIO()
    console = Console(file=file, force_terminal=True, width=100)
    run = Run(recipe(), 1)
    done = Trial(0, "done", {"optimiser.rate": 0.01}, 2.5, 0.1, 3.0)
    with command._watching(console, 20) as (show, watch):
        watch(run, {"epoch": 1.0})
        show([done, Trial(1, "diverged", {"optimiser.rate": 9.0})])
    said = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", file.getvalue()).strip().splitlines()[-1]
    assert re.search(r"trials 2/20 .* best 2\.50 %: optimiser\.rate = 0\.01", said), said


# The space -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ("", r"no \[search.space\], so there is nothing to try: add one with, for instance, "),
        ('"optimiser.rat" = { low = 1, high = 2 }', "no key 'optimiser.rat'; did you mean 'opti"),
        ("optimiser.rate = { low = 1, high = 2 }", r'in quotes: write "optimiser\.rate"'),
        ('"optimiser.rate.x" = { low = 1, high = 2 }', "no key 'optimiser.rate.x'; did you mean"),
        ('"data.limit" = { low = 1, high = 2 }', r"expected a key of model, .*, got 'data\.limit'"),
        ('"optimiser.rate" = 3', r"rate\": expected \{ low = .* or \{ choices = .* \}, got 3"),
        ('"optimiser.rate" = { low = 1, hihg = 2 }', "no key 'hihg'; did you mean 'high'"),
        ('"optimiser.rate" = { choice = [1, 2] }', "no key 'choice'; did you mean 'choices'"),
        ('"optimiser.rate" = { choices = [1], log = true }', "no key 'log'"),
        ('"optimiser.rate" = { low = 1 }', "needs a key 'high', as in { low"),
        ('"optimiser.rate" = { low = 2, high = 1 }', "low: expected less than its high of 1, got"),
        ('"optimiser.rate" = { low = 1, high = 1 }', "low: expected less than its high of 1, got"),
        ('"optimiser.rate" = { low = 0.0, high = 1, log = true }', "more than 0, since log = true"),
        ('"optimiser.rate" = { low = "1", high = 2 }', "low: expected a number, got '1'"),
        ('"optimiser.rate" = { low = 1, high = inf }', "high: expected a number, got inf"),
        ('"optimiser.rate" = { low = 1, high = 2, log = 1 }', "log: expected true or false, got 1"),
        ('"optimiser.rate" = { choices = [] }', "choices: expected a list of values"),
        ('"optimiser.rate" = { choices = [[1]] }', r"expected numbers, texts.*, got \[1\]"),
        ('"optimiser.rate" = { low = -1, high = 2 }', "rate: expected a learning rate above 0"),
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


def test_the_values_lie_in_the_space(study: Study, quick: list[Recipe]) -> None:
    run_trials(recipe(), study, 20, CPU)
    rates = [one.optimiser.rate for one in quick]
    assert 1e-3 <= min(rates) < 3e-3, "a logarithmic range has as many low values as high ones"
    assert 3e-2 < max(rates) <= 1e-1
    decays = {one.optimiser.weight_decay for one in quick}
    assert len(decays) == 20, "0 to 1 are not the two whole numbers where any number will do"
    assert {one.training.batch for one in quick} == {23, 46}
    assert {one.schedule.every for one in quick} == {1, 2, 3}
    assert all(
        (one.data.train, one.data.val, one.data.test) == ("train", "val", "") for one in quick
    )


def test_values_follow_from_seed_and_number(quick: list[Recipe]) -> None:
    def values(folder: str, seed: int, times: int) -> list[Any]:
        Path(folder).mkdir(exist_ok=True)
        for count in range(1, times + 1):
            with open_study(recipe(), "tiny", Path(folder), seed=seed) as opened:
                found = run_trials(recipe(), opened, 3 * count // times, CPU)
        return [one.values for one in found]

    at_once, in_parts = values("a", 1, times=1), values("b", 1, times=3)
    assert at_once == in_parts
    assert at_once != values("c", 2, times=1)


# Processes -----------------------------------------------------------------------------------

WORKER = """
import os, signal, sys, time
from pathlib import Path
import torch
from torch import nn
from hnets.train import (
    Result,
    Team,
    read_recipe,
    search,
)

def train(runs, team, watch):
    time.sleep(0.02)
    row = {"val_error": float(os.getpid()), "val_loss": 1.0}
    return [Result(runs[0], nn.Identity(), [row], 0.0)]

search.train = train
recipe = read_recipe("tiny.toml")
Path(sys.argv[1]).touch()
while not Path("go").exists():
    time.sleep(0.01)
with search.open_study(recipe, "tiny", Path()) as study:
    if "die" in sys.argv:
        study.take(2, 5)
        os.kill(os.getpid(), signal.SIGKILL)
    search.run_trials(recipe, study, 16, Team(0, 1, torch.device("cpu")))
"""


def process(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", WORKER, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_two_processes_do_exactly_as_many_trials_as_asked() -> None:
    both = [process("first"), process("second")]
    while not (Path("first").exists() and Path("second").exists()):
        assert all(one.poll() is None for one in both), "a process ended before the start"
        time.sleep(0.01)
    Path("go").touch()
    errors = [one.communicate(timeout=120)[1] for one in both]
    assert errors == ["", ""]
    with open_study(recipe(), "tiny", Path()) as study:
        trials = study.trials()
    assert [one.state for one in trials] == ["done"] * 16
    assert {one.val_error for one in trials} == {float(one.pid) for one in both}
    rates = {one.values["optimiser.rate"] for one in trials}
    assert len(rates) == 16, "two processes have tried the same values"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 on Windows")
def test_trials_of_a_killed_process_are_done_again(quick: list[Recipe]) -> None:
    Path("go").touch()
    killed = process("first", "die")
    assert killed.communicate(timeout=120)[1] == ""
    assert killed.returncode == -signal.SIGKILL
    with open_study(recipe(), "tiny", Path()) as study:
        assert [one.state for one in study.trials()] == ["running", "running"]
        found = run_trials(recipe(), study, 5, CPU)
    assert [one.state for one in found] == ["stopped"] * 2 + ["done"] * 5


def test_silence_tells_the_trials_of_a_machine_that_is_gone(
    quick: list[Recipe], monkeypatch: pytest.MonkeyPatch, study: Study
) -> None:
    with open_study(recipe(), "tiny", Path()) as gone:
        with monkeypatch.context() as there:
            there.setattr(platform, "node", lambda: "elsewhere")
            gone.take(1, upto=2)
        assert [one.state for one in run_trials(recipe(), study, 2, CPU)] == ["running", "done"]
        with monkeypatch.context() as later:
            later.setattr(studies, "SILENT", -1.0)
            found = run_trials(recipe(), study, 2, CPU)
        assert [one.state for one in found] == ["stopped", "done", "done"]
        gone.done(found[0], 0.0, 0.0, 0.0)  # it was only asleep
        assert study.trials() == found


def test_a_process_signs_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "SIGN_EVERY", 0.01)
    with open_study(recipe(), "tiny", Path()) as study:
        study.take(1, upto=1)
        signed, until = set[float](), time.monotonic() + 20
        while len(signed) < 3 and time.monotonic() < until:
            owner = study._study.trials[0].user_attrs["owner"]
            signed.add(owner["signed"])
        assert len(signed) == 3


def test_a_trial_too_many_is_given_back(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    count = Study._counted
    # As if another process had taken the last one between the look and the taking.
    monkeypatch.setattr(
        Study, "_counted", lambda self, before=None: count(self, before) * (before is not None)
    )
    assert [one.number for one in study.take(3, upto=2)] == [0, 1]
    assert [one.number for one in study.trials()] == [0, 1]


def test_processes_that_train_together_do_not_search(study: Study) -> None:
    with pytest.raises(InputError, match="without torchrun, once for each GPU"):
        run_trials(recipe(), study, 1, Team(0, 2, torch.device("cpu")))


# On a GPU ------------------------------------------------------------------------------------


def test_of_trials_side_by_side_the_diverged_one_is_left_out(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = list[int]()

    def train(runs: Sequence[Run], team: Team, watch: Watch | None) -> list[Result]:
        """The run with the third highest rate diverges."""
        rounds.append(len(runs))
        lost = next(run for run in runs if run.recipe.optimiser.rate == third)
        row = {"val_error": 1.0, "val_loss": 1.0}
        error = Diverged("the loss became nan", lost)
        error.results = [Result(run, nn.Identity(), [row], 0.0) for run in runs if run is not lost]
        raise error

    monkeypatch.setattr(search, "train", train)
    chosen = recipe().replace({"training.epochs": 3})
    with open_study(chosen, "other", Path()) as other:
        taken = other.take(4, upto=4)
        third = sorted(one.values["optimiser.rate"] for one in taken)[1]
        runs = {
            one.number: search._run(search.trial_recipe(chosen).replace(one.values))
            for one in taken
        }
        search._run_group(taken, runs, other, Team(0, 1, torch.device("cuda")), None)
        states = {one.values["optimiser.rate"]: one.state for one in other.trials()}
    assert rounds == [4], "the others were trained twice"
    assert states.pop(third) == "diverged"
    assert set(states.values()) == {"done"}


@pytest.mark.gpu
def test_trials_side_by_side() -> None:
    chosen = recipe('[search.space]\n"optimiser.rate" = { choices = [0.001, 0.01, 1e30] }')
    with open_study(chosen, "tiny", Path()) as study:
        gpu = Team(0, 1, torch.device("cuda"))
        found = run_trials(chosen, study, 8, gpu, parallel=4)
    outcomes = {(one.values["optimiser.rate"], one.state) for one in found}
    assert outcomes == {(0.001, "done"), (0.01, "done"), (1e30, "diverged")}


def test_too_many_trials_for_the_gpu(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    def train(*_: Any, **__: Any) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(search, "train", train)
    with pytest.raises(InputError, match=r"3 trials at once need more memory.*--parallel"):
        run_trials(recipe(), study, 3, Team(0, 1, torch.device("cuda")), parallel=3)


# What is chosen ------------------------------------------------------------------------------


def test_the_lowest_error_then_the_lowest_loss() -> None:
    trials = [
        Trial(0, "diverged", {}),
        Trial(1, "done", {}, 2.0, 0.5),
        Trial(2, "done", {}, 1.0, 0.9),
        Trial(3, "done", {}, 1.0, 0.4),
        Trial(4, "stopped", {}),
    ]
    assert [one.number for one in ranked(trials)] == [3, 2, 1]
    assert best_of(trials).number == 3
    with pytest.raises(InputError, match="none of 1 trials came to an end"):
        best_of(trials[:1])


# TOML ----------------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"))
VALUES = st.recursive(
    TEXT | st.integers() | st.booleans() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(TEXT, st.dictionaries(TEXT, VALUES, max_size=4))
def test_recipes_round_trip_through_toml(title: str, options: dict[str, Any]) -> None:
    made = Recipe(title, Model("z2cnn", options), Data('C:\\pictures\\"mine"')).replace(
        {"search.space": {"optimiser.rate": {"low": 1e-300, "high": 0.1 + 0.2, "log": True}}}
    )
    Path("made.toml").write_text(to_toml(made), encoding="utf-8", newline="")
    assert read_recipe("made.toml") == made


def test_what_toml_has_no_word_for() -> None:
    with pytest.raises(TypeError, match="got None"):
        to_toml(Recipe("t", Model("z2cnn", {"a": None}), Data("digits")))
