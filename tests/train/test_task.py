"""Edges to train on: the data, what is taught at a pixel, the loss, and that it is learned."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from scipy.io import savemat

from hnets.data import EdgeSet, bsds
from hnets.data.bsds import load_edges
from hnets.errors import InputError
from hnets.models import create_model
from hnets.train import Recipe, Team
from hnets.train.augment import draw, move
from hnets.train.edge_objective import ON, UNSURE, edge_labels, edge_loss, tolerant_error
from hnets.train.recipe import Augment
from hnets.train.recipe import Edges as Rules
from hnets.train.run import Run, load, prepare
from hnets.train.step import Learner
from hnets.train.task import EdgeDetection

CPU = Team(0, 1, torch.device("cpu"))
COLUMNS = (100, 101, 104)
"""Where three people draw a line: the second is near both others, which are not near each other."""


def put(root: Path, split: str, name: str, upright: bool = False) -> None:
    """A photograph of BSDS500's size, dark and light, and a line for each of three people."""
    height, width = (481, 321) if upright else (321, 481)
    image = np.zeros((height, width, 3), np.uint8)
    image[:, COLUMNS[0] :] = 200
    truth = np.empty((1, len(COLUMNS)), object)
    for k, column in enumerate(COLUMNS):
        drawn = np.zeros((height, width), np.uint8)
        drawn[:, column] = 1
        truth[0, k] = {"Segmentation": drawn.astype(np.uint16) + 1, "Boundaries": drawn}
    folders = [root / "BSDS500/data" / kind / split for kind in ("images", "groundTruth")]
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image).save(folders[0] / f"{name}.jpg", quality=95)
    savemat(folders[1] / f"{name}.mat", {"groundTruth": truth})


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for split in ("train", "val"):
        monkeypatch.setitem(bsds.SIZES, split, 2)
        put(tmp_path, split, "1")
        put(tmp_path, split, "2", upright=True)
    monkeypatch.setenv("HNETS_DATA", str(tmp_path))
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_photographs_lie_and_votes_are_counted_there_and_near(small: Path) -> None:
    data = load_edges("train+val")
    assert repr(data) == "EdgeSet('bsds500', 'train+val': 4 photographs of 321×481)"
    assert data.transposed.tolist() == [False, True, False, True]
    assert data.people.tolist() == [3, 3, 3, 3]
    assert data.images.dtype == data.votes.dtype == data.near.dtype == torch.uint8
    lying, upright = data.votes[:2]
    assert lying[0, 98:107].tolist() == [0, 0, 1, 1, 0, 0, 1, 0, 0]
    assert upright[98:107, 0].tolist() == lying[0, 98:107].tolist()
    assert data.near[0, 0, 97:108].tolist() == [0, 1, 2, 2, 2, 3, 2, 1, 1, 1, 0]
    assert data.images[0, :, 0, 50].max() < 10
    assert data.images[0, :, 0, 400].min() > 190
    assert len(data.subset(3)) == 3


