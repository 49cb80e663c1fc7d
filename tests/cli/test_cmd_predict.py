"""hnets predict: from a folder of images to a network, and from the network to other images."""

import csv
import functools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

import hnets
from commands import Command
from hnets.cli import cmd_predict

SHORT = ["--set", "training.epochs=1", "--set", "schedule.warmup=0", "--device", "cpu"]


def draw(path: Path, disc: bool, kind: str = "RGB") -> None:
    """A bright disc or bar on dark ground."""
    image = Image.new(kind, (40, 30), 0)
    shape = [14, 9, 26, 21] if disc else [4, 12, 36, 16]
    pen, white = ImageDraw.Draw(image), 255 if kind == "L" else (255, 255, 255)
    (pen.ellipse if disc else pen.rectangle)(shape, fill=white)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


@pytest.fixture
def command(hnets_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("HNETS_CACHE", str(tmp_path / "cache"))
    return hnets_command


@pytest.fixture
def classes(command: Command) -> Command:
    """The command, with a network that learned two classes of shapes."""
    for number in range(8):
        for disc in (True, False):
            draw(Path("shapes", "disc" if disc else "bar", f"{number}.png"), disc)
    small = ["--set", "data.size=16", "--set", "data.channels=1", "--set", "training.batch=4"]
    small += ["--set", "model.name=hresnet10", "--set", "data.name=shapes"]
    done = command("train", "pictures-small", *small, *SHORT)
    assert done.code == 0, done.err
    assert done.out.endswith("for other images: hnets predict runs/pictures-small IMAGE...\n")
    return functools.partial(command, "predict", "runs/pictures-small")


@pytest.fixture
def masks(command: Command) -> Command:
    """The command, with a network that learned where discs are."""
    for number in range(6):
        draw(Path("cells", "images", f"{number}.png"), True)
        draw(Path("cells", "masks", f"{number}.png"), True, "L")
    small = ["--set", "data.size=32", "--set", "model.options.width=1", "--set", "training.batch=2"]
    done = command("train", "pictures-segment", "--set", "data.name=cells", *small, *SHORT)
    assert done.code == 0, done.err
    return functools.partial(command, "predict", "runs/pictures-segment")


def test_classes_of_new_images(classes: Command) -> None:
    draw(Path("new", "[a].png"), True)
    draw(Path("new", "b.png"), False)
    Path("new", "broken.png").write_bytes(b"broken")
    done = classes("new", "-o", "new.csv")
    assert done.code == 2
    assert done.err.startswith("hnets: new/broken.png is not an image")
    assert done.err.count("\n") == 1
    assert "new/[a].png" in done.out
    assert "wrote new.csv" in done.out
    with open("new.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["file"] for row in rows] == ["new/[a].png", "new/b.png"]
    classifier = hnets.ImageClassifier("runs/pictures-small")
    expected = classifier("new/b.png")
    assert rows[1]["class"] == expected.name
    assert float(rows[1]["bar"]) + float(rows[1]["disc"]) == pytest.approx(1, abs=1e-5)
    done = classes("new/b.png", "--json")
    assert done.code == 0
    (facts,) = json.loads(done.out)
    assert facts["class"] == expected.name
    assert facts["confidence"] == pytest.approx(expected.confidence, abs=1e-5)


def test_a_table_grows_and_a_job_that_was_stopped_goes_on(
    classes: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        draw(Path("new", f"{number}.png"), number % 2 == 0)
    monkeypatch.setattr(cmd_predict, "PORTION", 1)
    predictions, seen = hnets.ImageClassifier.predictions, list[int]()

    def stopped(self: hnets.ImageClassifier, prepared: Any) -> Any:
        seen.append(len(prepared))
        if len(seen) == 3:
            raise KeyboardInterrupt
        return predictions(self, prepared)

    monkeypatch.setattr(hnets.ImageClassifier, "predictions", stopped)
    assert classes("new", "-o", "new.csv").code == 130
    assert not Path("new.csv").exists()
    assert Path("new.csv.part").read_text().count("\n") == 3
    done = classes("new", "-o", "new.csv")
    assert done.code == 2
    assert done.err.startswith("hnets: new.csv.part has the rows of a job that was stopped; add")
    done = classes("new", "-o", "new.csv", "--skip-existing")
    assert (done.code, done.err, len(seen)) == (0, "", 5)
    assert done.out.endswith("wrote 2 rows to new.csv: 0 failed, 2 skipped\n")
    with open("new.csv", newline="") as file:
        assert [row["file"] for row in csv.DictReader(file)] == [f"new/{n}.png" for n in range(4)]
    assert not Path("new.csv.part").exists()
    done = classes("new", "-o", "new.csv", "--skip-existing", "--json")
    assert (done.code, json.loads(done.out)) == (0, [])
    assert done.err == "wrote 0 rows to new.csv: 0 failed, 4 skipped\n"
    other = ("./new/0.png", str(Path("new/1.png").absolute()), "new/../new/2.png")
    done = classes(*other, "-o", "new.csv", "--skip-existing")
    assert done == (0, "wrote 0 rows to new.csv: 0 failed, 3 skipped\n", "")


def test_names_that_are_not_utf8_are_written_as_they_are(classes: Command) -> None:
    draw(Path("a.png"), True)
    name = os.fsdecode(b"\xff.png")
    try:
        Path("a.png").rename(name)
    except OSError:
        pytest.skip("this file system takes UTF-8 only")
    done = classes(name, "-o", "new.csv")
    assert done.code == 0, done.err
    assert Path("new.csv").read_bytes().splitlines()[1].startswith(b"\xff.png,")


def test_json_is_printed_if_no_image_can_be_read(classes: Command) -> None:
    Path("broken.png").write_bytes(b"broken")
    done = classes("broken.png", "--json", "-o", "new.csv")
    assert done.code == 2
    assert json.loads(done.out) == []
    assert not Path("new.csv").exists()


def test_masks_of_new_images(masks: Command) -> None:
    for name in ("a", "b"):
        draw(Path("new", name, "x.png"), True)
    Path("new", "broken.png").write_bytes(b"broken")
    done = masks("new", "-o", "found", "--overlay", "--probability")
    assert done.code == 2
    assert done.err.startswith("hnets: new/broken.png is not an image")
    written = sorted(str(path) for path in Path("found").rglob("*.png"))
    kinds = ("mask", "overlay", "probability")
    assert written == [f"found/{name}/x.{kind}.png" for name in "ab" for kind in kinds]
    expected = hnets.Segmenter("runs/pictures-segment").draw("new/a/x.png", "mask")
    found = Image.open("found/a/x.mask.png")
    assert found.size == (40, 30)
    assert (np.asarray(found) == np.asarray(expected)).all()
    Path("found/b/x.overlay.png").unlink()
    done = masks("new", "-o", "found", "--overlay", "--skip-existing")
    assert done.code == 2
    assert done.out.endswith("wrote 2 files in found: 1 failed, 1 skipped\n")
    assert Path("found/b/x.overlay.png").exists()
    done = masks("new/a", "--json")
    assert done.code == 0
    (facts,) = json.loads(done.out)
    assert facts["written"] == ["predict-out/x.mask.png"]
    assert facts["marked"] == pytest.approx(float((np.asarray(found) > 0).mean()), abs=1e-5)


def test_what_is_wrong_is_one_line(classes: Command, command: Command) -> None:
    draw(Path("a.png"), True)
    for arguments, message in (
        (["nowhere.png"], "there is no file nowhere.png"),
        (["a.png", "--overlay"], "--overlay is for masks, and runs/pictures-small learned classes"),
        (
            ["a.png", "-o", "a.txt"],
            "for --out: expected a file that ends in .csv, got 'a.txt'",
        ),
        (["a.png", "--skip-existing"], "--skip-existing needs the .csv file to go on with"),
    ):
        done = classes(*arguments)
        assert done.code == 2
        assert message in done.err
        assert done.err.count("\n") == 1
    done = command("predict", "hedge_tiny", "a.png")
    assert done.code == 2
    assert "expected a network that hnets train trained on a folder of images" in done.err
    assert not Path("predict-out").exists()
