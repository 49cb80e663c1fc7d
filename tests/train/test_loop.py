"""The loop: what runs learn, how they survive, and how short the way to a step is."""

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import hnets
from commands import Command
from hnets.errors import InputError
from hnets.functional import rotate_pixels
from hnets.train import Diverged, Recipe, Run, Team, report, train
from hnets.train import checkpoint as checkpoints
from hnets.train.loop import falls, rates
from hnets.train.recipe import Schedule, to_toml
from hnets.train.task import errors

TEAM = Team(0, 1, torch.device("cpu"))
Recipes = Callable[..., Recipe]


# Schedules -----------------------------------------------------------------------------------


def test_the_papers_rule_divides_by_ten_after_ten_epochs_without_better_validation() -> None:
    best_then_flat = [3.0, 2.0, *[2.0] * 9]
    assert falls(best_then_flat, patience=10) == 0
    assert falls([*best_then_flat, 2.5], patience=10) == 1
    assert falls([*best_then_flat, 1.9], patience=10) == 0
    assert falls([2.0] * 31, patience=10) == 3
    plateau = Schedule("plateau")
    assert rates(plateau, 12, 200, 2, [*best_then_flat, 2.5]) == pytest.approx([0.1, 0.1])


def test_cosine_falls_from_one_to_nothing_step_by_step() -> None:
    every = [r for epoch in range(5) for r in rates(Schedule("cosine"), epoch, 5, 4, [])]
    assert every[0] == 1
    assert every[10] == pytest.approx(0.5)
    assert 0 < every[-1] < 0.01
    assert every == sorted(every, reverse=True)


def test_cosine_falls_to_its_floor() -> None:
    schedule = Schedule("cosine", floor=0.3)
    every = [r for epoch in range(5) for r in rates(schedule, epoch, 5, 4, [])]
    assert every[0] == 1
    assert every[10] == pytest.approx(0.65)
    assert 0.3 < every[-1] < 0.31


def test_warm_up_grows_to_the_schedule_and_the_first_step_moves() -> None:
    grown = rates(Schedule("constant", warmup=2), 0, 9, 4, [])
    assert grown == pytest.approx([1 / 8, 2 / 8, 3 / 8, 4 / 8])
    assert rates(Schedule("constant", warmup=2), 2, 9, 4, []) == [1, 1, 1, 1]


# Learning ------------------------------------------------------------------------------------


def test_a_run_learns_and_its_rows_say_so(tmp_path: Path, tiny: Recipes) -> None:
    recipe = tiny(training__epochs=8, data__test="test", augment__rotate=20.0, evaluation__views=3)
    rows = []
    runs = [Run(recipe, 1, tmp_path / "seed-1", "mine")]
    trained = train(runs, TEAM, watch=lambda _, row: rows.append(row))
    result = report(trained, TEAM, tmp_path)
    assert rows[-1]["loss"] < 0.7 * rows[0]["loss"]
    assert result["summary"]["test"]["mean"] < 20  # of 50 by chance
    assert set(result["summary"]) == {"train", "val", "test", "test, averaged"}
    found = result["seeds"][0]["errors"]
    assert result["log_loss"]["test"] == {"mean": found["test"]["loss"], "std": 0.0, "n": 1}
    assert found["test, averaged"]["loss"] != found["test"]["loss"]
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert result["name"] == "mine"
    assert result["recipe"] == recipe.to_dict()
    assert result["parameters"] == sum(p.numel() for p in trained[0].model.parameters())
    assert result["data"]["train"]["images"] == 46
    assert result["classes"] == list(runs[0].data["train"].classes)
    assert re.fullmatch("[0-9a-f]{64}", result["data"]["test"]["sha256"])
    assert re.fullmatch(r"unknown|[0-9a-f]{40}\+?", result["commit"])
    assert result["versions"]["torch"] == torch.__version__
    with (tmp_path / "seed-1" / "log.csv").open() as file:
        logged = list(csv.DictReader(file))
    assert [int(float(row["epoch"])) for row in logged] == list(range(1, 9))
    assert [float(row["loss"]) for row in logged] == [row["loss"] for row in rows]
    # The weights that were written are those that were evaluated.
    model = hnets.load(tmp_path / "seed-1")
    assert model.config == trained[0].model.config
    assert errors(model, *runs[0].data["test"]).error == result["summary"]["test"]["mean"]


