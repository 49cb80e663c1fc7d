"""Pixels to train on: the loss, what is learned, and thresholds that no test set chooses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from commands import Command
from fundus import put_chase_db1, put_drive
from hnets.data import retina
from hnets.data.dataset import OUTSIDE
from hnets.errors import InputError
from hnets.metrics.segmentation import segmentation_scores
from hnets.models import create_model
from hnets.train import Recipe, Run, Team, prepare, read_recipe
from hnets.train.augment import draw
from hnets.train.recipe import Augment, to_toml
from hnets.train.step import Learner
from hnets.train.task import Segmentation, segmentation_loss

CPU = Team(0, 1, torch.device("cpu"))


@pytest.fixture
def eyes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """DRIVE and CHASE_DB1, both of fewer pixels."""
    monkeypatch.setitem(retina.SIZES, "drive", (40, 37))
    monkeypatch.setitem(retina.SIZES, "chase_db1", (36, 38))
    monkeypatch.setitem(retina.COUNTS, "chase_db1", 2)
    put_drive(tmp_path, vessel=slice(15, 19))
    put_chase_db1(tmp_path, vessel=slice(400, 500))
    monkeypatch.setenv("HNETS_DATA", str(tmp_path))
    return tmp_path


def _recipe(**changes: object) -> Recipe:
    recipe = Recipe.from_dict(
        {
            "title": "eyes",
            "model": {"name": "unet", "options": {"width": 2}},
            "data": {"name": "drive", "test": "test", "transfer": "chase_db1"},
            "augment": {"rotate": 180.0, "flip": True},
            "optimiser": {"rate": 0.02},
            "training": {"batch": 4, "epochs": 2, "dice": 0.5},
        }
    )
    return recipe.replace({key.replace("__", "."): value for key, value in changes.items()})


def test_the_loss_is_cross_entropy_and_dice_inside_the_field_of_view() -> None:
    logits = torch.randn(2, 1, 9, 11)
    labels = torch.randint(2, (2, 9, 11))
    labels[:, :, 6:] = OUTSIDE
    planes = torch.stack([labels == 1, labels != OUTSIDE], 1).float()
    seen, truth = logits[:, 0, :, :6], labels[:, :, :6].float()
    entropy = F.binary_cross_entropy_with_logits(seen, truth, reduction="none").mean((1, 2))
    torch.testing.assert_close(segmentation_loss(logits, planes), entropy)
    p = seen.sigmoid()
    dice = 1 - 2 * (p * truth).sum((1, 2)) / (p.sum((1, 2)) + truth.sum((1, 2)))
    torch.testing.assert_close(segmentation_loss(logits, planes, 0.5), entropy + 0.5 * dice)


class _Dark(nn.Module):
    """Dark pixels are those looked for."""

    def forward(self, x: Tensor) -> Tensor:
        return 40 * (0.5 - x)


def test_labels_move_with_the_images() -> None:
    labels = torch.zeros(8, 48, 41, dtype=torch.uint8)
    labels[:, 10:22, 6:30] = 1
    images = 255 * (1 - labels[:, None])
    labels[:, 40:] = OUTSIDE
    task = Segmentation(images, labels)
    rows = torch.arange(8)
    generator = torch.Generator().manual_seed(0)
    changes = draw(Augment(rotate=180, flip=True, zoom=0.2), 8, (48, 41), generator)
    assert changes is not None
    still = task.loss(_Dark(), images, rows, None)
    moved = task.loss(_Dark(), images, rows, changes)
    assert still < 1e-6
    assert moved / 8 < 0.12  # pixels on edges, which are grey now
    shuffled = task.loss(_Dark(), images, rows, changes.roll(1, 0)[rows])
    assert shuffled / 8 < 0.12
    wrong = Segmentation(images, labels.flip(1)).loss(_Dark(), images, rows, changes)
    assert wrong / 8 > 2


@pytest.mark.parametrize(("model", "width"), [("hunet", 2), ("unet", 3)])
def test_vessels_are_learned(eyes: Path, model: str, width: int) -> None:
    recipe = _recipe(model__name=model, model__options={"width": width})
    run = Run(recipe, 1)
    prepare([run], CPU)
    assert run.learner is not None
    task = run.tasks["train"]
    assert task.options == {"in_chans": 3, "num_classes": 1}
    losses = []
    for epoch in range(8):
        run.learner.begin_epoch(epoch, [1.0] * run.learner.steps)
        for _ in range(run.learner.steps):
            run.learner.step()
        losses.append(sum(run.learner.end_epoch()) / run.learner.steps)
    run.learner.recompute_statistics()
    assert losses[-1] < 0.5 * losses[0]
    assert task.evaluate(run.learner.evaluated).error < 10


def test_scores_are_those_of_pixels_inside_and_the_threshold_is_fixed(eyes: Path) -> None:
    run = Run(_recipe(), 1)
    prepare([run], CPU)
    assert isinstance(run.learner, Learner)
    task, net = run.tasks["val"], run.learner.evaluated
    assert isinstance(task, Segmentation)
    errors = task.evaluate(net)
    with torch.no_grad():
        outputs = net.eval()(task.images / 255)[:, 0].double().sigmoid()
    inside = task.labels != OUTSIDE
    scores = segmentation_scores(outputs[inside], task.labels[inside])
    assert (errors.auc, errors.f1, errors.error) == (scores.auc, scores.f1, 100 * (1 - scores.f1))


def test_the_test_sets_take_the_threshold_of_validation(
    eyes: Path, tmp_path: Path, hnets_command: Command
) -> None:
    path, out = tmp_path / "eyes.toml", tmp_path / "out"
    path.write_text(to_toml(_recipe()))
    done = hnets_command("train", str(path), "--out", str(out), "--device", "cpu")
    assert done.code == 0, done.err
    result = json.loads((out / "result.json").read_text())
    assert {name: data["images"] for name, data in result["data"].items()} == {
        **{"train": 16, "val": 4, "test": 20},
        "chase_db1": 2,
    }
    errors = result["seeds"][0]["errors"]
    assert len({scores["threshold"] for scores in errors.values()}) == 1
    assert 0 < errors["val"]["threshold"] < 1
    assert result["auc"]["chase_db1"]["mean"] == errors["chase_db1"]["auc"]
    assert f", F1 {result['f1']['chase_db1']['mean']:.4f}" in done.out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evaluation.views": 4}, "evaluation.views: pixels are not averaged; leave it out"),
        ({"augment.keep_centre": True}, "augment.keep_centre: .*; leave it out"),
        (
            {"training.label_smoothing": 0.1},
            "label_smoothing: it is for classes of images, which drive does not have; leave it out",
        ),
        (
            {"model.name": "z2cnn", "model.options": {}},
            "expected a network with an output per pixel.*got z2cnn",
        ),
        ({"data.transfer": "digits"}, "data.transfer: expected a set with the channels.*'digits'"),
        ({"data.transfer": "chase"}, "there is no data set or folder 'chase'"),
        ({"training.dice": -1}, "training.dice: expected a number from 0 up"),
    ],
)
def test_what_does_not_fit_pixels(eyes: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        prepare([Run(_recipe().replace(changes), 1)], CPU)


@pytest.mark.parametrize("name", ["drive-hunet", "drive-unet", "drive-unet-wide"])
def test_shipped_recipes_build_their_networks(name: str) -> None:
    recipe = read_recipe(name)
    net = create_model(recipe.model.name, in_chans=1, num_classes=1, **recipe.model.options)
    assert recipe.data.transfer == "chase_db1"
    assert net(torch.rand(1, 1, 16, 16)).shape == (1, 1, 16, 16)
