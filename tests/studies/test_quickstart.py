"""The quick start: two networks, really trained for a moment, and the picture of what they say."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image
from rich.console import Console

from commands import Command
from hnets import data
from hnets import plot as inspect
from hnets.data import Dataset
from hnets.data import sklearn_digits as digits
from hnets.errors import MissingExtra
from hnets.studies import quickstart
from hnets.studies.quickstart import Answers, turned

NAMES = ("H-Net", "plain CNN")


def in_short(patch: pytest.MonkeyPatch) -> None:
    """Fewer digits and angles, for the clock's sake; everything else is as users have it."""
    full, load = quickstart.recipes, data.load
    limit = {"data.limit": 230}
    patch.setattr(quickstart, "ANGLES", tuple(range(0, 360, 45)))
    patch.setattr(
        quickstart,
        "recipes",
        lambda *given: {name: recipe.replace(limit) for name, recipe in full(*given).items()},
    )

    def fewer(name: str, split: str = "train", **options: int) -> Dataset:
        found = load(name, split, **options)
        return found if split == "train" else found.subset(60)

    patch.setattr(data, "load", fewer)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    said, folder = io.StringIO(), tmp_path_factory.mktemp("quick")
    with pytest.MonkeyPatch.context() as patch:
        in_short(patch)
        path = quickstart.quickstart(folder, 1, 1, Console(file=said, width=80))
    return path, said.getvalue()


def test_it_leaves_a_figure_and_its_numbers(run: tuple[Path, str]) -> None:
    path, _ = run
    assert sorted(file.name for file in path.parent.iterdir()) == [
        "edges.png",
        "quickstart.json",
        "quickstart.png",
    ]
    with Image.open(path) as image:
        image.load()
        assert image.size == (1150, 609)
        assert image.convert("RGB").getpixel((3, 3)) == (255, 255, 255)
    facts = json.loads((path.parent / "quickstart.json").read_text())
    assert (facts["epochs"], facts["seed"]) == (1, 1)
    assert [network["name"] for network in facts["networks"]] == list(NAMES)
    for network in facts["networks"]:
        assert len(network["accuracies"]) == len(facts["angles"]) == 8
        assert network["turned"] == pytest.approx(np.mean(network["accuracies"]), abs=0.01)


def test_it_says_in_plain_lines_what_it_does_and_what_it_saw(run: tuple[Path, str]) -> None:
    path, said = run
    for expected in (
        "about 20 seconds on two CPU cores" if not torch.cuda.is_available() else "GPU",
        "hnet_mnist seed 1  epoch 1/1",
        "z2cnn seed 1  epoch 1/1",
        "turned by",
        "17,801",
        "92,649,200",
        "21,570",
        "2,976,080",
        "hnets edges photo.jpg",
    ):
        assert expected in said
    assert f"wrote{path}" in "".join(said.split())
    assert "…" not in said, "a column was cut off"
    assert "\x1b" not in said


def test_the_h_net_says_the_same_after_quarter_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quickstart, "ANGLES", (0, 90, 180, 270))
    few = {"data.limit": 96, "data.val": "", "training.batch": 8}
    recipe = quickstart.recipes(3, 1)["H-Net"].replace(few)
    with quickstart.joined("cpu") as team:
        done = quickstart.train([quickstart.Run(recipe, 1)], team)
    [answers] = quickstart.ask({"H-Net": done[0]}, data.load("digits", "test").subset(100))
    assert answers.said.shape == (4, 100)
    assert len(np.unique(answers.said[0])) > 1, "it has an opinion"
    assert (answers.said != answers.said[0]).sum() <= 3  # near ties, rounded either way


def test_turned_digits_are_those_of_the_data_sets() -> None:
    test = data.load("digits", "test").subset(5)
    assert torch.equal(turned(test, 0), test.images)
    assert torch.equal(turned(test, 90), test.images.rot90(1, (2, 3)))
    degrees = np.random.RandomState(1798).random_sample(1797)[1297:1302] * 360
    each = [turned(test.subset([i]), angle) for i, angle in enumerate(degrees)]
    expected = data.load("digits-r", "test").subset(5).images
    assert (torch.cat(each) - expected).abs().max() < 1.5 / 255  # a rounding of the last bit