def test_tensorboard_reads_every_epoch(tmp_path: Path, tiny: Recipes) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    (result,) = train([Run(tiny(), 1, tmp_path)], TEAM)
    train([Run(tiny(), 1, tmp_path)], TEAM, resume=True)  # writes them again
    (file,) = (tmp_path / "events").glob("events.out.tfevents.*")
    version, *epochs = loader.LegacyEventFileLoader(str(file)).Load()
    assert version.file_version == "brain.Event:2"
    assert [one.step for one in epochs] == [1, 2, 3]
    written = [{v.tag: v.simple_value for v in one.summary.value}["loss"] for one in epochs]
    assert written == pytest.approx([row["loss"] for row in result.history])


def test_predictions_are_averaged_over_rotated_views() -> None:
    """A network with the same output for all views is as wrong with them as without."""
    images, labels = torch.rand(20, 1, 28, 28), torch.arange(20) % 10
    blind = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 10))
    nn.init.zeros_(blind[2].weight)
    assert errors(blind, images, labels, views=4) == errors(blind, images, labels)
    shown = list[torch.Tensor]()
    blind.register_forward_pre_hook(lambda _, inputs: shown.append(inputs[0]))
    errors(blind, images, labels, views=2)
    expected = [images, rotate_pixels(images, math.pi / 4).clamp(0, 1)]
    assert all(map(torch.equal, shown, expected))
    assert len(shown) == 2


def test_the_seed_fixes_everything_and_another_seed_changes_it(tiny: Recipes) -> None:
    recipe = tiny(training__epochs=1)
    first, again, other = (train([Run(recipe, seed)], TEAM)[0] for seed in (1, 1, 2))
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    assert first.history[0]["loss"] == again.history[0]["loss"] != other.history[0]["loss"]


# Surviving -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["hnet_mnist", "hnet_fourier_tiny", "z2cnn"])
@pytest.mark.parametrize("stream", [False, True], ids=["in memory", "streamed"])
def test_stopped_and_resumed_is_bit_identical(
    tmp_path: Path, model: str, stream: bool, tiny: Recipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights as without the kill, with dropout, running mean and random rotations."""
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    options = {"dropout": 0.3} if model == "z2cnn" else {}
    recipe = tiny(
        model__name=model,
        model__options=options,
        data__size=28 if model == "z2cnn" else 12,
        training__ema=0.99,
        augment__rotate=30.0,
        schedule__name="plateau",
        schedule__patience=1,
        training__statistics="recomputed",
    )
    whole = Run(recipe, 1, tmp_path / "whole")
    parts = Run(recipe.replace({"data.stream": stream}), 1, tmp_path / "parts")
    expected = train([whole], TEAM)[0]

    class Killed(BaseException):
        pass

    def kill(_: Run, row: dict[str, float]) -> None:
        if row["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        train([parts], TEAM, watch=kill)
    seen = []
    resumed = train([parts], TEAM, resume=True, watch=lambda _, row: seen.append(row["epoch"]))[0]
    assert seen == [2, 3]
    for name, value in expected.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    timeless = [
        [{k: v for k, v in row.items() if "second" not in k} for row in one.history]
        for one in (expected, resumed)
    ]
    assert timeless[0] == timeless[1]


def test_kill_9_of_a_real_process_costs_nothing_but_time(
    tmp_path: Path, tiny: Recipes, hnets_command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor do its processes that decode images, which end later, keep the folder locked."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    recipe = tiny(training__epochs=12, data__stream=True)
    Path("mine.toml").write_text(to_toml(recipe))
    command = [sys.executable, "-m", "hnets", "train", "mine.toml", "--out", "run"]
    killed = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
    log, deadline = Path("run/seed-1/log.csv"), time.monotonic() + 120
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGSTOP)  # it still has epochs to go
    busy = hnets_command("train", "--resume", "--out", "run", "--device", "cpu")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not Path("run/result.json").exists(), "the kill came too late"
    assert busy.code == 2
    assert "run/seed-1 is in use by another training: wait for its end" in busy.err
    again = hnets_command("train", "mine.toml", "--out", "run", "--device", "cpu")
    assert again.code == 2
    assert "run already holds a run of mine: add --resume" in again.err
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in that process: sums are rounded by the order of their terms
    resumed = hnets_command("train", "--resume", "--out", "run", "--device", "cpu")
    in_memory = Run(recipe.replace({"data.stream": False}), 1)
    expected = train([in_memory], TEAM)[0].model.state_dict()
    torch.set_num_threads(threads)
    assert resumed.code == 0, resumed.err
    assert "wrote run/result.json" in resumed.out
    weights = load_file("run/seed-1/model.safetensors")
    assert all(torch.equal(value, weights[name]) for name, value in expected.items())


class Poisoned(nn.Module):
    """Its logits become NaN after some calls."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after, self.bias = after, nn.Parameter(torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.after -= self.training
        return x.mean((1, 2, 3))[:, None] + self.bias * (1.0 if self.after >= 0 else math.nan)


def test_a_loss_that_is_nan_stops_the_run_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Recipes
) -> None:
    monkeypatch.setattr("hnets.train.run.create_model", lambda *_, **__: Poisoned(3))
    with pytest.raises(
        Diverged, match=r"became nan in epoch 2, step 2 of 2 .*lower optimiser.rate"
    ):
        train([Run(tiny(), 1, tmp_path / "run")], TEAM)
    saved = checkpoints.load(tmp_path / "run")
    assert len(saved.history) == 1
    assert all(value.isfinite().all() for value in saved.state.values())


