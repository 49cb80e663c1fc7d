"""Training: what a run learns, survives and leaves behind."""

import csv
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import nn

from hnets import nn as hnn
from hnets.errors import InputError
from hnets.functional import rotate_pixels
from hnets.models import create_model
from hnets.train import (
    Diverged,
    Recipe,
    Run,
    Unwritable,
    joined,
    prepare,
    report,
    train,
)
from hnets.train import checkpoint as checkpoints
from hnets.train.classification_task import Classification, errors
from hnets.train.distributed import Team
from hnets.train.loop import falls, rates
from hnets.train.recipe import Schedule
from hnets.train.run import load
from hnets.train.step import Learner, recompute_statistics

TEAM = Team(0, 1, torch.device("cpu"))
TINY = {
    "title": "a few digits",
    "model": {"name": "z2cnn"},
    "data": {"name": "digits-r", "limit": 46},
    "optimiser": {"rate": 0.002},
    "training": {"epochs": 3, "batch": 23, "save_every": 0},
}


def tiny(**changes: object) -> Recipe:
    return Recipe.from_dict(TINY).replace({k.replace("__", "."): v for k, v in changes.items()})


def toml(recipe: Recipe, path: Path) -> Path:
    """A recipe as a file, by way of JSON values, which TOML shares."""
    lines = [f"title = {json.dumps(recipe.title)}"]
    for name, table in recipe.to_dict().items():
        if name in ("title", "search"):
            continue
        lines.append(f"[{name}]")
        lines += [f"{key} = {json.dumps(v)}" for key, v in table.items() if not isinstance(v, dict)]
    path.write_text("\n".join(lines))
    return path


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


def test_warm_up_grows_to_the_schedule_and_the_first_step_moves() -> None:
    grown = rates(Schedule("constant", warmup=2), 0, 9, 4, [])
    assert grown == pytest.approx([1 / 8, 2 / 8, 3 / 8, 4 / 8])
    assert rates(Schedule("constant", warmup=2), 2, 9, 4, []) == [1, 1, 1, 1]


# Learning ------------------------------------------------------------------------------------


def test_a_run_learns_and_its_rows_say_so(tmp_path: Path) -> None:
    recipe = tiny(training__epochs=8, data__limit=200, data__test="test", augment__rotate=20.0)
    rows = []
    runs = [Run(recipe, 1, tmp_path / "seed-1", "mine")]
    trained = train(runs, TEAM, watch=lambda _, row: rows.append(row))
    result = report(trained, TEAM, tmp_path)
    assert rows[-1]["loss"] < 0.7 * rows[0]["loss"]
    assert result["summary"]["test"]["mean"] < 75  # of 90 by chance
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert result["name"] == "mine"
    assert result["recipe"] == recipe.to_dict()
    assert result["parameters"] == 21570
    assert result["data"]["train"]["images"] == 200
    assert re.fullmatch("[0-9a-f]{64}", result["data"]["test"]["sha256"])
    assert re.fullmatch(r"unknown|[0-9a-f]{40}\+?", result["commit"])
    assert result["versions"]["torch"] == torch.__version__
    with (tmp_path / "seed-1" / "log.csv").open() as file:
        logged = list(csv.DictReader(file))
    assert [int(float(row["epoch"])) for row in logged] == list(range(1, 9))
    assert [float(row["loss"]) for row in logged] == [row["loss"] for row in rows]
    assert list((tmp_path / "seed-1" / "events").glob("events.out.tfevents.*"))
    # The weights that were written are those that were evaluated.
    model = create_model("z2cnn")
    model.load_state_dict(load_file(tmp_path / "seed-1" / "model.safetensors"))
    from hnets.data import load

    assert errors(model, *load("digits-r", "test")).error == result["summary"]["test"]["mean"]


def learner(recipe: Recipe, seed: int = 1) -> Learner:
    torch.manual_seed(seed)
    images, labels = torch.rand(50, 1, 28, 28), torch.arange(50) % 10
    return Learner(create_model(recipe.model.name), Classification(images, labels), recipe, 1, TEAM)


