"""Rows, choices and the ablation, trained again."""

import json
from pathlib import Path

import pytest
import torch
from rich.console import Console

import hnets
from hnets import data
from hnets.data import Dataset, EdgeSet
from hnets.errors import InputError
from hnets.studies import choices
from hnets.studies.ablation import train_ablation
from hnets.studies.retrain import read_result, train_recipes
from hnets.train import Diverged, Team, read_recipe

TEAM = Team(0, 1, torch.device("cpu"))
SMALL = ["data.name=digits-r", "training.epochs=1", "data.limit=46", "training.batch=23"]
QUIET = Console(quiet=True)


@pytest.fixture(autouse=True)
def _small_test_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are tested on 20 images, for speed."""
    load = data.load

    def fewer(name: str, split: str = "train", **options: int) -> Dataset | EdgeSet:
        dataset = load(name, split, **options)
        return dataset.subset(20) if split == "test" else dataset

    monkeypatch.setattr(data, "load", fewer)


def test_rows_are_trained_again_and_kept_when_they_are_done(tmp_path: Path) -> None:
    recipes = {"rotmnist-r-z2cnn": read_recipe("rotmnist-r-z2cnn", SMALL)}
    first = train_recipes(recipes, 2, tmp_path, TEAM, False, QUIET)
    result = first["rotmnist-r-z2cnn"]
    assert [seed["seed"] for seed in result["seeds"]] == [1, 2]
    assert json.loads((tmp_path / "rotmnist-r-z2cnn.json").read_text()) == result
    stamp = (tmp_path / "rotmnist-r-z2cnn" / "seed-1" / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(InputError, match="already holds a training of rotmnist-r-z2cnn"):
        train_recipes(recipes, 2, tmp_path, TEAM, False, QUIET)
    again = train_recipes(recipes, 2, tmp_path, TEAM, True, QUIET)
    assert again == first
    now = (tmp_path / "rotmnist-r-z2cnn" / "seed-1" / "model.safetensors").stat().st_mtime_ns
    assert now == stamp, "it was trained twice"
    more = train_recipes(recipes, 3, tmp_path, TEAM, True, QUIET)
    seeds = more["rotmnist-r-z2cnn"]["seeds"]
    assert [seed["seed"] for seed in seeds] == [1, 2, 3]
    assert [seed["errors"] for seed in seeds[:2]] == [seed["errors"] for seed in result["seeds"]]


def test_all_rows_are_looked_at_before_the_first_is_trained(tmp_path: Path) -> None:
    changes = [*SMALL, "model.options.dropout=0.1"]
    names = ("rotmnist-r-z2cnn", "rotmnist-r-hnet")
    recipes = {name: read_recipe(name, changes) for name in names}
    with pytest.raises(InputError, match="hnet_mnist has no option 'dropout'"):
        train_recipes(recipes, 1, tmp_path, TEAM, False, QUIET)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"{", b"\xff"])
def test_a_result_that_is_damaged_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "row.json").write_bytes(content)
    with pytest.raises(InputError, match=r"row\.json is damaged .*; delete it and train again"):
        read_result("row", tmp_path)


def test_a_row_that_diverges_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    recipe = read_recipe("rotmnist-r-z2cnn", SMALL)
    recipes = {"wild": recipe.replace({"optimiser.rate": 1e30}), "tame": recipe}
    with pytest.raises(Diverged, match=r"the loss became \S+ in epoch 1, .* \(wild seed 1\)"):
        train_recipes(recipes, 1, tmp_path, TEAM, False, QUIET)
    assert read_result("wild", tmp_path) is None
    tame = read_result("tame", tmp_path)
    assert tame is not None
    assert [seed["seed"] for seed in tame["seeds"]] == [1]


def test_choices_are_trained_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {kind: rows[:2] for kind, rows in choices.CHOICES.items() if kind in ("filters", "rings")}
    monkeypatch.setattr(choices, "CHOICES", few)
    fewer = ["data.limit=24", "training.batch=12"]
    small = [*SMALL, *fewer, "model.name=hnet_fourier_tiny", "training.ema=0.5"]
    recipe = read_recipe(choices.RECIPE, small)
    result = choices.train_choices({choices.RECIPE: recipe}, 1, tmp_path, TEAM, False, QUIET)
    assert read_result("choices", tmp_path) == result
    names = ["choices-middle", "choices-share-true", "choices-rings-exact"]
    assert list(result["choices"]) == names
    exact = read_result("choices-rings-exact", tmp_path)
    assert exact is not None
    assert exact["recipe"]["model"]["options"] == {**choices.MIDDLE, "rings": "exact"}
    page = tmp_path / "page.md"
    page.write_text(f"# Choices\n\n{choices.BEGIN}\nold\n{choices.END}\n\nafter\n")
    text = choices.choices_page(page, result)
    assert text.count("**two for each pair of orders, one on the conjugate**") == 1
    assert text.count("\n| ") == 4 + 2, "rows and headers"
    assert text.startswith(f"# Choices\n\n{choices.BEGIN}\n\nPercent")
    assert text.endswith(f"|\n\n{choices.END}\n\nafter\n")
    page.write_text("# no marks\n")
    with pytest.raises(InputError, match=r"expected .*page\.md to have the lines"):
        choices.marked_page(page)


def test_the_choices_of_the_table_can_all_be_built() -> None:
    for rows in choices.CHOICES.values():
        assert sum(choices.MIDDLE[choice.option] == choice.value for choice in rows) == 1
        for choice in rows:
            hnets.create_model("hnet_fourier_small", **{choice.option: choice.value})


def test_an_ablation_trains_on_the_first_images_only(tmp_path: Path) -> None:
    recipes = {"rotmnist-r-z2cnn": read_recipe("rotmnist-r-z2cnn", SMALL)}
    result = train_ablation(recipes, 1, tmp_path, TEAM, False, QUIET, (23, 46))
    assert read_result("ablation", tmp_path) == result
    assert result["sizes"] == [23, 46]
    assert set(result["errors"]["rotmnist-r-z2cnn"]) == {"23", "46"}
    small = read_result("rotmnist-r-z2cnn-23", tmp_path)
    assert small is not None
    assert small["data"]["train+val"]["images"] == 23
