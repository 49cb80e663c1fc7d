"""Teachers: what each of them sees, what they teach, and that it is made once."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from rich.console import Console
from torch import Tensor

from commands import Command
from hnets.data import EdgeSet
from hnets.errors import InputError
from hnets.models import create_model
from hnets.train import (
    Recipe,
    Result,
    Run,
    Team,
    joined,
    prepare,
    report,
    seeds_of,
    train,
    watching,
)
from hnets.train.checkpoint import Row
from hnets.train.edge_objective import ON, UNSURE, edge_labels, edge_loss
from hnets.train.recipe import Edges as Rules
from hnets.train.recipe import teacher_recipe, to_toml
from hnets.train.task import EdgeDetection
from hnets.train.teachers import mean_over_scales, soft_labels, soft_maps, teacher_runs
from processes import run_two

CPU = Team(0, 1, torch.device("cpu"))
COUNT, HEIGHT, WIDTH = 7, 17, 25


@pytest.fixture(autouse=True)
def photos(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EdgeSet:
    """Seven squares on noise as the set of photographs, and an empty cache."""
    images = torch.randint(60, 120, (COUNT, 3, HEIGHT, WIDTH), dtype=torch.uint8)
    votes = torch.zeros(COUNT, HEIGHT, WIDTH, dtype=torch.uint8)
    for n in range(COUNT):
        images[n, :, 3:12, 3 + n : 14 + n] += 100
        votes[n, 3:12, 3 + n : 14 + n] = torch.randint(1, 6, (9, 11), dtype=torch.uint8)
        votes[n, 4:11, 4 + n : 13 + n] = 0
    people = torch.full((COUNT,), 5, dtype=torch.uint8)
    data = EdgeSet(images, votes, votes, people, people == 0, "bsds500", "train")
    monkeypatch.setattr("hnets.data.load_edges", lambda split, root: data)
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    return data


def recipe_of(**changes: object) -> Recipe:
    """A detector with two teachers; ``teachers__weight=1.0`` changes ``teachers.weight``."""
    recipe = Recipe.from_dict(
        {
            "title": "taught",
            "model": {"name": "hed_low"},
            "data": {"name": "bsds500", "val": ""},
            "augment": {"flip": True, "zoom": 0.2},
            "edges": {"labels": "share", "share": 0.3, "agreement": 1.0, "sides": 0.0},
            "teachers": {"weight": 0.5, "folds": 2, "scales": [0.5, 1]},
            "optimiser": {"rate": 0.01},
            "training": {"epochs": 2, "batch": 2, "save_every": 0},
        }
    )
    return recipe.replace({key.replace("__", "."): value for key, value in changes.items()})


def test_teachers_are_shown_when_they_begin() -> None:
    names = ("student [old]", "teacher")  # which is no markup
    student, teacher = (Run(recipe_of(), 1, name=name) for name in names)
    row: Row = {"epoch": 2, "loss": 0.5, "rate": 0.1, "images_per_second": 9.0, "seconds": 1.0}
    for terminal in (True, False):
        text = io.StringIO()
        console = Console(file=text, force_terminal=terminal, width=120)
        with watching([student], console) as watch:
            watch(teacher, row)
            watch(student, row)
        assert all(f"{name} seed 1" in text.getvalue() for name in names)


class Watched:
    """The epochs that were trained, by name; stops a training at one of them."""

    def __init__(self, stop: tuple[str, int] | None = None) -> None:
        self.rows, self.stop = list[tuple[str, int]](), stop

    def __call__(self, run: Run, row: Row) -> None:
        self.rows.append((run.name, int(row["epoch"])))
        if self.rows[-1] == self.stop:
            raise KeyboardInterrupt


BOTH = [(f"teacher {teacher} of 2", epoch) for teacher in (1, 2) for epoch in (1, 2)]
STUDENT = [("", 1), ("", 2)]


def trained(recipe: Recipe, watch: Watched | None = None, seed: int = 1) -> Result:
    return train([Run(recipe, seed)], CPU, watch=watch)[0]


def same(one: Result, other: Result) -> bool:
    states = one.model.state_dict(), other.model.state_dict()
    return all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def maps_of(result: Result) -> Tensor:
    task = result.run.tasks["train"]
    assert isinstance(task, EdgeDetection)
    return task.labels[:, -1]


def test_a_teacher_never_sees_the_images_that_it_predicts(photos: EdgeSet, tmp_path: Path) -> None:
    runs = teacher_runs(teacher_recipe(recipe_of()), 3, tmp_path)
    prepare(runs, CPU)
    for fold, run in enumerate(runs):
        rows = [n for n in range(COUNT) if n % 3 != fold]
        assert torch.equal(run.tasks["train"].images, photos.images[rows])
        assert torch.equal(run.tasks["train"].labels, edge_labels(photos, run.recipe.edges)[rows])
        run.close()


def constant(probability: float) -> torch.nn.Module:
    """A detector with one output everywhere."""
    model = create_model("hed_low").eval()
    for part in model.parameters():
        part.requires_grad_(False).zero_()
    model.fusion.bias.fill_(math.log(probability / (1 - probability)))
    return model


def test_the_map_of_an_image_is_that_of_the_network_that_has_not_seen_it(photos: EdgeSet) -> None:
    models = [constant(probability) for probability in (0.2, 0.4, 0.8)]
    maps = soft_maps(models, photos.images, (0.5, 1.0, 1.5), CPU)
    assert (maps.dtype, maps.shape) == (torch.uint8, (COUNT, HEIGHT, WIDTH))
    assert [set(one.flatten().tolist()) for one in maps] == [{51}, {102}, {204}] * 2 + [{51}]


def test_an_output_is_the_mean_over_scales_without_calibration() -> None:
    model = create_model("hedge_tiny", scale=0.5, shift=1.0).eval()
    image = torch.rand(1, 3, HEIGHT, WIDTH)
    with torch.no_grad():
        whole = model.logits(image)[:, -1:].sigmoid()
        half = torch.nn.functional.interpolate(image, [9, 13], mode="bicubic", antialias=True)
        half = model.logits(half.clamp(0, 1))[:, -1:].sigmoid()
        half = torch.nn.functional.interpolate(half, [HEIGHT, WIDTH], mode="bilinear")
        output = mean_over_scales(model, image, (0.5, 1.0))
    torch.testing.assert_close(output, (whole + half) / 2)


@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("agreement", [0.0, 1.0])
def test_the_loss_is_the_formula(weight: float, agreement: float) -> None:
    random = torch.Generator().manual_seed(1)
    size = (1, 1, 5, 6)
    logits = torch.randn(1, 2, 5, 6, generator=random, dtype=torch.float64)
    taught = torch.tensor([0, 0, ON, UNSURE])[torch.randint(4, size, generator=random)].double()
    share = torch.randint(1, 101, size, generator=random).double()
    soft = torch.randint(256, size, generator=random).double()
    rules = Rules("share", agreement=agreement, sides=0.5, sparsity=0.2, balance=0.7)
    planes = [taught, *([share] if agreement else []), *([soft] if weight else [])]
    loss = edge_loss(logits, torch.cat(planes, 1), rules, weight)
    kinds = taught.flatten().tolist()
    edges, counted = kinds.count(ON), len(kinds) - kinds.count(UNSURE)
    part = edges / counted
    powers = [(s / 100) ** agreement for s in share.clamp(5).flatten().tolist()]
    of_edges = sum(p for p, kind in zip(powers, kinds, strict=True) if kind == ON)
    expected = 0.0
    for output, by in ((0, 0.5), (1, 1.0)):
        entropy, mean = 0.0, 0.0
        values = zip(kinds, powers, soft.flatten().tolist(), strict=True)
        for z, (kind, power, q) in zip(logits[0, output].flatten().tolist(), values, strict=True):
            p = 1 / (1 + math.exp(-z))
            target = (1 - weight) * (kind == ON) + weight * q / 255
            cost = -target * math.log(p) - (1 - target) * math.log(1 - p)
            off = part**0.7 * (weight if kind == UNSURE else 1)
            entropy += cost * ((1 - part) ** 0.7 * power * edges / of_edges if kind == ON else off)
            mean += p / counted * (kind != UNSURE)
        held = -part * math.log(mean) - (1 - part) * math.log(1 - mean)
        expected += by * (entropy / len(kinds) + 0.2 * held)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


def test_what_is_learned_with_the_whole_weight_are_the_teachers_outputs() -> None:
    """Where all logits are those of the teachers, the gradient is nothing."""
    soft = torch.randint(1, 255, (1, 1, 5, 6)).double()
    labels = torch.cat([torch.tensor([0.0, UNSURE, ON, 0, 0, 0]).expand(1, 1, 5, 6), soft], 1)
    logits = (soft / 255).logit().expand(1, 6, 5, 6).clone().requires_grad_()
    edge_loss(logits, labels, Rules(sparsity=0.0), 1.0).sum().backward()
    assert logits.grad is not None
    assert float(logits.grad.abs().max()) < 1e-7


def test_soft_labels_are_moved_with_the_images(photos: EdgeSet) -> None:
    """A network that says what the mirrored teacher says has no gradient from mirrored images."""
    rules = Rules(sparsity=0.0, sides=0.0)
    task = EdgeDetection(photos.images, edge_labels(photos, rules), rules)
    task = task.softened(photos.images[:, 0], 1.0)
    flip = torch.tensor([[-1.0, 0, 0, 0, 1, 0, 1, 1, 1, 1]]).expand(COUNT, -1)

    class Red(torch.nn.Module):
        def logits(self, images: Tensor) -> Tensor:
            self.output = images[:, :1].logit().expand(-1, 2, -1, -1).clone().requires_grad_()
            return self.output

    red = Red()
    rows = torch.tensor([2, 5])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hnets.train.task.edge_network", lambda model: model)
        task.loss(red, photos.images[rows], rows, flip).backward()
    expected = photos.images[rows, 0].flip(2).double() / 255
    torch.testing.assert_close(red.output[:, 0].double().sigmoid(), expected, atol=1e-4, rtol=0)
    assert red.output.grad is not None
    assert float(red.output.grad.abs().max()) < 1e-6


def test_without_weight_there_are_no_teachers_and_the_same_bits(tmp_path: Path) -> None:
    plain = recipe_of().to_dict()
    del plain["teachers"]
    watched = Watched()
    off = trained(recipe_of(teachers__weight=0.0), watched)
    assert watched.rows == STUDENT
    assert same(off, trained(Recipe.from_dict(plain)))
    assert not (tmp_path / "cache").exists()


def test_labels_are_made_once_for_all_seeds_weights_and_students(tmp_path: Path) -> None:
    watched, cache = Watched(), tmp_path / "cache"
    first, second = train(seeds_of(recipe_of(), 2), CPU, watch=watched)
    assert watched.rows == BOTH + STUDENT + STUDENT
    assert first.run.tasks["train"] is second.run.tasks["train"]
    assert not same(first, second)
    assert [path.suffix for path in cache.iterdir()] == [".npz"]
    content = report([first, second], CPU)
    assert content["recipe"]["teachers"]["weight"] == 0.5
    assert content["teachers"]["recipe"]["teachers"]["weight"] == 0
    assert len(content["teachers"]["seconds"]) == 2
    watched = Watched()
    again = trained(recipe_of(), watched)
    assert watched.rows == STUDENT
    assert same(first, again)
    assert report([again], CPU)["teachers"]["sha256"] == content["teachers"]["sha256"]
    teacher = tmp_path / "teacher.toml"
    teacher.write_text(to_toml(recipe_of(title="another", data__val="val")))
    watched = Watched()
    other = recipe_of(
        teachers__recipe=str(teacher), teachers__weight=1.0, model__name="hdsn", training__epochs=1
    )
    assert torch.equal(maps_of(trained(other, watched)), maps_of(first))
    assert watched.rows == STUDENT[:1]


def folder_of(recipe: Recipe) -> Path:
    """Where the teachers of a recipe have their checkpoints."""
    run, folders = Run(recipe, 1), list[Path]()
    prepare([run], CPU)

    def stop(runs: Sequence[Run], team: Team) -> list[Result]:
        folders.extend(each.folder.parent for each in runs if each.folder is not None)
        raise KeyboardInterrupt

    task = run.tasks["train"]
    assert isinstance(task.images, Tensor)
    with pytest.raises(KeyboardInterrupt):
        soft_labels(run, task.images, CPU, stop)
    return folders[0]


def test_labels_are_those_of_all_that_they_depend_on_and_of_nothing_else() -> None:
    folder = folder_of(recipe_of())
    alike = {
        "title": "other", "teachers__weight": 1.0, "training__save_every": 9.0,
        "teachers__epochs": 2, "data__val": "val",
    }  # fmt: skip
    assert folder_of(recipe_of(**alike)) == folder
    changes: dict[str, object] = {
        "teachers__scales": [1.0], "teachers__folds": 3, "teachers__epochs": 1,
        "training__seed": 2, "data__limit": 6, "augment__zoom": 0.1, "edges__share": 0.5,
    }  # fmt: skip
    folders = {folder_of(recipe_of(**{key: value})) for key, value in changes.items()}
    assert len(folders | {folder}) == 1 + len(changes)


def test_a_stopped_training_of_teachers_goes_on(tmp_path: Path) -> None:
    expected, run = trained(recipe_of()), tmp_path / "run"
    (file,) = (tmp_path / "cache").iterdir()
    file.unlink()
    for stop in (("teacher 2 of 2", 1), ("", 1)):
        with pytest.raises(KeyboardInterrupt):
            train([Run(recipe_of(), 1, run)], CPU, resume=True, watch=Watched(stop))
        assert file.exists() == (stop[0] == "")
    watched = Watched()
    resumed = train([Run(recipe_of(), 1, run)], CPU, resume=True, watch=watched)[0]
    assert watched.rows == [("", 1), ("", 2)]  # the first is that of the checkpoint
    assert same(resumed, expected)
    assert not file.with_suffix("").exists()
    # A finished run needs no teachers.
    file.unlink()
    watched = Watched()
    ended = train([Run(recipe_of(), 1, run)], CPU, resume=True, watch=watched)[0]
    assert same(ended, expected)
    assert watched.rows == [("", 2)]
    assert report([ended], CPU)["teachers"] == report([resumed], CPU)["teachers"]


def test_teachers_by_another_recipe_are_refused_on_resume(tmp_path: Path) -> None:
    teacher, run = tmp_path / "teacher.toml", tmp_path / "run"
    teacher.write_text(to_toml(recipe_of(training__epochs=1)))
    recipe = recipe_of(teachers__recipe=str(teacher))
    with pytest.raises(KeyboardInterrupt):
        train([Run(recipe, 1, run)], CPU, watch=Watched(("", 1)))
    teacher.write_text(to_toml(recipe_of(training__epochs=1, edges__share=0.5, title="another")))
    with pytest.raises(InputError, match=r"the teachers of .*run had edges\.share = 0\.3, and the"):
        train([Run(recipe, 1, run)], CPU, resume=True)


def test_teachers_that_differ_on_resume_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        train([Run(recipe_of(), 1, tmp_path / "run")], CPU, watch=Watched(("", 1)))
    (file,) = (tmp_path / "cache").iterdir()
    for differ in (False, True):
        file.unlink()
        if differ:
            monkeypatch.setattr("hnets.train.teachers.values", lambda images: images.float() / 256)
        with pytest.raises(KeyboardInterrupt):
            train([Run(recipe_of(), 1, tmp_path / "run")], CPU, True, Watched(("", 1)))
        assert ("teachers differ from those that the run" in caplog.text) == differ


def test_teachers_that_another_process_trains_are_one_line() -> None:
    first = Run(teacher_recipe(recipe_of()), 1, folder_of(recipe_of()) / "fold-0")
    first.open()
    with pytest.raises(InputError, match=r"another training trains the same teachers, in ") as busy:
        trained(recipe_of())
    first.close()
    assert "--out" not in str(busy.value)


def test_teachers_stay_if_their_labels_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    folder = folder_of(recipe_of())
    folder.with_name(f"{folder.name}.npz").mkdir(parents=True)
    trained(recipe_of())
    assert "cannot be written" in caplog.text
    assert (folder / "fold-1" / "checkpoint.safetensors").is_file()


def test_a_teacher_resumes_from_its_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        trained(recipe_of(), Watched(("teacher 2 of 2", 1)))
    (folder,) = (tmp_path / "cache").iterdir()
    assert (folder / "fold-1" / "checkpoint.safetensors").is_file()
    watched = Watched()
    trained(recipe_of(), watched)
    assert watched.rows == [BOTH[1], *BOTH[2:], *STUDENT]  # each begins with its checkpoint's


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teachers.weight": 1.5}, r"teachers\.weight: expected a number from 0 to 1, got 1\.5"),
        ({"teachers.folds": 1}, r"teachers\.folds: expected a whole number from 2 up, got 1"),
        ({"teachers.folds": 8}, r"teachers\.folds: expected at most the 7 images of the set"),
        ({"teachers.scales": []}, r"teachers\.scales: expected numbers from 0\.1 to 4"),
        ({"teachers.scales": 1.0}, r"teachers\.scales: expected a list of numbers, got 1\.0"),
        ({"teachers.scales": [1, "x"]}, r"teachers\.scales: expected a number, got 'x'"),
        ({"teachers.recipe": "bsds500-x"}, r"teachers\.recipe: there is no recipe or .* bsds500-x"),
        ({"teachers.recipe": "rotmnist-r-z2cnn"}, r"training\.batch of the teachers: expected at"),
        ({"teachers.epochs": -1}, r"teachers\.epochs: expected a whole number from 0 up, got -1"),
        ({"training.batch": 4}, r"training\.batch of the teachers: expected at most the 3 images"),
        ({"data.hold_out": [0, 2]}, r"data\.hold_out: expected \[\] beside teachers"),
        ({"data.hold_out": [2, 2]}, r"data\.hold_out: expected \[\], or the number of a part"),
    ],
)
def test_teachers_that_make_no_sense(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        prepare([Run(recipe_of().replace(changes), 1)], CPU)
    assert "\n" not in str(caught.value)


def test_classes_have_no_teachers(
    tiny: Callable[..., Recipe], tmp_path: Path, hnets_command: Command
) -> None:
    file = tmp_path / "classes.toml"
    file.write_text(to_toml(tiny(teachers__weight=0.5)))
    done = hnets_command("train", str(file), "--out", str(tmp_path / "run"), "--device", "cpu")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "[teachers]: they are for edges" in done.err


def member(rank: int, port: int, recipe: Recipe, folder: Path) -> None:
    """One of two processes."""
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    with joined("cpu") as team:
        results = [train([Run(recipe, 1)], team)[0] for _ in range(2)]
        torch.save([maps_of(result) for result in results], folder / f"{rank}.pt")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_two_processes_have_the_same_teachers(tmp_path: Path) -> None:
    changes = {"training__epochs": 1, "data__limit": 4, "teachers__scales": [1.0]}
    recipe = recipe_of(model__name="hdsn", **changes)  # whose batch norms see both
    run_two(member, recipe, tmp_path)
    (file,) = (tmp_path / "cache").iterdir()
    file.unlink()
    alone = maps_of(trained(recipe)).int()
    for rank in range(2):
        for maps in torch.load(tmp_path / f"{rank}.pt"):  # made, and from the cache
            assert int((maps.int() - alone).abs().max()) <= 1