def test_every_picture_is_seen_in_every_epoch_and_all_batches_are_full() -> None:
    one = learner(tiny(training__batch=23))
    assert one.steps == 3
    orders = []
    for epoch in range(2):
        one.begin_epoch(epoch, [1.0] * 3)
        orders.append(one._order.clone())
        assert len(orders[-1]) == 69
        assert set(orders[-1].tolist()) == set(range(50))
    assert not torch.equal(*orders)


def test_the_rate_of_every_step_is_that_of_the_schedule() -> None:
    """With Adam's first step each weight moves by the rate, whatever the gradient."""
    one = learner(tiny(optimiser__rate=0.5, optimiser__eps=1e-30))
    bias = one.model.get_parameter("layers.0.0.bias")
    one.begin_epoch(0, [0.01, 0.0, 0.03])
    before = bias.detach().clone()
    one.step()
    moved = (bias.detach() - before).abs()
    torch.testing.assert_close(moved[moved > 0], torch.full_like(moved[moved > 0], 0.005))
    before = bias.detach().clone()
    one.step()
    assert torch.equal(bias.detach(), before), "the rate of the second step is 0"
    one.step()
    assert not torch.equal(bias.detach(), before)


def test_phases_have_a_rate_of_their_own_and_no_decay() -> None:
    recipe = tiny(
        model__name="hnet_mnist",
        optimiser__phase_rate=7.8,
        optimiser__weight_decay=0.5,
        optimiser__rate=0.01,
    )
    one = learner(recipe)
    phase = one.model.get_parameter("layers.0.0.filters.phase.0")
    radial = one.model.get_parameter("layers.0.0.filters.radial.0")
    before, weight = phase.detach().clone(), radial.detach().clone()
    one.begin_epoch(0, [1.0] * one.steps)
    one.step()
    moved = (phase.detach() - before).abs()
    torch.testing.assert_close(moved, torch.full_like(moved, 0.078), rtol=1e-2, atol=0)
    step = radial.detach() - weight * (1 - 0.01 * 0.5)
    torch.testing.assert_close(step.abs(), torch.full_like(step, 0.01), rtol=2e-2, atol=0)


def test_the_running_mean_follows_the_weights_and_is_what_is_evaluated() -> None:
    one = learner(tiny(training__ema=0.9))
    assert one.mean is not None
    assert one.evaluated is one.mean
    start = {k: v.clone() for k, v in one.mean.state_dict().items()}
    one.begin_epoch(0, [1.0] * 3)
    one.step()
    for name, value in one.mean.state_dict().items():
        if value.is_floating_point():
            now = one.model.state_dict()[name]
            torch.testing.assert_close(value, start[name] + 0.9 * (now - start[name]))
    assert not any(p.requires_grad for p in one.mean.parameters())


def test_statistics_are_recomputed_with_the_last_weights(tmp_path: Path) -> None:
    """They are those of the training pictures, whatever the running means were."""
    recipe = tiny(training__statistics="recomputed", training__ema=0.9, model__name="hnet_mnist")
    (one,) = train([Run(recipe, 1, tmp_path)], TEAM)
    norms = [part for part in one.model.modules() if isinstance(part, hnn.HBatchNorm2d)]
    task = Classification.of(recipe, load(recipe.data, "train"))
    before = [norm.running_mean.clone() for norm in norms]
    for norm in norms:
        nn.init.uniform_(norm.running_mean)
    recompute_statistics(one.model, task.inputs())
    assert len(norms) == 3
    for norm, mean in zip(norms, before, strict=True):
        torch.testing.assert_close(norm.running_mean, mean)
        assert norm.momentum == 0.1
    assert not any(part.training for part in one.model.modules())


def test_statistics_are_those_of_all_pictures_however_they_are_sorted() -> None:
    """Of 1,001, which leave one over, with two classes far apart, one after the other."""
    images = torch.randn(1001, 1, 28, 28)
    images[:500] += 5
    images[500:] -= 5
    norm = nn.BatchNorm2d(1)
    recompute_statistics(norm, Classification(images, torch.zeros(1001).long()).inputs())
    torch.testing.assert_close(norm.running_var, images.var()[None], rtol=1e-2, atol=0)
    torch.testing.assert_close(norm.running_mean, images.mean()[None], rtol=0, atol=1e-2)


