"""The paper's tables: from what ships, and trained again."""

import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import hnets
from hnets import studies as reproduce
from hnets.data import load
from hnets.errors import InputError
from hnets.models import model_card
from hnets.studies import ablation, beyond, choices, table1
from hnets.studies import results_store as store
from hnets.studies.svm import check_svm, train_svm
from hnets.train import (
    Recipe,
    Team,
    read_recipe,
    shipped_recipes,
)
from hnets.train.classification_task import errors
from hnets.train.result import summarise

TEAM = Team(0, 1, torch.device("cpu"))
ROOT = Path(__file__).parents[1]
RECIPES = list(
    dict.fromkeys(row.recipe for row in (*reproduce.TABLE1, *reproduce.BEYOND) if row.recipe)
)
SMALL = ["data.name=digits-r", "training.epochs=1", "data.limit=46", "training.batch=23"]


# What ships ----------------------------------------------------------------------------------


def test_every_row_that_can_be_run_has_a_recipe_and_the_table_has_the_papers_numbers() -> None:
    assert set(RECIPES) <= set(shipped_recipes())
    published = [row.published for row in reproduce.TABLE1]
    assert published == [11.11, 4.2, 3.98, 5.03, 3.50, 3.21, 2.28, 1.69]


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_result_is_of_the_shipped_recipe_and_adds_up(name: str) -> None:
    result = store.read(name)
    assert result is not None
    recipe = Recipe.from_dict(result["recipe"])
    assert recipe == read_recipe(name), "train again: the recipe has changed"
    assert result["name"] == name
    found = [seed["errors"]["test"]["error"] for seed in result["seeds"]]
    assert result["summary"]["test"] == pytest.approx(summarise(found))
    if result["recipe"]["model"]["name"] != "svm":
        assert [seed["seed"] for seed in result["seeds"]] == [1, 2, 3, 4, 5]
        options = result["recipe"]["model"]["options"]
        model = hnets.create_model(result["recipe"]["model"]["name"], **options)
        assert result["parameters"] == sum(p.numel() for p in model.parameters())
    assert result["data"]["test"]["images"] == 50_000
    assert result["data"]["train+val"]["images"] == 12_000


def test_results_are_of_the_data_that_load_gives(data_folder: Path) -> None:
    result = store.read("rotmnist-r-hnet")
    assert result is not None
    for split, told in result["data"].items():
        assert load("rotmnist-r", split).digest == told["sha256"]


def test_the_page_of_results_is_what_the_results_say() -> None:
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == reproduce.page(), "run hnets reproduce table1 --page docs/results.md"
    tables = re.findall(r"(?:^\|.*\|\n)+", written, re.MULTILINE)
    assert len(tables) == 6
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_front_page_has_the_numbers_of_the_results() -> None:
    front = (ROOT / "README.md").read_text(encoding="utf-8").replace("**", "")
    for row in reproduce.TABLE1:
        result = store.read(row.recipe) if row.recipe else None
        if result is not None and row.recipe != "rotmnist-r-svm":
            *parts, _ = table1.cells(row, result)
            assert f"| {' | '.join(parts)} |" in front
    for row in reproduce.BEYOND:
        if row.recipe not in {old.recipe for old in reproduce.TABLE1 if old.recipe}:
            *parts, _ = beyond.cells(row, store.read(row.recipe) if row.recipe else None)
            assert f"| {' | '.join(parts)} |" in front


def test_the_page_of_choices_is_what_the_result_says() -> None:
    path = ROOT / "docs" / "choices.md"
    before, after = choices.check_page(path)
    tables = choices.page(choices.shipped())
    written = path.read_text(encoding="utf-8")
    again = "run hnets reproduce choices --page docs/choices.md"
    assert written == f"{before}{choices.BEGIN}\n\n{tables}\n\n{choices.END}{after}", again
    middle = {f"model.options.{option}": value for option, value in choices.MIDDLE.items()}
    recipe = Recipe.from_dict(choices.shipped()["recipe"])
    assert recipe == read_recipe(choices.RECIPE).replace(middle), "train again: it has changed"
    trained = choices.shipped()["choices"]
    told = [line for line in tables.splitlines() if " ± " in line]
    assert len(told) == sum(map(len, choices.CHOICES.values()))
    assert len(trained) == len(told) - len(choices.CHOICES) + 1  # the middle is in every table
    assert len(choices.figure(choices.shipped()).axes[0].containers) == len(told)