def test_what_was_read_once_comes_from_the_cache_until_a_file_changes(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load_edges("train")
    with monkeypatch.context() as patch:
        patch.setattr(bsds.Photo, "boundaries", lambda self: pytest.fail("read again"))
        assert load_edges("train").digest == first.digest
    put(small, "train", "2")  # lying now
    assert load_edges("train").digest != first.digest


def test_a_photograph_of_another_size_is_refused(small: Path) -> None:
    Image.new("RGB", (480, 321)).save(small / "BSDS500/data/images/train/1.jpg")
    with pytest.raises(InputError, match=r"does not hold the boundaries of 1\.jpg"):
        load_edges("train")


def _set(votes: list[int], near: list[int], people: int) -> EdgeSet:
    row = torch.tensor([[votes], [near]], dtype=torch.uint8)
    none = torch.zeros(1, dtype=torch.bool)
    count = torch.tensor([people], dtype=torch.uint8)
    images = torch.zeros(1, 3, 1, len(votes), dtype=torch.uint8)
    return EdgeSet(images, row[:1], row[1:], count, none, "bsds500", "train")


def test_what_is_taught_by_each_rule() -> None:
    data = _set(votes=[0, 1, 2, 3, 5, 0], near=[4, 1, 3, 3, 5, 0], people=5)

    def taught(**rules: object) -> list[int]:
        return edge_labels(data, Rules(**rules)).flatten().tolist()

    assert taught(labels="people", people=3) == [0, 0, 0, ON, ON, 0]
    assert taught(labels="share", share=0.4) == [0, UNSURE, ON, ON, ON, 0]
    assert taught(labels="share", share=0.6) == [0, UNSURE, UNSURE, ON, ON, 0]
    assert taught(labels="near", share=0.6) == [0, UNSURE, ON, ON, ON, 0]


def test_with_agreement_a_second_plane_has_the_percentage_of_people() -> None:
    data = _set(votes=[0, 1, 2, 5], near=[0, 1, 2, 5], people=5)
    labels = edge_labels(data, Rules(labels="share", share=0.4, agreement=1.0))
    assert labels[0, :, 0].tolist() == [[0, UNSURE, ON, ON], [0, 20, 40, 100]]


def test_agreement_weighs_edges_by_the_people_who_drew_them() -> None:
    logits, labels = _example()
    equal = torch.cat([labels, torch.full_like(labels, 60)], 1)
    rules, weighed = Rules(sparsity=0.0), Rules(sparsity=0.0, agreement=2.0)
    torch.testing.assert_close(edge_loss(logits, equal, weighed), edge_loss(logits, labels, rules))
    # Where half of the edge was drawn by twice as many, its pixels count four times the others.
    unequal = equal.clone()
    unequal[:, 1, :, 5:] = 30
    logits.requires_grad_()
    (grad,) = torch.autograd.grad(edge_loss(logits, unequal, weighed).sum(), logits)
    (plain,) = torch.autograd.grad(edge_loss(logits, labels, rules).sum(), logits)
    ratio = (grad / plain)[:, :, 3]  # the row of the edge
    torch.testing.assert_close(ratio[..., 0] / ratio[..., 8], torch.full_like(ratio[..., 0], 4.0))
    torch.testing.assert_close(grad[:, :, 0], plain[:, :, 0])  # nothing changes off the edge


def _example() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    logits = torch.randn(2, 6, 7, 9, dtype=torch.float64)
    labels = torch.zeros(2, 1, 7, 9, dtype=torch.float64)
    labels[:, :, 3], labels[:, :, :, 4] = ON, UNSURE
    return logits, labels


def test_the_loss_without_weights_is_the_cross_entropy_of_the_pixels_that_count() -> None:
    logits, labels = _example()
    sure = labels != UNSURE
    rules = Rules(balance=0.0, sparsity=0.0, sides=1.0)
    truth = (labels == ON).double().expand_as(logits)
    entropy = F.binary_cross_entropy_with_logits(logits, truth, reduction="none")
    expected = (entropy * sure).sum((1, 2, 3)) / 63
    torch.testing.assert_close(edge_loss(logits, labels, rules), expected)


def test_balanced_classes_weigh_the_same_in_all() -> None:
    _, labels = _example()
    rules = Rules(balance=1.0, sparsity=0.0, sides=0.0)
    sure = torch.where(labels == ON, 30.0, -30.0).double()
    losses = []
    for kind in (0, ON):
        logits = torch.where(labels == kind, -sure, sure)  # wrong on one class only
        losses.append(edge_loss(logits.expand(-1, 6, -1, -1), labels, rules))
    assert (labels == 0).sum() != (labels == ON).sum()
    torch.testing.assert_close(losses[0], losses[1])


def test_the_sparsity_term_is_lowest_where_the_mean_is_that_of_the_labels() -> None:
    labels = torch.zeros(1, 1, 10, 10, dtype=torch.float64)
    labels[:, :, 0] = ON  # a tenth
    plain, held = (Rules(sparsity=weight, sides=0.0) for weight in (0.0, 1.0))

    def term(mean: float) -> float:
        logits = torch.full((1, 6, 10, 10), math.log(mean / (1 - mean)), dtype=torch.float64)
        return float(edge_loss(logits, labels, held) - edge_loss(logits, labels, plain))

    expected = -0.1 * math.log(0.1) - 0.9 * math.log(0.9)
    assert term(0.1) == pytest.approx(expected)
    assert min(term(0.05), term(0.2)) > term(0.1)


def test_sides_weigh_what_the_recipe_says() -> None:
    logits, labels = _example()
    none, half, full = (edge_loss(logits, labels, Rules(sides=w)) for w in (0.0, 0.5, 1.0))
    torch.testing.assert_close(half, (none + full) / 2)
    fused = edge_loss(logits[:, -1:].expand(-1, 6, -1, -1), labels, Rules(sides=0.0))
    torch.testing.assert_close(none, fused)


def test_flipped_photographs_have_flipped_labels_bit_for_bit() -> None:
    labels = torch.randint(2, (8, 1, 33, 49)).float() * ON
    changes = draw(Augment(flip=True), 8, (33, 49), torch.Generator().manual_seed(1))
    assert changes is not None
    moved = move(labels, changes, "bilinear", "reflection")
    kinds = set()
    for before, after in zip(labels, moved, strict=True):
        flips = [dims for dims in ((), (1,), (2,), (1, 2)) if _same(before.flip(dims), after)]
        assert len(flips) == 1
        kinds.add(flips[0])
    assert len(kinds) == 4


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool((a - b).abs().max() < 1e-3)


def test_the_exponent_and_the_colours_change_as_drawn() -> None:
    recipe = Augment(gamma=0.5, colour=0.2)
    changes = draw(recipe, 500, (4, 4), torch.Generator().manual_seed(1))
    assert changes is not None
    gamma, gains = changes[:, 6], changes[:, 7:]
    assert (gamma.min(), gamma.max()) == (0.5, 1.5)
    assert 1 / 1.2 <= gains.min() < 0.85
    assert 1.18 < gains.max() <= 1.2 + 1e-6
    from hnets.train.augment import augment

    image = torch.full((1, 3, 4, 4), 0.25)
    shown = augment(image, changes[:1])
    expected = (0.25 ** gamma[0] * gains[0])[None, :, None, None].expand_as(image)
    torch.testing.assert_close(shown[..., 1:3, 1:3], expected[..., 1:3, 1:3], atol=1e-5, rtol=0)


def test_the_quick_error_is_that_of_the_best_threshold() -> None:
    truth = torch.zeros(1, 1, 40, 40)
    truth[..., 10], truth[..., 30] = 1, 1
    answers = 0.9 * truth
    assert tolerant_error(answers, truth) == 0
    answers[..., 20] = 0.5  # wrong, and left out by a higher threshold
    assert tolerant_error(answers, truth) == 0
    answers[..., 20] = 0.95  # half as much again is wrong, whatever the threshold
    assert tolerant_error(answers, truth) == pytest.approx(100 * (1 - 0.8))
    assert tolerant_error(torch.zeros_like(truth), truth) == 100


def _recipe(model: str = "hdsn", **edges: object) -> Recipe:
    return Recipe.from_dict(
        {
            "title": "edges",
            "model": {"name": model},
            "data": {"name": "bsds500"},
            "augment": {"flip": True, "gamma": 0.5},
            "edges": edges,
            "optimiser": {"rate": 0.01},
            "training": {"batch": 2},
        }
    )


@pytest.mark.parametrize("model", ["hdsn", "hed_low"])
def test_squares_are_learned(model: str) -> None:
    torch.manual_seed(0)
    images = torch.randint(60, 120, (16, 3, 33, 49), dtype=torch.uint8)
    labels = torch.zeros(16, 33, 49, dtype=torch.uint8)
    for n in range(16):
        top, left = 4 + n % 8, 6 + n
        images[n, :, top : top + 12, left : left + 14] += 100
        labels[n, top : top + 12, left : left + 14] = ON
        labels[n, top + 1 : top + 11, left + 1 : left + 13] = 0
    recipe = _recipe(model).replace({"training.batch": 4})
    task = EdgeDetection(images, labels[:, None], recipe.edges, recipe.augment)
    one = Learner(create_model(model), task, recipe, 1, CPU)
    losses = []
    for epoch in range(12):
        one.begin_epoch(epoch, [1.0] * one.steps)
        for _ in range(one.steps):
            one.step()
        losses.append(sum(one.end_epoch()) / one.steps)
    assert losses[-1] < 0.6 * losses[0]
    assert task.evaluate(one.evaluated).error < 15


def test_a_recipe_says_what_it_learns_from(small: Path) -> None:
    recipe = _recipe(labels="near", share=0.5)
    run = Run(recipe, 1)
    prepare([run], CPU)
    task = run.tasks["train"]
    assert isinstance(task, EdgeDetection)
    taught = task.labels[0, 0, 0, 98:107].tolist()
    assert taught == [0, 0, ON, ON, 0, 0, UNSURE, 0, 0]


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        ("z2cnn", "bsds500", r"\[model\] expected a network that detects edges.*got a Z2CNN"),
        ("hdsn", "digits", r"\[model\] for digits: hdsn has no option 'in_chans'"),
    ],
)
def test_networks_and_data_that_do_not_fit(
    small: Path, model: str, data: str, message: str
) -> None:
    recipe = _recipe(model).replace({"data.name": data})
    with pytest.raises(InputError, match=message):
        prepare([Run(recipe, 1)], CPU)


