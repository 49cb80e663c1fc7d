"""A captured step is the step, and the learning rate that it reads is the schedule's."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from hnets.models import create_model
from hnets.train import (
    Recipe,
    Run,
    Team,
    train,
)
from hnets.train.step import Learner
from hnets.train.task import Classification

pytestmark = pytest.mark.gpu


def learner(seed: int = 1, **training: object) -> Learner:
    recipe = Recipe.from_dict(
        {
            "title": "captured",
            "model": {"name": "hnet_mnist"},
            "data": {"name": "digits-r"},
            "augment": {"rotate": 20},
            "optimiser": {"rate": 0.02, "weight_decay": 0.1},
            "training": {"batch": 32, "ema": 0.9, "precision": "float32", **training},
        }
    )
    torch.manual_seed(seed)
    device = torch.device("cuda")
    images, labels = torch.rand(96, 1, 28, 28).to(device), (torch.arange(96) % 10).to(device)
    task = Classification(images, labels, augment=recipe.augment)
    return Learner(create_model("hnet_mnist"), task, recipe, seed, Team(0, 1, device))


def state(one: Learner) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in one.state().items()}


def test_capturing_leaves_everything_as_it_was() -> None:
    one = learner()
    before = state(one)
    one.capture()
    for name, value in state(one).items():
        assert torch.equal(value, before[name]), name


def test_captured_steps_are_the_steps() -> None:
    torch.backends.cudnn.allow_tf32 = False
    eager, captured = learner(), learner()
    captured.capture()
    for epoch in range(2):
        for one in (eager, captured):
            one.begin_epoch(epoch, [1.0, 0.5, 0.25])
            for _ in range(one.steps):
                one.step()
        expected, actual = eager.end_epoch(), captured.end_epoch()
        assert actual == pytest.approx(expected, rel=1e-2)


def test_streamed_images_are_those_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    random = np.random.default_rng(0)
    for number in range(100):
        folder = tmp_path / "images" / str(number % 2)
        folder.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(256, size=(28, 28), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    changes = {"data.name": str(tmp_path / "images"), "training.epochs": 3}
    recipe, team = learner().recipe.replace(changes), Team(0, 1, torch.device("cuda"))
    losses = [
        [
            row["loss"]
            for row in train([Run(recipe.replace({"data.stream": s}), 1)], team)[0].history
        ]
        for s in (False, True)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)


def test_a_captured_step_reads_the_rate_from_the_device() -> None:
    one = learner()
    one.capture()
    one.begin_epoch(0, [0.0, 0.0, 1.0])
    before = one.model.get_parameter("layers.0.0.filters.radial.0").detach().clone()
    one.step()
    one.step()
    one.end_epoch()
    assert torch.equal(one.model.get_parameter("layers.0.0.filters.radial.0").detach(), before)
    one.step()
    one.end_epoch()
    assert not torch.equal(one.model.get_parameter("layers.0.0.filters.radial.0").detach(), before)


def test_seeds_side_by_side_are_the_seeds_alone() -> None:
    recipe = Recipe.from_dict(
        {
            "title": "side by side",
            "model": {"name": "z2cnn"},
            "data": {"name": "digits-r", "limit": 96},
            "optimiser": {"rate": 0.002},
            "training": {"batch": 32, "epochs": 2, "deterministic": False},
        }
    )
    team = Team(0, 1, torch.device("cuda"))
    together = train([Run(recipe, 1), Run(recipe, 2)], team)
    alone = [train([Run(recipe, seed)], team)[0] for seed in (1, 2)]
    for one, other in zip(together, alone, strict=True):
        losses = [row["loss"] for row in one.history]
        assert losses == pytest.approx([row["loss"] for row in other.history], rel=1e-2)
    assert together[0].history[0]["loss"] != together[1].history[0]["loss"]
