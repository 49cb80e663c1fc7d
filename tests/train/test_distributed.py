"""Several processes: their shares, their devices, and the losses of one."""

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from commands import Command
from hnets import create_model
from hnets.errors import InputError
from hnets.train import Recipe, Run, Team, joined, prepare, train
from hnets.train.distributed import synchronise
from hnets.train.recipe import to_toml
from processes import run_two

TEAM = Team(0, 1, torch.device("cpu"))


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


def test_one_process_joins_nobody() -> None:
    with joined("cpu") as team:
        assert team == TEAM
        assert team.share(5) == slice(0, 5)


KILLER = """
import multiprocessing, os, signal
from hnets.cli import main
from hnets.train import run

save = run.Run.save

def kill(self, learner):
    save(self, learner)
    for child in multiprocessing.active_children():
        os.kill(child.pid, signal.SIGKILL)

run.Run.save = kill
main()
"""


def test_a_killed_process_that_decodes_is_one_line(
    tmp_path: Path,
    tiny: Callable[..., Recipe],
    monkeypatch: pytest.MonkeyPatch,
    hnets_command: Command,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    recipe = tiny(data__stream=True, training__epochs=5)
    Path("mine.toml").write_text(to_toml(recipe))
    Path("killer.py").write_text(KILLER)
    done = subprocess.run(
        [sys.executable, "killer.py", "train", "mine.toml", "--out", "run", "--device", "cpu"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "a process that decodes images ended (" in done.stderr
    assert "set data.workers to fewer, then go on with --resume" in done.stderr
    assert Path("run/seed-1/checkpoint.safetensors").is_file()
    assert hnets_command("train", "--resume", "--out", "run", "--device", "cpu").code == 0
    with Path("run/seed-1/log.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == [str(n) for n in range(1, 6)]


def first_step(recipe: Recipe, team: Team) -> dict[str, torch.Tensor]:
    """The gradients of the first step and what the validation set says, in a team."""
    torch.set_num_threads(1)
    run = Run(recipe, 1)
    prepare([run], team)
    learner = run.learner
    assert learner is not None
    learner.begin_epoch(0, [1.0] * learner.steps)
    learner.step()
    gradients = {n: p.grad for n, p in learner.model.named_parameters() if p.grad is not None}
    learner.recompute_statistics()
    errors = run.tasks["val"].evaluate(learner.evaluated)
    run.close()
    buffers = {f"buffer {name}": value for name, value in learner.model.named_buffers()}
    return {**gradients, **buffers, "val": torch.tensor([errors.error, errors.loss])}


def member(rank: int, port: int, recipes: list[Recipe], folder: Path) -> None:
    """One of two processes."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with joined("cpu") as team:
        torch.save([first_step(recipe, team) for recipe in recipes], folder / f"{rank}.pt")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_processes_have_the_gradients_of_one_streamed_or_not(
    tmp_path: Path, tiny: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch of 23 is cut into 11 and 12; batch norm sees all of it."""
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    options = {"model__name": "hnet_mnist", "data__size": 12, "augment__rotate": 20.0}
    recipes = [tiny(**options, data__stream=stream) for stream in (False, True)]
    run_two(member, recipes, tmp_path)
    alone = [first_step(recipe, TEAM) for recipe in recipes]
    for name, value in alone[0].items():
        assert torch.equal(value, alone[1][name]), "streamed or not, the bits are the same"
    for rank in range(2):
        for one, together in zip(alone, torch.load(tmp_path / f"{rank}.pt"), strict=True):
            torch.testing.assert_close(together, one, rtol=1e-4, atol=1e-6)


NORMED: dict[str, dict[str, Any]] = {
    "hresnet10": {},
    "resnet18": {"widths": [4, 4, 4, 4]},
    "hunet": {"width": 1},
}
"""Networks with batch norms of torch, of one and two dimensions, with and without weights."""


def synchronised_gradients(name: str, team: Team) -> dict[str, torch.Tensor]:
    """Gradients and statistics of a network that sees its share of seven images."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = create_model(name, in_chans=1, **NORMED[name]).double()
    images = torch.rand(7, 1, 32, 32, dtype=torch.float64)
    model = synchronise(model, team).train()
    output = model(images[team.share(7)])
    output.square().sum().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    team.add(gradients.values())
    model.eval()
    state = {f"state {key}": value for key, value in model.state_dict().items()}
    return {**gradients, **state, "eval": model(images[:1]).detach()}


def synchronised_member(rank: int, port: int, folder: Path) -> None:
    """One of two processes."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    with joined("cpu") as team:
        torch.save([synchronised_gradients(name, team) for name in NORMED], folder / f"{rank}.pt")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_batch_norms_of_torch_see_the_batches_of_all_processes_on_cpu_too(tmp_path: Path) -> None:
    run_two(synchronised_member, tmp_path)
    alone = [synchronised_gradients(name, TEAM) for name in NORMED]
    for rank in range(2):
        for one, together in zip(alone, torch.load(tmp_path / f"{rank}.pt"), strict=True):
            torch.testing.assert_close(together, one, rtol=1e-6, atol=1e-9)


MORTAL = """
import os, signal
from hnets.cli import main
from hnets.train import run

save = run.Run.save

def mortal(self, learner):
    save(self, learner)
    first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if first and os.environ["RANK"] == "1" and len(self.history) == 2:
        os.kill(os.getpid(), signal.SIGKILL)

run.Run.save = mortal
main()
"""


def test_a_job_goes_on_after_one_of_its_processes_is_killed(
    tmp_path: Path, tiny: Callable[..., Recipe], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    recipe = tiny(model__name="hnet_mnist", data__size=12, data__stream=True, augment__rotate=20.0)
    (tmp_path / "mine.toml").write_text(to_toml(recipe))
    (tmp_path / "mortal.py").write_text(MORTAL)
    history = train([Run(recipe.replace({"data.stream": False}), 1)], TEAM)[0].history
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=1"]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "mortal.py", "train", "mine.toml", "--out", "two"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "exitcode: -9" in done.stderr, "no process was killed"
    assert "frame #" not in done.stderr
    assert "Traceback" not in done.stderr
    with (tmp_path / "two/seed-1/log.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses == pytest.approx([row["loss"] for row in history], rel=1e-4)
    assert done.stdout.count("wrote two/result.json") == 1, "one process speaks for all"
