"""Several processes: their shares, their devices, and the losses of one."""

import csv
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from hnets.errors import InputError
from hnets.train import Recipe, Run, Team, joined, train
from hnets.train.recipe import to_toml

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


def test_two_processes_have_the_losses_of_one(tmp_path: Path, tiny: Callable[..., Recipe]) -> None:
    """The batch of 23 is cut into 11 and 12; batch norm sees all of it."""
    recipe = tiny(model__name="hnet_mnist", data__size=12, training__epochs=2, augment__rotate=20.0)
    (tmp_path / "mine.toml").write_text(to_toml(recipe))
    history = train([Run(recipe, 1)], TEAM)[0].history
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = subprocess.run(
        [sys.executable, "-m", *launcher, "-m", "hnets", "train", "mine.toml", "--out", "two"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with (tmp_path / "two/seed-1/log.csv").open() as file:
        losses = [float(row["loss"]) for row in csv.DictReader(file)]
    assert losses == pytest.approx([row["loss"] for row in history], rel=1e-4)
    assert done.stdout.count("wrote two/result.json") == 1, "one process speaks for all"
