"""`hnets bench-edges`: what the command prints and writes."""

import functools
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from commands import Command
from hnets.data import bsds

NAMES = ("12", "7", "90")
HEIGHT, WIDTH = 48, 64


def line(column: int) -> np.ndarray:
    mask = np.zeros((HEIGHT, WIDTH), bool)
    mask[:, column] = True
    return mask


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny BSDS500, in each photograph two people who drew a line, and a folder of maps of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HNETS_DATA", str(tmp_path))
    monkeypatch.setitem(bsds.SIZES, "test", len(NAMES))
    data = tmp_path / "BSDS500/data"
    for folder in ("images/test", "groundTruth/test"):
        (data / folder).mkdir(parents=True)
    (tmp_path / "maps").mkdir()
    for k, name in enumerate(NAMES):
        truth = np.empty((1, 2), object)
        for person in range(2):
            truth[0, person] = {"Boundaries": line(20 + k).astype(np.uint8)}
        Image.new("RGB", (WIDTH, HEIGHT)).save(data / f"images/test/{name}.jpg")
        savemat(data / f"groundTruth/test/{name}.mat", {"groundTruth": truth})
        soft = 0.8 * line(20 + k) + 0.2 * line(40)
        Image.fromarray((soft * 255).astype(np.uint8)).save(tmp_path / f"maps/{name}.png")
    return tmp_path


@pytest.fixture
def bench_edges(here: Path, hnets_command: Command) -> Command:
    return functools.partial(hnets_command, "bench-edges")


@pytest.mark.filterwarnings("error")
def test_maps_without_an_edge_have_a_curve_of_no_points(bench_edges: Command, here: Path) -> None:
    for name in NAMES:
        Image.new("L", (WIDTH, HEIGHT)).save(here / f"maps/{name}.png")
    done = bench_edges("maps", "--thresholds", "3", "--nms", "none")
    assert done.code == 0, done.err
    assert re.search(r"none +│ 0\.0000 │ 0\.0000 │", done.out), done.out
    assert "legend" not in done.err


def test_scores_of_a_folder(bench_edges: Command, here: Path) -> None:
    code, out, _ = bench_edges("maps", "--thresholds", "9", "--jobs", "2")
    assert code == 0, out
    assert re.search(r"none +│ 1\.0000 │ 1\.0000 │", out), out
    assert re.search(r"standard +│ 0\.9", out), out
    assert "people, each against the others: F 0.803" in out
    facts = json.loads((here / "maps-scores/scores.json").read_text())
    assert (facts["data"], facts["thresholds"]) == ("BSDS500 test", 9)
    assert list(facts["suppression"]) == ["none", "standard"]
    plain = facts["suppression"]["none"]
    assert plain["ods"]["f"] == 1
    assert 0.2 < plain["ods"]["threshold"] < 0.8
    assert (len(plain["curve"]), set(plain["images"])) == (9, set(NAMES))
    with Image.open(here / "maps-scores/precision-recall.png") as figure:
        figure.load()


def test_one_core_and_many_agree(bench_edges: Command, here: Path) -> None:
    for jobs in ("1", "3"):
        bench_edges("maps", "--thresholds", "5", "--jobs", jobs, "--out", jobs, "--nms", "none")
    assert (here / "1/scores.json").read_text() == (here / "3/scores.json").read_text()


def test_all_that_is_wrong_is_named_before_any_work(
    bench_edges: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hnets.metrics import benchmark

    def no_work(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(benchmark, "count", no_work)
    (here / "maps/12.png").unlink()
    np.save(here / "maps/7.npy", np.zeros((WIDTH, HEIGHT)))
    (here / "maps/7.png").unlink()
    (here / "maps/90.png").write_bytes(b"not an image")
    code, out, err = bench_edges("maps")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "1 of 3 maps are missing (12; a map is called NAME.png, NAME.npy" in err
    assert (
        "2 cannot be used (7.npy is 48×64 pixels in place of 64×48, 90.png is not an edge map"
        in err
    )
    assert not (here / "maps-scores").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.full((HEIGHT, WIDTH), 2.0), r"12.npy has values from 2 to 2, not in \[0, 1\]"),
        (np.full((HEIGHT, WIDTH), np.nan), r"12.npy has values from nan to nan"),
        (np.zeros((HEIGHT, WIDTH, 3)), r"12.npy has the shape \(48, 64, 3\) in place of"),
        (np.zeros((HEIGHT, WIDTH), complex), "12.npy holds complex128 in place of floats"),
        (np.array([{}]), "12.npy is not an edge map, or damaged"),
    ],
)
def test_bad_maps(bench_edges: Command, here: Path, values: np.ndarray, message: str) -> None:
    (here / "maps/12.png").unlink()
    np.save(here / "maps/12.npy", values, allow_pickle=True)
    code, out, err = bench_edges("maps")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err), err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "Missing argument"),
        ("nowhere", "there is no folder nowhere; give the one with the maps"),
        ("maps --nms standrad", "expected --nms to name some of none, standard, .*'standrad'"),
        ("maps --thresholds 0", "expected a whole number from 1 to 999, got '0'"),
        ("maps --jobs none", "expected a whole number from 1 to 1024, got 'none'"),
        ("maps --split tset", r"there is no split 'tset'; did you mean 'test'\?"),
        ("maps --split val", "has 0 photographs in place of 100"),
        ("maps --out maps/7.png", "expected a folder to write to, got 'maps/7.png'"),
        ("twice", "7.png and 7.npy are maps of one photograph"),
    ],
)
def test_bad_input(bench_edges: Command, here: Path, arguments: str, message: str) -> None:
    (here / "twice").mkdir()
    for name in NAMES:
        Image.fromarray(line(3)).save(here / f"twice/{name}.png")
    np.save(here / "twice/7.npy", line(3))
    code, out, err = bench_edges(*arguments.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert re.search(message, err), err


@pytest.mark.parametrize("package", ["matplotlib", "numba"])
def test_a_missing_package_is_named_with_its_remedy(
    bench_edges: Command, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith((f"{package}.", "hnets.metrics")) or name == package:
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    code, out, err = bench_edges("maps")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"need {package}: pip install" in err


def test_a_damaged_set_stops_the_work(bench_edges: Command, here: Path) -> None:
    (here / "BSDS500/data/groundTruth/test/7.mat").write_bytes(b"")
    code, _, err = bench_edges("maps", "--jobs", "1")
    assert (code, err.count("\n")) == (2, 1)
    assert "does not hold the boundaries of 7.jpg" in err