def test_a_run_that_diverges_does_not_stop_those_beside_it(tiny: Recipes) -> None:
    good, bad = tiny(training__epochs=1), tiny(training__epochs=1, optimiser__rate=1e38)
    runs = [Run(bad, 1), Run(good, 2), Run(good, 3)]
    with pytest.raises(Diverged, match=r"\(seed 1\)") as caught:
        train(runs, TEAM)
    assert caught.value.runs == [runs[0]]
    assert [one.run for one in caught.value.results] == runs[1:]
    assert all(math.isfinite(one.history[-1]["loss"]) for one in caught.value.results)


def test_seeds_beside_one_that_diverges_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: Recipes, hnets_command: Command
) -> None:
    """The first network has weights that are NaN."""
    made = list[nn.Module]()

    def create(name: str, **options: int) -> nn.Module:
        made.append(hnets.create_model(name, **options))
        if len(made) == 1:
            nn.init.constant_(next(made[0].parameters()), math.nan)
        return made[-1]

    monkeypatch.setattr("hnets.train.run.create_model", create)
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text(to_toml(tiny(training__epochs=1)))
    done = hnets_command("train", str(file), "--seeds", "2", "--out", str(out), "--device", "cpu")
    assert done.code == 2
    assert "(mine seed 1)" in done.err
    assert done.err.endswith(f"{out / 'result.json'} has the other seeds\n")
    assert done.err.count("\n") == 1
    assert [seed["seed"] for seed in json.loads((out / "result.json").read_text())["seeds"]] == [2]
    assert [path.parent.name for path in out.glob("*/model.safetensors")] == ["seed-2"]


def test_one_folder_is_one_training(tmp_path: Path, tiny: Recipes) -> None:
    def second(run: Run, _: dict[str, float]) -> None:
        before = (tmp_path / "log.csv").read_text()
        with pytest.raises(InputError, match="is in use by another training"):
            train([Run(run.recipe, 1, tmp_path)], TEAM)
        assert (tmp_path / "log.csv").read_text() == before

    train([Run(tiny(training__epochs=1), 1, tmp_path)], TEAM, watch=second)
    train([Run(tiny(training__epochs=1), 1, tmp_path)], TEAM)  # it is free again
