"""Checkpoints: damaged, tampered with or foreign ones are one line, and so is a full disk."""

import dataclasses
import re
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from commands import Command
from hnets.errors import InputError
from hnets.train import Recipe, Run, Team, train
from hnets.train import checkpoint as checkpoints
from hnets.train.recipe import to_toml

TEAM = Team(0, 1, torch.device("cpu"))
Recipes = Callable[..., Recipe]


@pytest.fixture
def run(tmp_path: Path, tiny: Recipes) -> Run:
    """A run of one epoch that has ended."""
    run = Run(tiny(training__epochs=1), 1, tmp_path / "run")
    train([run], TEAM)
    return run


def refused(run: Run, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        train([run], TEAM, resume=True)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_training_is_one_line(run: Run, tiny: Recipes) -> None:
    looked = tiny(training__epochs=1, evaluation__views=2)  # which changes nothing of the training
    assert len(train([Run(looked, 1, run.folder)], TEAM, resume=True)[0].history) == 1
    elastic = tiny(training__epochs=1, augment__elastic=1.0)
    refused(Run(elastic, 1, run.folder), "augment.elastic = 0.0, and the recipe says 1.0")
    other = tiny(model__name="p4cnn", training__epochs=1)
    refused(Run(other, 1, run.folder), "model.name = 'z2cnn', and the recipe says 'p4cnn'")
    refused(Run(tiny(training__epochs=5), 1, run.folder), "training.epochs = 1, .* says 5")
    refused(Run(run.recipe, 2, run.folder), "has seed 1, expected 2")
    assert run.folder is not None
    saved = checkpoints.load(run.folder)
    wrong = {**saved.state, "model.layers.0.0.bias": torch.zeros(7)}
    checkpoints.save(dataclasses.replace(saved, state=wrong), run.folder)
    refused(run, "do not fit the model z2cnn")


def test_one_flipped_bit_anywhere_is_noticed(run: Run) -> None:
    assert run.folder is not None
    path = run.folder / checkpoints.FILE
    good = path.read_bytes()
    size = len(good)
    for place in (0, 9, 200, 1000, size // 3, size // 2, size - 1):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        refused(run, rf"{re.escape(str(path))} is damaged \(.*\); delete it and start again")
    for part in (b"", good[: size // 2], b"{" * 100):
        path.write_bytes(part)
        refused(run, r"is damaged \(.*\); delete it and start again")
    path.write_bytes(good)
    assert len(train([run], TEAM, resume=True)[0].history) == 1


ROW = {"epoch": 1, "rate": 0.1, "loss": 1.0, "images_per_second": 1.0, "seconds": 1.0}
FULL = {**ROW, "val_error": 1.0, "val_loss": 1.0}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"history": {}}, "expected a history of at most 1 epochs"),
        ({"history": "none"}, "expected a history of at most 1 epochs"),
        ({"history": [FULL, {**FULL, "epoch": 2}]}, "expected a history of at most 1 epochs"),
        ({"history": [ROW]}, "expected the numbers of epoch 1 in its history"),
        ({"history": [{**FULL, "epoch": 7}]}, "expected the numbers of epoch 1 in its history"),
        ({"history": [{**FULL, "loss": "low"}]}, "expected the numbers of epoch 1"),
        ({"history": [3]}, "expected the numbers of epoch 1 in its history, got 3"),
        ({"seed": -1}, "expected a seed below 2.32, got -1"),
        ({"seed": 1.5}, "expected a seed below 2.32, got 1.5"),
        ({"seconds": -5.0}, "expected seconds from 0 up, got -5.0"),
        ({"seconds": float("inf")}, "expected seconds from 0 up, got inf"),
        ({"seconds": float("nan")}, "expected seconds from 0 up, got nan"),
        ({"seconds": "1"}, "expected seconds from 0 up, got '1'"),
    ],
)
def test_facts_that_cannot_be_are_refused_though_sealed(
    run: Run, facts: dict[str, object], message: str
) -> None:
    assert run.folder is not None
    saved = checkpoints.load(run.folder)
    checkpoints.save(dataclasses.replace(saved, **facts), run.folder)
    refused(run, message)


# A full disk ---------------------------------------------------------------------------------


@pytest.fixture
def full_disk() -> Iterator[Callable[[int], None]]:
    """Lets no file of this process grow beyond a size, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("file", ["checkpoint.safetensors", "model.safetensors"])
def test_a_full_disk_is_one_line_and_leaves_the_last_good_checkpoint(
    tmp_path: Path,
    tiny: Recipes,
    hnets_command: Command,
    full_disk: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    file: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = tiny(training__epochs=2)
    Path("mine.toml").write_text(to_toml(recipe))
    ended = file == "model.safetensors"  # then only the weights are left to write

    def stop(_: Run, row: dict[str, float]) -> None:
        if row["epoch"] == 1 and not ended:
            raise KeyboardInterrupt

    try:
        train([Run(recipe, 1, Path("run/seed-1"))], TEAM, watch=stop)
    except KeyboardInterrupt:
        assert not ended
    good = Path("run/seed-1/checkpoint.safetensors").read_bytes()
    full_disk(40_000)
    done = hnets_command("train", "mine.toml", "--resume", "--out", "run", "--device", "cpu")
    assert done.code == 1, done.err
    assert done.err.count("\n") == 1
    message = rf"run/seed-1/{file} could not be written \(.*\); the last good checkpoint is"
    assert re.search(message, done.err), done.err
    assert Path("run/seed-1/checkpoint.safetensors").read_bytes() == good
    assert not list(Path("run").rglob("*.part"))


def test_a_disk_too_full_for_the_log_is_one_line(
    tmp_path: Path,
    tiny: Recipes,
    full_disk: Callable[[int], None],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Events of TensorBoard are written by no thread that could print a traceback."""
    pytest.importorskip("tensorboard")

    def fill(run: Run, row: dict[str, float]) -> None:
        (events,) = (tmp_path / "run" / "events").iterdir()
        full_disk(events.stat().st_size + 10)

    recipe = tiny(training__save_every=1000.0)
    with pytest.raises(InputError, match=r"/run could not be written \(File too large\)"):
        train([Run(recipe, 1, tmp_path / "run")], TEAM, watch=fill)
    assert capfd.readouterr().err == ""