def test_a_failed_recomputation_leaves_the_network_as_it_was() -> None:
    net = nn.Sequential(nn.BatchNorm2d(1, momentum=0.3), nn.Linear(3, 3))
    with pytest.raises(RuntimeError):
        recompute_statistics(net, [torch.rand(4, 1, 5, 5)])
    assert net[0].momentum == 0.3
    assert net.training


def test_answers_are_averaged_over_turned_views(tmp_path: Path) -> None:
    recipe = tiny(evaluation__views=3, data__test="test", training__epochs=1)
    result = report(train([Run(recipe, 1, tmp_path)], TEAM), TEAM)
    assert set(result["summary"]) == {"train", "val", "test", "test, averaged"}
    found = result["seeds"][0]["errors"]
    assert found["test, averaged"]["loss"] != found["test"]["loss"]
    # A network that answers alike to all views is as wrong with them as without.
    images, labels = torch.rand(20, 1, 28, 28), torch.arange(20) % 10
    blind = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 10))
    nn.init.zeros_(blind[2].weight)
    assert errors(blind, images, labels, views=4) == errors(blind, images, labels)
    shown = list[torch.Tensor]()
    blind.register_forward_pre_hook(lambda _, given: shown.append(given[0]))
    errors(blind, images, labels, views=2)
    expected = [images, rotate_pixels(images, math.pi / 4).clamp(0, 1)]
    assert all(map(torch.equal, shown, expected))
    assert len(shown) == 2


def test_the_seed_fixes_everything_and_another_seed_changes_it() -> None:
    first, again, other = (
        train([Run(tiny(training__epochs=1), seed)], TEAM)[0] for seed in (1, 1, 2)
    )
    for name, value in first.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[name]), name
    assert first.history[0]["loss"] == again.history[0]["loss"] != other.history[0]["loss"]


# Surviving -----------------------------------------------------------------------------------


def hnets(*arguments: str, cwd: Path, **options: object) -> subprocess.Popen[str]:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-m", "hnets", *arguments],
        cwd=cwd,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize("model", ["hnet_mnist", "hnet_fourier_tiny", "z2cnn"])
def test_stopped_and_resumed_is_bit_identical(tmp_path: Path, model: str) -> None:
    """The same weights as without the kill, with dropout, running mean and random turns."""
    options = {"dropout": 0.3} if model == "z2cnn" else {}
    recipe = tiny(
        model__name=model,
        model__options=options,
        training__epochs=4,
        training__ema=0.99,
        augment__rotate=30.0,
        schedule__name="plateau",
        schedule__patience=1,
    )
    whole, parts = [Run(recipe, 1, tmp_path / name) for name in ("whole", "parts")]
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
    assert seen == [2, 3, 4]
    for name, value in expected.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    timeless = [{k: v for k, v in row.items() if "second" not in k} for row in expected.history]
    assert [
        {k: v for k, v in row.items() if "second" not in k} for row in resumed.history
    ] == timeless


def test_kill_9_of_a_real_process_costs_nothing_but_time(tmp_path: Path) -> None:
    recipe = tiny(training__epochs=12, data__limit=115)
    file = str(toml(recipe, tmp_path / "mine.toml"))
    killed = hnets("train", file, "--out", "run", cwd=tmp_path)
    log = tmp_path / "run" / "seed-1" / "log.csv"
    deadline = time.monotonic() + 120
    while not log.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert not (tmp_path / "run" / "result.json").exists(), "the kill came too late"
    again = hnets("train", file, "--out", "run", cwd=tmp_path)
    _, complaint = again.communicate(timeout=120)
    assert again.returncode == 2
    assert "run already holds a run of mine: add --resume" in complaint
    resumed = hnets("train", "--resume", "--out", "run", cwd=tmp_path)
    said, complaint = resumed.communicate(timeout=300)
    assert resumed.returncode == 0, complaint
    assert "wrote run/result.json" in said
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as in those processes: sums are rounded by the order of their terms
    expected = train([Run(recipe, 1)], TEAM)[0].model.state_dict()
    torch.set_num_threads(threads)
    found = load_file(tmp_path / "run" / "seed-1" / "model.safetensors")
    assert all(torch.equal(value, found[name]) for name, value in expected.items())


