"""Table 2: the rows, and scores of trained weights, from files to the table."""

from __future__ import annotations

import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from commands import Command
from hnets.data import bsds
from hnets.errors import InputError
from hnets.models import create_model, model_card, save
from hnets.plot import front_figure
from hnets.predict import EdgeDetector
from hnets.studies import retrain
from hnets.studies.scoring import WAYS, score_results
from hnets.studies.tables import EDGES, TABLE2, FrontPoint, edge_front
from hnets.train import Recipe, read_recipe, shipped_recipes
from hnets.train.result import WEIGHTS
from photographs import put

RECIPES = list(dict.fromkeys([*TABLE2.recipes, *EDGES.shipped()]))


def test_every_row_that_is_run_has_a_recipe_and_the_table_has_the_papers_numbers() -> None:
    assert {*TABLE2.recipes, *EDGES.recipes} <= set(shipped_recipes())
    assert [row.published for row in TABLE2.rows[:4]] == [
        (0.640, 0.650),
        (0.697, 0.709),
        (0.702, 0.715),
        (0.726, 0.742),
    ]


@pytest.mark.parametrize("name", RECIPES)
def test_a_shipped_result_is_of_the_shipped_recipe_and_adds_up(name: str) -> None:
    result = retrain.read_result(name)
    assert result is not None
    recipe = Recipe.from_dict(result["recipe"])
    assert recipe == read_recipe(name), "train again: the recipe has changed"
    model = create_model(recipe.model.name)
    assert result["parameters"] == sum(p.numel() for p in model.parameters())
    assert result["data"]["test"]["images"] == 200
    assert result["data"]["train+val"]["images"] == 300
    assert result["thresholds"] == 99
    for way, scores in result["scores"].items():
        for score, summary in scores.items():
            values = [seed["scores"][way][score] for seed in result["seeds"]]
            assert summary["mean"] == pytest.approx(sum(values) / len(values))


def test_the_front_page_has_the_numbers_of_the_results() -> None:
    front = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8").replace("**", "")
    for row in TABLE2.rows:
        if row.recipe:
            method, parameters, published, here, suppressed, *_ = TABLE2.cells(
                row, retrain.read_result(row.recipe)
            )
            expected = " | ".join([method, parameters, published, here, suppressed])
            assert f"| {expected} |" in front


@pytest.mark.parametrize("recipe", ["bsds500-hdsn", *EDGES.shipped()])
def test_the_shipped_weights_are_of_a_seed_of_the_result(recipe: str) -> None:
    result = retrain.shipped_result(recipe)
    card = model_card(result["recipe"]["model"]["name"])
    of_seed = {seed["seed"]: seed["scores"] for seed in result["seeds"]}
    assert card["metrics"]["test"] == of_seed[card["recipe"]["seed"]]
    assert card["data"] == result["data"]


def test_the_shipped_weights_find_what_people_drew(data_folder: Path) -> None:
    """Two photographs at nine thresholds: far from chance, whatever the photographs are."""
    if not (data_folder / "BSDS500").is_dir():
        pytest.skip("needs BSDS500 in HNETS_DATA")
    from hnets.metrics.berkeley import count, summarise

    detector = EdgeDetector()
    some = bsds.photos("test")[::100]
    counts = [count(detector(photo.image()), photo.boundaries(), 9) for photo in some]
    assert summarise(counts).ods.f > 0.6


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setitem(bsds.SIZES, "test", 2)
    monkeypatch.setenv("HNETS_DATA", str(tmp_path))
    for name in ("1", "2"):
        put(tmp_path, name)
    return tmp_path


def _trained(name: str, out: Path) -> retrain.StoredResult:
    """A result as a training leaves it, of a network that has learned nothing."""
    recipe = read_recipe(name)
    torch.manual_seed(0)
    model = create_model(recipe.model.name)
    (out / name / "seed-1").mkdir(parents=True)
    save(model, out / name / "seed-1" / WEIGHTS)
    return {"recipe": recipe.to_dict(), "parameters": 5, "seeds": [{"seed": 1}]}


def _score(results: dict[str, retrain.StoredResult], out: Path) -> dict[str, retrain.StoredResult]:
    quiet = Console(quiet=True)
    with ThreadPoolExecutor(1) as pool:
        return score_results(results, out, torch.device("cpu"), 9, list(WAYS), pool, quiet)