def test_the_ablation_has_every_method_and_more_pictures_help() -> None:
    full = {name: store.read(name) for name in reproduce.METHODS.values()}
    curves = ablation.curves(ablation.shipped(), full)
    assert [curve.label for curve in curves] == list(reproduce.METHODS)
    for curve in curves:
        assert curve.x == [*reproduce.SIZES, 12_000]
        assert curve.mean == sorted(curve.mean)
    axes = ablation.figure(curves).axes
    assert len(axes) == 2
    assert all(line.get_ydata()[-1] == 1 for line in axes[0].get_lines())


@pytest.mark.parametrize(
    ("name", "recipe", "pictures"),
    [
        ("hnet_mnist", "rotmnist-r-hnet", 1000),
        ("hnet_fourier_tiny", "rotmnist-r-fourier-tiny", 1000),
        ("hnet_fourier_base", "rotmnist-r-fourier-base-augmented", 200),
        ("hnet_fourier_base.pointing", "rotmnist-r-fourier-base-pointing", 200),
    ],
)
def test_the_shipped_weights_have_the_error_that_their_card_says(
    name: str, recipe: str, pictures: int, data_folder: Path
) -> None:
    """On the first of the 50,000 test pictures, so within what chance allows of that."""
    card = model_card(name)
    assert card["recipe"]["name"] == recipe
    result = store.read(recipe)
    assert result is not None
    assert card["metrics"]["test_error"] == result["seeds"][0]["errors"]["test"]["error"]
    assert card["commit"] == result["commit"]
    model = hnets.freeze(hnets.create_model(name, pretrained=True))
    images, labels = load("rotmnist-r", "test").subset(pictures)
    found, told = errors(model, images, labels).error, card["metrics"]["test_error"]
    assert abs(found - told) < 4 * (told * (100 - told) / pictures) ** 0.5


# Trained again -------------------------------------------------------------------------------


def quiet() -> Console:
    return Console(quiet=True)


