"""The paper's tables from what ships, and the pages that hold them."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

import hnets
from commands import Command
from hnets import plot
from hnets.data import load
from hnets.models import model_card
from hnets.studies import ablation, choices, retrain
from hnets.studies.model_cards import models_numbers
from hnets.studies.tables import BEYOND, DIGITS, EDGES, TABLE1, TABLE2, results_page
from hnets.train import Recipe, read_recipe, shipped_recipes
from hnets.train.result import summarise
from hnets.train.task import errors

ROOT = Path(__file__).parents[2]
RECIPES = list(dict.fromkeys([*TABLE1.recipes, *BEYOND.recipes]))
TABLES = [table.on(data) for table in (TABLE1, BEYOND) for data in DIGITS]
SHIPPED = {name: table for table in TABLES for name in table.shipped()}
SMALL = ["data.name=digits-r", "training.epochs=1", "data.limit=46", "training.batch=23"]


def test_every_row_that_can_be_run_has_a_recipe_and_the_table_has_the_papers_numbers() -> None:
    assert set(RECIPES) <= set(shipped_recipes())
    published = [row.published[0] for row in TABLE1.rows]
    assert published == [11.11, 4.2, 3.98, 5.03, 3.50, 3.21, 2.28, 1.69]


def test_every_recipe_has_a_result() -> None:
    assert set(RECIPES) <= set(SHIPPED)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_result_is_of_the_shipped_recipe_and_adds_up(name: str) -> None:
    result = retrain.read_result(name)
    assert result is not None
    recipe, first = Recipe.from_dict(result["recipe"]), result["recipe"]["training"]["seed"]
    shipped = SHIPPED[name].read(name, [f"training.seed={first}"])
    assert recipe == shipped, "train again: the recipe has changed"
    assert result["name"] == name
    measured = [seed["errors"]["test"]["error"] for seed in result["seeds"]]
    assert result["summary"]["test"] == pytest.approx(summarise(measured))
    if result["recipe"]["model"]["name"] != "svm":
        seeds = [seed["seed"] for seed in result["seeds"]]
        assert seeds == list(range(first, first + len(seeds)))
        assert len(seeds) >= 5
        options = result["recipe"]["model"]["options"]
        model = hnets.create_model(result["recipe"]["model"]["name"], **options)
        assert result["parameters"] == sum(p.numel() for p in model.parameters())
    assert result["data"]["test"]["images"] == 50_000
    assert result["data"]["train+val"]["images"] == 12_000


def test_results_are_of_the_data_that_load_gives(data_folder: Path) -> None:
    result = retrain.read_result("rotmnist-r-hnet")
    assert result is not None
    for split, facts in result["data"].items():
        assert load("rotmnist-r", split).digest == facts["sha256"]


def test_the_page_of_results_is_what_the_results_say() -> None:
    written = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    assert written == results_page(), "run hnets reproduce table1 --page docs/results.md"
    tables = re.findall(r"(?:^\|.*\|\n)+", written, re.MULTILINE)
    assert len(tables) == 9
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_front_page_has_the_numbers_of_the_results() -> None:
    front = (ROOT / "README.md").read_text(encoding="utf-8").replace("**", "")
    for row in TABLE1.rows:
        result = retrain.read_result(row.recipe) if row.recipe else None
        if result is not None and row.recipe != "rotmnist-r-svm":
            *parts, _ = TABLE1.cells(row, result)
            assert f"| {' | '.join(parts)} |" in front
    for row in BEYOND.rows:
        if row.recipe not in TABLE1.recipes:
            *parts, _ = BEYOND.cells(row, retrain.read_result(row.recipe) if row.recipe else None)
            assert f"| {' | '.join(parts)} |" in front


def test_the_page_of_choices_is_what_the_result_says() -> None:
    path, result = ROOT / "docs" / "choices.md", retrain.shipped_result("choices")
    written = path.read_text(encoding="utf-8")
    again = "run hnets reproduce choices --page docs/choices.md"
    assert written == choices.choices_page(path, result), again
    middle = {f"model.options.{option}": value for option, value in choices.MIDDLE.items()}
    recipe = Recipe.from_dict(result["recipe"])
    assert recipe == read_recipe(choices.RECIPE).replace(middle), "train again: it has changed"
    rows = sum(map(len, choices.CHOICES.values()))
    assert len([line for line in written.splitlines() if " ± " in line]) == rows
    assert len(result["choices"]) == rows - len(choices.CHOICES) + 1  # the middle is in every table
    figure = plot.choices_figure(choices.measured_choices(result))
    assert len(figure.axes[0].containers) == rows


def test_the_ablation_has_every_method_and_more_images_help() -> None:
    curves = ablation.ablation_curves(retrain.shipped_result("ablation"))
    assert [curve.label for curve in curves] == list(ablation.METHODS)
    for curve in curves:
        assert curve.x == [*ablation.SIZES, 12_000]
        assert curve.mean == sorted(curve.mean)
    axes = plot.ablation_figure(curves).axes
    assert len(axes) == 2
    assert all(line.get_ydata()[-1] == 1 for line in axes[0].get_lines())


@pytest.mark.parametrize(
    ("name", "recipe", "count"),
    [
        ("hnet_mnist", "rotmnist-r-hnet", 1000),
        ("hnet_fourier_tiny", "rotmnist-r-fourier-tiny", 500),
        ("hnet_fourier_base", "rotmnist-r-fourier-base-augmented", 100),
        ("hnet_fourier_base.pointing", "rotmnist-r-fourier-base-pointing", 100),
    ],
)
def test_the_shipped_weights_have_the_error_that_their_card_says(
    name: str, recipe: str, count: int, data_folder: Path
) -> None:
    """On the first of the 50,000 test images, so within what chance allows of that."""
    card = model_card(name)
    assert card["recipe"]["name"] == recipe
    result = retrain.read_result(recipe)
    assert result is not None
    of_seed = {seed["seed"]: seed["errors"]["test"]["error"] for seed in result["seeds"]}
    if name == "hnet_fourier_tiny":  # its row is of ten seeds that were trained later
        assert card["recipe"]["seed"] not in of_seed
    else:
        assert card["metrics"]["test_error"] == of_seed[card["recipe"]["seed"]]
        assert card["commit"] == result["commit"]
    model = hnets.freeze(hnets.create_model(name, pretrained=True))
    images, labels = load("rotmnist-r", "test").subset(count)
    measured, stated = errors(model, images, labels).error, card["metrics"]["test_error"]
    assert abs(measured - stated) < 4 * (stated * (100 - stated) / count) ** 0.5


def test_past_the_paper_has_recipes_and_what_others_published() -> None:
    rows = {row.method: row for row in BEYOND.rows}
    assert {row.recipe for row in rows.values() if row.recipe} <= set(shipped_recipes())
    published = [row.published[0] for row in rows.values() if row.published]
    assert published == [1.69, 0.98, 0.685, 0.682, 0.59]
    result = {
        "parameters": 12345,
        "summary": {
            "test": {"mean": 0.7, "std": 0.02, "n": 5},
            "test, averaged": {"mean": 0.6, "std": 0.01, "n": 5},
        },
    }
    cells = BEYOND.cells(rows["hnet_fourier_base"], result)
    base = "rotmnist-r-fourier-base"
    assert cells == ("hnet_fourier_base", "12,345", "", "0.70 ± 0.02", "0.60 ± 0.01", base)
    assert (
        f"| {' | '.join(cells[:-1])} | [{base}](#{base}) |"
        in BEYOND.page({base: result}).markdown()
    )
    shown = [len(BEYOND.terminal(results).rows) for results in ({}, {base: result})]
    assert shown == [5, 6], "what has neither a published error nor one of ours is left out"


@pytest.mark.parametrize("name", ["table1", "table2", "beyond", "edges", "models"])
def test_tables_fit_a_terminal_of_eighty_columns_without_broken_words(name: str) -> None:
    table = {"table1": TABLE1, "table2": TABLE2, "beyond": BEYOND, "edges": EDGES}.get(name)
    numbers = table.terminal(table.shipped()) if table else models_numbers()
    console = Console(width=80, file=io.StringIO())
    console.print(numbers.rich())
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    cells = [cell for row in (numbers.header, *numbers.rows) for cell in row]
    assert [word for cell in cells for word in cell.split() if word not in text] == []


def test_edge_detectors_have_a_row_per_number_of_scales() -> None:
    scores = {name: {"mean": 0.8, "std": 0.001, "n": 3} for name in ("ods", "ois", "ap")}
    result = {"parameters": 12345, "scores": {"standard": scores}}
    names = [row.recipe for row in EDGES.rows if row.recipe]
    rows = EDGES.terminal({names[-1]: result}).rows
    assert len(rows) == 5, "four published detectors and one of ours"
    assert rows[-1][:-1] == ("base", "12,345", *[".800 ± .001"] * 3)
    result["scores"] = {"standard": scores, "scales": scores}
    assert EDGES.terminal({names[-1]: result}).rows[-1][0] == "base, 3 scales"


# The command ---------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def test_table_ablation_and_page_from_what_ships(hnets_command: Command, folder: Path) -> None:
    done = hnets_command("reproduce", "table1", "--page", "page/results.md")
    assert done.code == 0, done.err
    assert f"{retrain.shipped_result('rotmnist-r-hnet')['summary']['test']['mean']:.2f}" in done.out
    assert (folder / "page" / "results.md").read_text(encoding="utf-8") == results_page()
    done = hnets_command("reproduce", "ablation", "--out", "here")
    assert done.code == 0, done.err
    for path in (folder / "page/images/ablation.png", folder / "here/ablation.png"):
        assert path.stat().st_size > 10_000


def test_a_table_on_other_digits(hnets_command: Command, folder: Path) -> None:
    done = hnets_command("reproduce", "table1", "--data", "rotmnist-c")
    assert done.code == 0, done.err
    assert "rotmnist-c, %" in done.out
    assert "published" not in done.out.lower()
    assert "Averaged: the outputs" in BEYOND.on("rotmnist-c").note
    for result in TABLE1.on("rotmnist-c").shipped().values():
        assert f"{result['summary']['test']['mean']:.2f}" in done.out
    rows = {name for name in SHIPPED if name.startswith("rotmnist-c")}
    section = results_page().partition("## Rotated MNIST without a mark")[2].partition("\n## ")[0]
    assert section.count("\n| ") == 1 + len(rows)


def test_choices_are_put_into_a_page(hnets_command: Command, folder: Path) -> None:
    page = ROOT / "docs" / "choices.md"
    text = page.read_text(encoding="utf-8")
    old = f"{text.partition(choices.BEGIN)[0]}{choices.BEGIN}\n{choices.END}"
    Path("choices.md").write_text(old + text.partition(choices.END)[2], encoding="utf-8")
    done = hnets_command("reproduce", "choices", "--page", "choices.md")
    assert done.code == 0, done.err
    assert Path("choices.md").read_text(encoding="utf-8") == text
    assert (folder / "images" / "choices.png").stat().st_size > 10_000


def test_a_table_that_was_trained_otherwise_says_so(hnets_command: Command, folder: Path) -> None:
    changes = [part for change in SMALL for part in ("--set", change)]
    arguments = ("reproduce", "table1", "--train", "--rows", "rotmnist-r-z2cnn", "--seeds", "1")
    done = hnets_command(*arguments, *changes)
    assert done.code == 0, done.err
    assert f"Trained with {', '.join(SMALL)}, and not" in " ".join(done.out.split())
    assert (folder / "runs" / "table1" / "rotmnist-r-z2cnn.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table1 --rows zebra", "expected recipes of the table .*got 'zebra'"),
        ("table1 --seeds 0", "expected a whole number from 1 to 100, got '0'"),
        ("ablation --train --sizes 5,x", "--sizes: expected a whole number from 10 to .*got '5'"),
        ("ablation --sizes 100", "--sizes: expected together with --train"),
        ("table1 --page .", "--page: expected a file to write, got the folder"),
        ("table1 --train --set training.epoch=3", "did you mean 'training.epochs'"),
        ("table1 --train --set data.test=", "expected data.test = \"test\", got ''"),
        ("beyond --set training.epochs=3", "--set: expected together with --train"),
        ("choices --resume", "--resume: expected together with --train"),
        ("table1 --seeds 5", "--seeds: expected together with --train"),
        ("edges --device cpu", "--device: expected together with --train"),
        ("table2 --thresholds 9", "--thresholds: expected together with --train"),
        ("choices --page missing.md", "missing.md cannot be read; give a page of text"),
        ("table1 --data mnist", "--data: expected rotmnist-r or rotmnist-c, got 'mnist'"),
        ("table1 --data rotmnist-c --rows rotmnist-r-svm", "expected recipes .*rotmnist-c-svm"),
        ("table2x", "No such command"),
    ],
)
def test_bad_input_is_one_line(
    hnets_command: Command, folder: Path, arguments: str, message: str
) -> None:
    done = hnets_command("reproduce", *arguments.split())
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert re.search(message, done.err), done.err
    assert not list(folder.iterdir()), "a command that failed left something behind"