def test_answers_in_numbers() -> None:
    said = np.array([[6, 9, 1, 2], [9, 6, 1, 3]])
    answers = Answers("any", said, np.array([6, 9, 1, 2]), 1, 1, 1.0)
    assert answers.accuracies == [100, 25]
    assert (answers.upright, answers.turned) == (100, 62.5)
    assert answers.mixed_up(6, 9) == pytest.approx(200 / 3)
    assert Answers("any", said[:1], said[0], 1, 1, 1.0).mixed_up(6, 9) == 0


# The figure ----------------------------------------------------------------------------------


def figure(low: float, high: float) -> Figure:
    blank = np.zeros((28, 28))
    pictures = [
        inspect.AnsweredPicture(blank, angle, "8", ("8", "0")) for angle in range(0, 361, 45)
    ]
    curves = {"H-Net": [high] * 24, "plain CNN": [low, high] * 12}
    return inspect.accuracy_figure("A title", range(0, 360, 15), curves, pictures, 10.0)


@pytest.mark.parametrize(("low", "high"), [(0, 100), (10, 10), (50, 98.6)])
def test_no_text_of_the_figure_overlaps_another_or_leaves_the_sheet(low: int, high: int) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    with inspect.style():
        drawn = figure(low, high)
        canvas = FigureCanvasAgg(drawn)
        canvas.draw()
    parts = list(drawn.texts)
    for axes in drawn.axes:
        parts += [*axes.texts, *axes.get_xticklabels(), *axes.get_yticklabels(), axes.yaxis.label]
    boxes = [(part.get_text(), part.get_window_extent()) for part in parts if part.get_text()]
    assert len(boxes) > 50
    for number, (name, box) in enumerate(boxes):
        assert drawn.bbox.x0 <= box.x0 < box.x1 <= drawn.bbox.x1, name
        assert drawn.bbox.y0 <= box.y0 < box.y1 <= drawn.bbox.y1, name
        for other, second in boxes[number + 1 :]:
            assert not box.overlaps(second), (name, other)


def test_right_and_wrong_answers_differ_in_mark_and_colour() -> None:
    marks = [part for part in figure(10, 90).texts if part.get_text() in "✓✗"]
    assert [mark.get_text() for mark in marks] == ["✓", "✗"] * 9
    assert len({(mark.get_text(), mark.get_color()) for mark in marks}) == 2


def test_the_figure_compares_two() -> None:
    with pytest.raises(ValueError, match="compares two networks, got 1"):
        inspect.accuracy_figure("", [0], {"one": [1.0]}, [], 10.0)


# What may go wrong ---------------------------------------------------------------------------


def no_training(*_: object, **__: object) -> None:
    raise AssertionError("it trained first")


def test_what_is_missing_is_said_before_the_training(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(quickstart, "train", no_training)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(MissingExtra, match=r'need matplotlib: pip install "hnets\[plot\]"'):
            quickstart.quickstart(tmp_path, 1, 1, Console(file=io.StringIO()))
    digits.upright.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingExtra, match=r'need scikit-learn: pip install "hnets\[bench\]"'):
        quickstart.quickstart(tmp_path, 1, 1, Console(file=io.StringIO()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "expected a whole number from 1 to 1000, got '0'"),
        (["--epochs", "many"], "expected a whole number from 1 to 1000, got 'many'"),
        (["--seed", "-1"], "expected a whole number from 0"),
        (["--out", "file"], "expected a folder to write to, got 'file'"),
        (["--epoch", "3"], "No such option"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    hnets_command: Command,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(quickstart, "train", no_training)
    Path("file").touch()
    done = hnets_command("quickstart", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert message in done.err


def test_an_interrupted_run_says_so_and_leaves_what_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hnets_command: Command
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(quickstart, "train", interrupted)
    done = hnets_command("quickstart", "--out", str(tmp_path / "out"))
    assert (done.code, done.err) == (130, "hnets: stopped\n")
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["edges.png"]