def test_rows_are_trained_again_and_kept_when_they_are_done(tmp_path: Path) -> None:
    recipes = {"rotmnist-r-z2cnn": read_recipe("rotmnist-r-z2cnn", SMALL)}
    first = reproduce.train_recipes(recipes, 2, tmp_path, TEAM, False, quiet())
    result = first["rotmnist-r-z2cnn"]
    assert [seed["seed"] for seed in result["seeds"]] == [1, 2]
    assert json.loads((tmp_path / "rotmnist-r-z2cnn.json").read_text()) == result
    stamp = (tmp_path / "rotmnist-r-z2cnn" / "seed-1" / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(InputError, match="already holds a training of rotmnist-r-z2cnn"):
        reproduce.train_recipes(recipes, 2, tmp_path, TEAM, False, quiet())
    again = reproduce.train_recipes(recipes, 2, tmp_path, TEAM, True, quiet())
    assert again == first
    now = (tmp_path / "rotmnist-r-z2cnn" / "seed-1" / "model.safetensors").stat().st_mtime_ns
    assert now == stamp, "it was trained twice"
    more = reproduce.train_recipes(recipes, 3, tmp_path, TEAM, True, quiet())
    seeds = more["rotmnist-r-z2cnn"]["seeds"]
    assert [seed["seed"] for seed in seeds] == [1, 2, 3]
    assert [seed["errors"] for seed in seeds[:2]] == [seed["errors"] for seed in result["seeds"]]


def test_all_rows_are_looked_at_before_the_first_is_trained(tmp_path: Path) -> None:
    changes = [*SMALL, "model.options.dropout=0.1"]
    names = ("rotmnist-r-z2cnn", "rotmnist-r-hnet")
    recipes = {name: read_recipe(name, changes) for name in names}
    with pytest.raises(InputError, match="hnet_mnist has no option 'dropout'"):
        reproduce.train_recipes(recipes, 1, tmp_path, TEAM, False, quiet())
    assert not list(tmp_path.iterdir())


def test_past_the_paper_has_recipes_and_what_others_published() -> None:
    rows = {row.method: row for row in reproduce.BEYOND}
    assert {row.recipe for row in rows.values() if row.recipe} <= set(shipped_recipes())
    published = [row.published for row in rows.values() if row.published is not None]
    assert published == [1.69, 0.98, 0.685, 0.682, 0.59]
    result = {
        "parameters": 12345,
        "summary": {
            "test": {"mean": 0.7, "std": 0.02, "n": 5},
            "test, averaged": {"mean": 0.6, "std": 0.01, "n": 5},
        },
    }
    said = beyond.cells(rows["hnet_fourier_base"], result)
    base = "rotmnist-r-fourier-base"
    assert said == ("hnet_fourier_base", "12,345", "", "0.70 ± 0.02", "0.60 ± 0.01", base)
    assert f"| {' | '.join(said[:-1])} | [{base}](#{base}) |" in beyond.markdown({base: result})
    shown = [len(beyond.rich_table(results).rows) for results in ({}, {base: result})]
    assert shown == [5, 6], "what has neither a published error nor one of ours is left out"


def test_choices_are_trained_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {kind: rows[:2] for kind, rows in choices.CHOICES.items() if kind in ("filters", "rings")}
    monkeypatch.setattr(choices, "CHOICES", few)
    small = [*SMALL, "model.name=hnet_fourier_tiny", "training.ema=0.5"]
    recipe = read_recipe(choices.RECIPE, small)
    wrong = recipe.replace({"data.test": "val"})
    with pytest.raises(InputError, match=r'compared by data.test = "test", got .val.'):
        reproduce.train_choices(wrong, 1, tmp_path, TEAM, False, quiet())
    result = reproduce.train_choices(recipe, 1, tmp_path, TEAM, False, quiet())
    names = ["choices-middle", "choices-share-true", "choices-rings-exact"]
    assert list(result["choices"]) == names
    exact = store.read("choices-rings-exact", tmp_path)
    assert exact is not None
    assert exact["recipe"]["model"]["options"] == {**choices.MIDDLE, "rings": "exact"}
    tables = choices.page(result)
    assert tables.count("**two for each pair of orders, one on the conjugate**") == 1
    assert tables.count("\n| ") == 4 + 2, "rows and headers"
    place = tmp_path / "page.md"
    place.write_text(f"# Choices\n\n{choices.BEGIN}\nold\n{choices.END}\n\nafter\n")
    picture = tmp_path / "images" / "choices.png"
    assert choices.write_page(place, result) == [place, picture]
    assert picture.stat().st_size > 10_000
    assert place.read_text() == (
        f"# Choices\n\n{choices.BEGIN}\n\n{tables}\n\n{choices.END}\n\nafter\n"
    )
    place.write_text("# no marks\n")
    with pytest.raises(InputError, match=r"expected .*page\.md to have the lines"):
        choices.write_page(place, result)


def test_the_choices_of_the_table_can_all_be_built() -> None:
    for rows in choices.CHOICES.values():
        assert sum(choices.MIDDLE[choice.option] == choice.value for choice in rows) == 1
        for choice in rows:
            hnets.create_model("hnet_fourier_small", **{choice.option: choice.value})


def test_an_ablation_trains_on_the_first_pictures_only(tmp_path: Path) -> None:
    recipes = {"rotmnist-r-z2cnn": read_recipe("rotmnist-r-z2cnn", SMALL)}
    result = reproduce.train_ablation(recipes, (23, 46), 1, tmp_path, TEAM, False, quiet())
    assert result["sizes"] == [23, 46]
    assert set(result["errors"]["rotmnist-r-z2cnn"]) == {"23", "46"}
    small = store.read("rotmnist-r-z2cnn-23", tmp_path)
    assert small is not None
    assert small["data"]["train+val"]["images"] == 23


def test_an_ablation_without_the_full_results_says_what_to_run() -> None:
    with pytest.raises(InputError, match="run hnets reproduce table1 --train"):
        ablation.curves({"errors": {}}, {})


def test_the_support_vector_machine_is_that_of_scikit_learn() -> None:
    from sklearn.svm import SVC

    recipe = read_recipe("rotmnist-r-svm", ["data.name=digits-r", "data.limit=300"])
    result = train_svm(recipe, "mine")
    assert result["name"] == "mine"
    options = recipe.model.options
    train, test = load("digits-r", "train+val").subset(300), load("digits-r", "test")
    machine = SVC(C=options["C"], gamma=options["gamma"], kernel="rbf")
    machine.fit(train.images.flatten(1).numpy(), train.labels.numpy())
    answers = torch.from_numpy(machine.predict(test.images.flatten(1).numpy()))
    expected = 100 * float((answers != test.labels).float().mean())
    assert result["summary"]["test"]["mean"] == pytest.approx(expected, abs=0.21)
    wrong = dataclasses.replace(recipe.model, options={"C": 1.0})
    with pytest.raises(InputError, match="an svm has the options C and gamma"):
        train_svm(dataclasses.replace(recipe, model=wrong))


@pytest.mark.parametrize("option", ["C", "gamma"])
@pytest.mark.parametrize("value", ["foo", "-1", "0", "nan", "inf", "true"])
def test_the_options_of_the_support_vector_machine_are_numbers_above_0(
    option: str, value: str
) -> None:
    recipe = read_recipe("rotmnist-r-svm", [f"model.options.{option}={value}"])
    for use in (check_svm, train_svm):
        with pytest.raises(InputError, match=f"^model.options.{option}: expected a number above 0"):
            use(recipe)


def test_the_table_fits_a_terminal_of_eighty_columns() -> None:
    console = Console(width=80, file=io.StringIO())
    console.print(table1.rich_table({name: store.read(name) for name in RECIPES}))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert "z2cnn-augmented" in text
    assert "…" not in text.replace("rotmnist-r-…", "")


# The command ---------------------------------------------------------------------------------


def hnets_command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "hnets", *arguments],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_table_and_ablation_from_what_ships(tmp_path: Path) -> None:
    done = hnets_command("reproduce", "table1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    result = store.read("rotmnist-r-hnet")
    assert result is not None
    assert f"{result['summary']['test']['mean']:.2f}" in done.stdout
    done = hnets_command("reproduce", "ablation", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "here" / "ablation.png").stat().st_size > 10_000


def test_a_table_that_was_trained_otherwise_says_so(tmp_path: Path) -> None:
    changes = [part for change in SMALL for part in ("--set", change)]
    arguments = ("reproduce", "table1", "--train", "--rows", "rotmnist-r-z2cnn", "--seeds", "1")
    done = hnets_command(*arguments, *changes, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Trained with {', '.join(SMALL)}, and not" in " ".join(done.stdout.split())
    assert (tmp_path / "runs" / "table1" / "rotmnist-r-z2cnn.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table1 --rows zebra", "expected recipes of the table .*got 'zebra'"),
        ("table1 --seeds 0", "expected a whole number from 1 to 100, got '0'"),
        ("ablation --train --sizes 5,x", "--sizes: expected a whole number from 10 to .*got '5'"),
        ("ablation --sizes 100", "--sizes: expected together with --train"),
        ("table1 --page .", "--page: expected a file to write, got the folder"),
        ("table1 --train --set training.epoch=3", "did you mean 'training.epochs'"),
        ("beyond --set training.epochs=3", "--set: expected together with --train"),
        ("choices --resume", "--resume: expected together with --train"),
        ("table2x", "No such command"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, arguments: str, message: str) -> None:
    done = hnets_command("reproduce", *arguments.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.search(message, done.stderr)
    assert not list(tmp_path.iterdir()), "a command that failed left something behind"