def test_sizes_of_photographs_are_theirs(small: Path) -> None:
    with pytest.raises(InputError, match=r"images of bsds500 have one size, got size=64"):
        load(_recipe().replace({"data.size": 64}).data, "train")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("evaluation.views", 4), ("augment.keep_centre", True),
        ("training.label_smoothing", 0.1), ("training.dice", 1.0),
    ],
)  # fmt: skip
def test_what_is_for_other_data_is_refused(small: Path, key: str, value: object) -> None:
    alone = {"augment.gamma": 0.0, "augment.colour": 0.0}  # which keep_centre is refused beside
    recipe = _recipe().replace({**alone, key: value})
    with pytest.raises(InputError, match=rf"{key}: .*; leave it out"):
        prepare([Run(recipe, 1)], CPU)


def test_the_dice_loss_is_for_pixels_and_not_for_classes(tmp_path: Path) -> None:
    for number in range(8):
        place = tmp_path / "images" / "ab"[number % 2] / f"{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (28, 28), 25 * number).save(place)
    data = {"name": str(tmp_path / "images"), "size": 28}
    settings = {"title": "two kinds", "model": {"name": "hnet_mnist"}, "data": data}
    recipe = Recipe.from_dict({**settings, "training": {"dice": 1.0}})
    with pytest.raises(InputError, match=r"^training\.dice: .* marked pixels; leave it out$"):
        prepare([Run(recipe, 1)], CPU)


@pytest.mark.parametrize(
    ("key", "value"), [("share", 0.0), ("people", 0), ("balance", 2.0), ("sparsity", -1.0)]
)
def test_rules_that_make_no_sense(key: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"edges\.{key}"):
        _recipe(**{key: value})