def test_weights_become_maps_and_scores_and_a_row_of_the_table(small: Path) -> None:
    out = small / "runs"
    results = {name: _trained(name, out) for name in ("bsds500-hdsn", "bsds500-hed-low")}
    scored = _score(results, out)
    ours, plain = scored["bsds500-hdsn"], scored["bsds500-hed-low"]
    assert list(ours["scores"]) == list(WAYS)
    assert list(plain["scores"]) == ["none", "standard", "scales"]  # it knows no orientation
    assert 0 <= ours["scores"]["none"]["ods"]["mean"] <= 1
    assert retrain.read_result("bsds500-hdsn", out) == json.loads(json.dumps(ours))
    console = Console(file=io.StringIO(), width=120)
    console.print(TABLE2.terminal(scored).rich())
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert f"{plain['scores']['standard']['ods']['mean']:.3f}".removeprefix("0") in text
    assert "Kivinen" in text


def test_what_is_scored_is_not_scored_again(small: Path) -> None:
    out = small / "runs"
    done = _score({"bsds500-hed-low": _trained("bsds500-hed-low", out)}, out)
    (out / "bsds500-hed-low/seed-1" / WEIGHTS).unlink()
    assert _score(done, out) == done
    del done["bsds500-hed-low"]["scores"]
    with pytest.raises(InputError, match=r"no trained weights in .*; train again with --train"):
        _score(done, out)


def test_a_way_or_a_number_of_thresholds_that_is_new_is_scored(small: Path) -> None:
    out, cpu, quiet, name = small / "runs", torch.device("cpu"), Console(quiet=True), "bsds500-hdsn"
    results = {name: _trained(name, out)}

    def score(thresholds: int, *ways: str) -> retrain.StoredResult:
        with ThreadPoolExecutor(1) as pool:
            results[name] = score_results(results, out, cpu, thresholds, ways, pool, quiet)[name]
        return results[name]

    first = json.loads(json.dumps(score(9, "none")["seeds"][0]["scores"]))
    both = score(9, "none", "standard")
    assert list(both["scores"]) == ["none", "standard"]
    assert both["seeds"][0]["scores"]["none"] == first["none"]
    other = score(3, "none")
    assert (other["thresholds"], list(other["scores"])) == (3, ["none"])
    assert other["seeds"][0]["scores"]["none"] != first["none"]


def test_without_numba_the_message_says_how_to_continue(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    for name in [name for name in sys.modules if name.startswith("hnets.metrics")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(
        InputError, match=r"need numba.*trained is in .*: continue with --train --resume"
    ):
        _score({"bsds500-hed-low": _trained("bsds500-hed-low", small / "runs")}, small / "runs")


def test_the_front_has_the_published_detectors_and_those_that_were_scored(small: Path) -> None:
    """Of a network that has learned nothing, its scores and its cost."""
    name = "bsds500-hedge-tiny"
    scored = _score({name: _trained(name, small / "runs")}, small / "runs")
    assert scored[name]["cost"]["multiplications"] == 3_422_412_664
    points = {point.name: point for point in edge_front(scored)}
    assert (points["PiDiNet"].ods, points["PiDiNet"].parameters) == (0.789, 710_000)
    assert points["tiny"].ods == scored[name]["scores"]["standard"]["ods"]["mean"]
    assert "base" not in points


def test_the_figure_joins_detectors_that_no_cheaper_one_matches() -> None:
    points = [
        FrontPoint("cheap", 0.7, 1000, 1.0, ours=True),
        FrontPoint("no better", 0.7, 2000, None, ours=False),
        FrontPoint("best", 0.8, 3000, 0.5, ours=False),
    ]
    left, right = front_figure(points).axes
    for axes, expected in ((left, [[1000, 0.7], [3000, 0.8]]), (right, [[0.5, 0.8]])):
        front = next(line for line in axes.lines if line.get_label() == "front")
        assert np.asarray(front.get_xydata()).tolist() == expected
    shown = {text.get_text() for text in left.get_legend().get_texts()}
    assert shown == {"trained here", "as published", "front"}


def test_the_edges_as_they_ship(hnets_command: Command, tmp_path: Path) -> None:
    done = hnets_command("reproduce", "edges", "--out", str(tmp_path))
    assert done.code == 0, done.err
    assert re.search(r"PiDiNet ‡ +│ +710k │ +\.807 │ +\.823 │ +\.834 │", done.out)
    assert (tmp_path / "front.png").is_file()


def test_the_table_as_it_ships(hnets_command: Command) -> None:
    done = hnets_command("reproduce", "table2")
    assert done.code == 0, done.err
    result = retrain.read_result("bsds500-hdsn")
    assert result is not None
    assert f"{result['scores']['none']['ods']['mean']:.3f}".removeprefix("0") in done.out
    assert ".726/.742" in done.out


def test_a_row_that_does_not_exist(hnets_command: Command) -> None:
    done = hnets_command("reproduce", "table2", "--rows", "zebra")
    assert done.code == 2
    assert "expected recipes of the table (bsds500-hed," in done.err
