"""hnets digits: a table or JSON, a figure, and one line for what is wrong."""

import functools
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import hnets
from commands import Command
from drawings import drawn
from hnets.errors import InputError
from hnets.models import _weights as store
from hnets.predict import DigitClassifier
from hnets.predict.digit_classifier import DEFAULT

BLANK = r"no digit is visible in {}: give an image of one digit, dark on light or light on dark"
INFO = {"recipe": {}, "data": {}, "metrics": {}, "commit": ""}


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> nn.Module:
    """Random weights, in a folder that stands for that of the package."""
    folder = tmp_path / "weights"
    torch.manual_seed(0)
    net = hnets.create_model(DEFAULT)
    hnets.save(net, folder / f"{DEFAULT}.safetensors", card=INFO)
    monkeypatch.setattr(store, "FOLDER", folder)
    return net


@pytest.fixture
def command(hnets_command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    return functools.partial(hnets_command, "digits")


def test_without_weights_the_command_says_so(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "FOLDER", tmp_path)
    drawn().save("seven.png")
    done = command("seven.png")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"no trained weights for {DEFAULT}" in done.err
    with pytest.raises(InputError, match=f"no trained weights for {DEFAULT}"):
        DigitClassifier()


@pytest.mark.parametrize("path", ["digits.png", "here/../digits.png"])
def test_the_figure_does_not_replace_an_image(command: Command, path: str) -> None:
    Path("here").mkdir()
    drawn().save("digits.png")
    content = Path("digits.png").read_bytes()
    done = command(path)
    assert (done.code, done.out) == (2, "")
    assert "--out: expected another file than the input, got 'digits.png'" in done.err
    assert Path("digits.png").read_bytes() == content
    assert command(path, "--no-figure").code == 0


def test_json_is_printed_if_no_digit_is_seen(command: Command) -> None:
    Image.new("L", (40, 40)).save("blank.png")
    done = command("blank.png", "--json")
    assert (done.code, json.loads(done.out), done.err.count("\n")) == (2, [], 1)


def test_a_network_is_taken_by_name_if_it_reads_digits(command: Command) -> None:
    drawn().save("seven.png")
    done = command("seven.png", "--model", "z2cnn", "--json", "--no-figure")
    assert done.code == 0
    assert json.loads(done.out)[0]["digit"] == DigitClassifier("z2cnn").classify([drawn()])[0].digit
    for name, message in {
        "hdsn": f"expected a network that reads digits, such as {DEFAULT}, got hdsn",
        "p4cnn": "there are no trained weights for p4cnn",
        "hnet_mnis": "no model is called 'hnet_mnis', nor is there such a file; did you mean "
        "'hnet_mnist'?",
    }.items():
        done = command("seven.png", "--model", name)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert message in done.err


def test_the_default_is_the_pretrained_network(shipped: nn.Module) -> None:
    default, same = DigitClassifier(), DigitClassifier(shipped)
    (a,), (b,) = (one.classify([drawn()]) for one in (default, same))
    assert np.array_equal(a.probabilities, b.probabilities)


@pytest.mark.usefixtures("shipped")
def test_images_and_folders_are_read_in_order(command: Command) -> None:
    Path("more").mkdir()
    drawn("2").save("more/b.png")
    drawn("5").save("more/a [1].JPG", format="jpeg")
    Path("more/notes.txt").write_text("no image")
    drawn("7").convert("RGB").save("seven.webp")
    done = command("seven.webp", "more")
    assert (done.code, done.err) == (0, "")
    places = [done.out.index(name) for name in ("seven.webp", "more/a [1].JPG", "more/b.png")]
    assert places == sorted(places)
    assert done.out.count(" of 36") == 3
    assert done.out.rstrip().endswith("wrote digits.png")
    with Image.open("digits.png") as image:
        image.load()
        assert min(image.size) > 600


@pytest.mark.usefixtures("shipped")
def test_names_of_files_in_other_scripts_or_not_in_utf8(command: Command) -> None:
    """The figure shows what it can of them, and nothing is said about the rest."""
    names = ["数字.png", "$_{.png", os.fsdecode(b"\xff.png")]
    for name in names:
        try:
            drawn().save(name, format="png")
        except OSError:
            pytest.skip("this file system takes UTF-8 only")
    done = command(*names)
    assert (done.code, done.err) == (0, "")
    assert Path("digits.png").is_file()


@pytest.mark.usefixtures("shipped")
def test_json_is_all_that_is_printed(command: Command) -> None:
    drawn().save("seven.png")
    done = command("seven.png", "--json", "--no-figure")
    assert (done.code, done.err) == (0, "")
    (facts,) = json.loads(done.out)
    expected = DigitClassifier().rotated(drawn())
    assert (facts["file"], facts["digit"]) == ("seven.png", expected.original.digit)
    assert facts["confidence"] == pytest.approx(expected.original.confidence, abs=1e-5)
    np.testing.assert_allclose(facts["probabilities"], expected.original.probabilities, atol=1e-5)
    assert facts["rotated"]["angles"] == list(range(0, 360, 10))
    assert facts["rotated"]["digits"] == expected.digits.tolist()
    assert facts["rotated"]["share"] == pytest.approx(expected.share, abs=1e-5)
    assert facts["rotated"]["lowest"] == pytest.approx(expected.lowest, abs=1e-5)
    assert not Path("digits.png").exists()
    done = command("seven.png", "--json", "--out", "figures/seven.svg")
    assert len(json.loads(done.out)) == 1
    assert done.err == "wrote figures/seven.svg\n"
    assert Path("figures/seven.svg").stat().st_size > 1000


@pytest.mark.usefixtures("shipped")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "Missing argument .*; see hnets digits --help"),
        ("missing.png", r"there is no file missing\.png; give the path of an image"),
        ("blank.png", BLANK.format(r"blank\.png")),
        ("text.png", r"text\.png is not an image that can be read"),
        ("small.png", r"small\.png is 12×12 pixels, and at least 16×16 are needed"),
        ("empty", "there is no image in the folder empty; expected files that end in .png"),
        ("fine.png --out x.png --no-figure", "expected --out or --no-figure, got both"),
        ("fine.png --out x.jpg", r"expected a file that ends in .*, got 'x\.jpg'"),
        ("fine.png --out text.png/x.png", r"expected a folder to write to, got 'text\.png'"),
    ],
)
def test_bad_input_is_one_line_and_the_other_images_are_read(
    command: Command, arguments: str, message: str
) -> None:
    drawn().save("fine.png")
    Image.new("L", (40, 40)).save("blank.png")
    Image.new("L", (12, 12)).save("small.png")
    Path("text.png").write_text("no image")
    Path("empty").mkdir()
    done = command(*arguments.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert re.search(message, done.err), done.err
    assert not Path("digits.png").exists()
    if arguments and "fine" not in arguments:
        done = command("fine.png", *arguments.split(), "--json", "--no-figure")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert re.search(message, done.err), done.err
        assert [facts["file"] for facts in json.loads(done.out)] == ["fine.png"]


@pytest.mark.usefixtures("shipped")
def test_digits_are_read_without_matplotlib(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    drawn().save("seven.png")
    for arguments, code in (([], 0), (["--figure"], 2), (["--out", "seven.svg"], 2)):
        done = command("seven.png", "--json", *arguments)
        assert done.code == code
        assert json.loads(done.out)[0]["file"] == "seven.png"
        assert done.err == 'hnets: figures need matplotlib: pip install "hnets[plot]"\n'
    done = command("seven.png", "--no-figure")
    assert (done.code, done.err) == (0, "")


def test_help_says_what_six_and_nine_are(command: Command) -> None:
    done = command("--help")
    assert "A 6 and a 9 are rotations of each other by 180°" in done.out