def limited() -> None:
    """Files of this process may not grow beyond a size, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))


def test_a_full_disk_is_one_line_and_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    recipe = tiny(training__epochs=2)
    file = str(toml(recipe, tmp_path / "mine.toml"))

    def stop(_: Run, row: dict[str, float]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train([Run(recipe, 1, tmp_path / "run" / "seed-1")], TEAM, watch=stop)
    path = tmp_path / "run" / "seed-1" / checkpoints.FILE
    good = path.read_bytes()
    full = hnets("train", file, "--resume", "--out", "run", cwd=tmp_path, preexec_fn=limited)
    _, complaint = full.communicate(timeout=120)
    assert full.returncode == 2, complaint
    assert complaint.count("\n") == 1
    assert re.search(
        r"epoch 2 could not be written to run/seed-1 \(.*\); the last good checkpoint is", complaint
    )
    assert path.read_bytes() == good
    assert not list(path.parent.glob(".*.part"))


def test_a_folder_that_is_a_file_is_refused_before_any_work(tmp_path: Path) -> None:
    recipe = toml(tiny(), tmp_path / "mine.toml")
    (tmp_path / "taken").write_text("")
    done = hnets("train", str(recipe), "--out", "taken", cwd=tmp_path)
    _, complaint = done.communicate(timeout=60)
    assert done.returncode == 2
    assert "expected a folder to write to, got 'taken'" in complaint


class Poisoned(nn.Module):
    """Its logits become infinite after some calls."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after, self.bias = after, nn.Parameter(torch.zeros(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.after -= self.training
        return x.mean((1, 2, 3))[:, None] + self.bias * (1.0 if self.after >= 0 else math.nan)


def test_a_loss_that_is_no_number_stops_the_run_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        __import__("hnets.models._registry", fromlist=["_MODELS"])._MODELS,
        "poisoned",
        lambda in_chans, num_classes: Poisoned(3),
    )
    run = Run(tiny(model__name="poisoned"), 1, tmp_path / "run")
    with pytest.raises(
        Diverged, match=r"became nan in epoch 2, step 2 of 2 .*lower optimiser.rate"
    ):
        train([run], TEAM)
    saved = checkpoints.load(tmp_path / "run")
    assert len(saved.history) == 1
    assert all(value.isfinite().all() for value in saved.state.values())


def test_a_run_that_diverges_does_not_stop_those_beside_it() -> None:
    good, bad = tiny(training__epochs=1), tiny(training__epochs=1, optimiser__rate=1e38)
    runs = [Run(bad, 1), Run(good, 2), Run(good, 3)]
    with pytest.raises(Diverged, match=r"\(seed 1\)") as caught:
        train(runs, TEAM)
    assert caught.value.runs == [runs[0]]
    assert [one.run for one in caught.value.results] == runs[1:]
    assert all(math.isfinite(one.history[-1]["loss"]) for one in caught.value.results)


# Bad input -----------------------------------------------------------------------------------


