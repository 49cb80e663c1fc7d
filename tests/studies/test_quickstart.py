"""The quick start: two networks, really trained for a moment, and what they read."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from commands import Command
from hnets import data
from hnets.data import Dataset
from hnets.data import sklearn_digits as digits
from hnets.studies import quickstart
from hnets.studies.quickstart import DigitReader, rotated_digits
from hnets.train import Run, joined, train

NAMES = ["H-Net", "plain CNN"]


def in_short(patch: pytest.MonkeyPatch) -> None:
    """Fewer digits and angles, for speed; everything else is as users have it."""
    full, load = quickstart.quickstart_recipes, data.load
    limit = {"data.limit": 92}
    patch.setattr(quickstart, "ANGLES", tuple(range(0, 360, 45)))
    patch.setattr(
        quickstart,
        "quickstart_recipes",
        lambda *args: {name: recipe.replace(limit) for name, recipe in full(*args).items()},
    )

    def fewer(name: str, split: str = "train", **options: int) -> Dataset:
        dataset = load(name, split, **options)
        return dataset if split == "train" else dataset.subset(60)

    patch.setattr(data, "load", fewer)


def test_the_command_says_what_it_does_and_leaves_figures_and_numbers(
    hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_short(monkeypatch)
    monkeypatch.setenv("COLUMNS", "80")
    done = hnets_command("quickstart", "--epochs", "1", "--out", str(tmp_path))
    assert done.code == 0, done.err
    for expected in (
        "about 20 seconds on two CPU cores" if not torch.cuda.is_available() else "GPU",
        "hnet_mnist seed 1  epoch 1/1",
        "z2cnn seed 1  epoch 1/1",
        "rotated by",
        "17,801",
        "92,649,200",
        "21,570",
        "2,976,080",
        "hnets edges photo.jpg",
    ):
        assert expected in done.out
    path = tmp_path / "quickstart.png"
    assert f"wrote{path}" in "".join(done.out.split())
    assert "…" not in done.out, "a column was cut off"
    assert "\x1b" not in done.out
    written = ["edges.png", "quickstart.json", "quickstart.png"]
    assert sorted(file.name for file in tmp_path.iterdir()) == written
    with Image.open(path) as image:
        image.load()
        assert image.size == (1150, 609)
        assert image.convert("RGB").getpixel((3, 3)) == (255, 255, 255)
    facts = json.loads((tmp_path / "quickstart.json").read_text())
    assert (facts["epochs"], facts["seed"]) == (1, 1)
    assert [network["name"] for network in facts["networks"]] == NAMES
    for network in facts["networks"]:
        assert len(network["accuracies"]) == len(facts["angles"]) == 8
        assert network["rotated"] == pytest.approx(np.mean(network["accuracies"]), abs=0.01)


def test_the_h_net_reads_the_same_after_rotations_by_90_degrees(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(quickstart, "ANGLES", (0, 90, 180, 270))
    few = {"data.limit": 96, "data.val": "", "training.batch": 8}
    recipe = quickstart.quickstart_recipes(3, 1)["H-Net"].replace(few)
    with joined("cpu") as team:
        done = train([Run(recipe, 1)], team)
    [reader] = quickstart.read_rotated({"H-Net": done[0]}, data.load("digits", "test").subset(100))
    assert reader.predictions.shape == (4, 100)
    assert len(np.unique(reader.predictions[0])) > 1
    assert (reader.predictions != reader.predictions[0]).sum() <= 3  # near ties, rounded either way


def test_rotated_digits_are_those_of_the_data_sets() -> None:
    test = data.load("digits", "test").subset(5)
    assert torch.equal(rotated_digits(test, 0), test.images)
    assert torch.equal(rotated_digits(test, 90), test.images.rot90(1, (2, 3)))
    degrees = np.random.RandomState(1798).random_sample(1797)[1297:1302] * 360
    each = [rotated_digits(test.subset([i]), angle) for i, angle in enumerate(degrees)]
    expected = data.load("digits-r", "test").subset(5).images
    assert (torch.cat(each) - expected).abs().max() < 1.5 / 255  # a rounding of the last bit


def test_accuracies_and_mistakes() -> None:
    predictions = np.array([[6, 9, 1, 2], [9, 6, 1, 3]])
    reader = DigitReader("any", predictions, np.array([6, 9, 1, 2]), 1, 1, 1.0)
    assert reader.accuracies == [100, 25]
    assert (reader.upright, reader.rotated) == (100, 62.5)
    assert reader.mixed_up(6, 9) == pytest.approx(200 / 3)
    assert DigitReader("any", predictions[:1], predictions[0], 1, 1, 1.0).mixed_up(6, 9) == 0


# What may go wrong ---------------------------------------------------------------------------


def no_training(*_: object, **__: object) -> None:
    raise AssertionError("it trained first")


def test_what_is_missing_is_said_before_the_training(
    hnets_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(quickstart, "train", no_training)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        done = hnets_command("quickstart", "--out", str(tmp_path))
        assert (done.code, done.out) == (2, "")
        assert 'need matplotlib: pip install "hnets[plot]"' in done.err
    digits.upright.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    done = hnets_command("quickstart", "--out", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert 'need scikit-learn: pip install "hnets[bench]"' in done.err
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