def refused(run: Run, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        train([run], TEAM, resume=True)
    assert "\n" not in str(caught.value)


def test_what_is_wrong_with_a_checkpoint_is_one_line(tmp_path: Path) -> None:
    run = Run(tiny(training__epochs=1), 1, tmp_path / "run")
    train([run], TEAM)
    assert run.folder is not None
    path = run.folder / checkpoints.FILE
    looked = tiny(training__epochs=1, evaluation__views=2)  # which changes nothing of the training
    assert len(train([Run(looked, 1, run.folder)], TEAM, resume=True)[0].history) == 1
    bent = tiny(training__epochs=1, augment__elastic=1.0)
    refused(Run(bent, 1, run.folder), "augment.elastic = 0.0, and the recipe says 1.0")
    other = tiny(model__name="p4cnn", training__epochs=1)
    refused(Run(other, 1, run.folder), "model.name = 'z2cnn', and the recipe says 'p4cnn'")
    refused(Run(tiny(training__epochs=5), 1, run.folder), "training.epochs = 1, .* says 5")
    refused(Run(run.recipe, 2, run.folder), "has seed 1, expected 2")
    saved = checkpoints.load(run.folder)
    # A file whose weights are another model's, whatever its recipe claims.
    wrong = {**saved.state, "model.layers.0.0.bias": torch.zeros(7)}
    checkpoints.save(checkpoints.Checkpoint(saved.recipe, 1, saved.history, 1.0, wrong), run.folder)
    refused(run, "do not fit the model z2cnn")
    good = path.read_bytes()
    path.write_bytes(good[: len(good) // 2])
    refused(run, r"is damaged \(.*\); delete it and start again")
    path.write_bytes(b"")
    refused(run, "is damaged")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"model.name": "hnet_mnits"},
            "no model is called 'hnet_mnits'; did you mean 'hnet_mnist'",
        ),
        ({"model.options": {"width": 3}}, r"\[model\] .*z2cnn has no option 'width'; there is"),
        ({"data.name": "rotmnist-x"}, "there is no data set or folder 'rotmnist-x'"),
        ({"data.train": "trian"}, "there is no split 'trian'"),
        ({"data.limit": 10**6}, "data.limit: expected at most the 1000 images"),
    ],
)
def test_what_a_recipe_asks_for_has_to_exist(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        train([Run(tiny().replace(changes), 1)], TEAM)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"training.batch": 1},
            "batches of 1 with images of 1×28×28: .* more",
        ),
        ({"data.size": 2, "data.name": "shapes"}, "with images of 1×2×2: .* too small"),
        ({"data.test": "tset"}, "there is no split 'tset'"),
        (
            {"model.options.num_classes": 5},
            "model.options.num_classes: expected 10, as the data say, got 5",
        ),
    ],
)
def test_what_the_first_step_would_say_is_said_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("round", "square"):
        folder = tmp_path / "shapes" / name
        folder.mkdir(parents=True)
        for number in range(10):
            Image.new("L", (16, 16), 20 * number).save(folder / f"{number}.png")
    recipe = tiny(model__name="hnet_fourier_tiny", data__limit=0).replace(changes)
    with pytest.raises(InputError, match=message):
        prepare([Run(recipe, 1)], TEAM)


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("tpu", "expected a device such as cpu or cuda, got 'tpu'"),
        ("meta", "cannot compute on 'meta'"),
        ("cuda:99", "cannot compute on 'cuda:99'"),
    ],
)
def test_a_device_that_cannot_compute_is_named(device: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught, joined(device):
        pass
    assert "\n" not in str(caught.value)


def test_an_environment_that_names_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "x")
    with (
        pytest.raises(InputError, match=r"WORLD_SIZE .*: expected a whole number, got 'x'"),
        joined(),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "device", "message"),
    [
        ("nowhere", "cpu", "there is no data set or folder 'nowhere'"),
        ("digits-r", "tpu", "expected a device such as cpu or cuda, got 'tpu'"),
    ],
)
def test_a_recipe_that_cannot_start_leaves_no_folder(
    tmp_path: Path, name: str, device: str, message: str
) -> None:
    recipe = toml(tiny(data__name=name), tmp_path / "mine.toml")
    done = hnets("train", str(recipe), "--device", device, cwd=tmp_path)
    _, complaint = done.communicate(timeout=60)
    assert done.returncode == 2
    assert message in complaint
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]


def test_a_folder_that_cannot_be_written_to_is_an_error_of_the_user(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises((Unwritable, OSError)):
        train([Run(tiny(training__epochs=1), 1, tmp_path / "file" / "run")], TEAM)


def test_one_process_joins_nobody() -> None:
    with joined("cpu") as team:
        assert team == TEAM
        assert team.share(5) == slice(0, 5)


# Several processes ---------------------------------------------------------------------------


def losses(folder: Path) -> list[float]:
    with (folder / "seed-1" / "log.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def test_two_processes_have_the_losses_of_one(tmp_path: Path) -> None:
    """The batch of 23 is cut into 11 and 12; batch norm sees all of it."""
    recipe = tiny(model__name="hnet_mnist", training__epochs=2, augment__rotate=20.0)
    file = toml(recipe, tmp_path / "mine.toml")
    one = train([Run(recipe, 1)], TEAM)[0].history
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "-m", "hnets", "train", str(file), "--out", "two"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert losses(tmp_path / "two") == pytest.approx([row["loss"] for row in one], rel=1e-4)
    assert done.stdout.count("wrote two/result.json") == 1, "one process speaks for all"
