"""Pictures of digits: found in any guise, turned without blur, and answered by the network."""

import functools
import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from torch import Tensor, nn

import hnets
from commands import Command
from hnets import plot as inspect
from hnets.data.image_file import ImageError
from hnets.errors import InputError
from hnets.models import _weights as store
from hnets.predict import (
    DigitClassifier,
    DigitPrediction,
    as_digit,
    ink,
)
from hnets.predict.digit_classifier import DEFAULT
from networks import digits

BLANK = r"no digit is visible in {}: give an image of one digit, dark on light or light on dark"
STROKES = {
    "7": [[(0.2, 0.1), (0.8, 0.1), (0.45, 0.9)]],
    "2": [[(0.25, 0.25), (0.45, 0.1), (0.7, 0.2), (0.65, 0.45), (0.25, 0.9), (0.8, 0.9)]],
    "5": [[(0.35, 0.12), (0.75, 0.12)], [(0.35, 0.22), (0.32, 0.5), (0.6, 0.45), (0.72, 0.65),
                                         (0.55, 0.88), (0.25, 0.85)]],
}  # fmt: skip


def drawn(
    digit: str = "7",
    size: tuple[int, int] = (320, 240),
    height: float = 160,
    at: tuple[float, float] = (0.5, 0.5),
    width: float = 0.11,
    paper: float = 0.9,
    ink: float = 0.1,
    light: float = 0.0,
    noise: float = 0.0,
) -> Image.Image:
    """A digit of straight strokes; ``light`` is what is lost of it at the far corner."""
    fine = 4 if max(size) < 1000 else 1
    mask = Image.new("L", (size[0] * fine, size[1] * fine))
    draw = ImageDraw.Draw(mask)
    thick = height * width * fine
    for stroke in STROKES[digit]:
        points = [
            (
                fine * (size[0] * at[0] + height * (x - 0.5)),
                fine * (size[1] * at[1] + height * (y - 0.5)),
            )
            for x, y in stroke
        ]
        draw.line(points, fill=255, width=max(1, round(thick)))
        for x, y in points:
            draw.ellipse(
                (x - thick / 2, y - thick / 2, x + thick / 2, y + thick / 2), fill=255
            )  # fmt: skip
    covered = np.asarray(mask.reduce(fine), dtype=np.float64) / 255
    down, across = (np.linspace(0, 1, n) for n in covered.shape)
    shade = 1 - light * (0.6 * across[None, :] + 0.4 * down[:, None])
    values = shade * (paper + (ink - paper) * covered)
    values += noise * np.random.default_rng(0).standard_normal(values.shape)
    return Image.fromarray((np.clip(values, 0, 1) * 255).round().astype(np.uint8))


def difference(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """The sum of differences, as a part of the ink."""
    return float(np.abs(a - b).sum() / b.sum())


# What the network sees ----------------------------------------------------------------------------


@pytest.mark.parametrize("digit", STROKES)
def test_a_digit_is_centred_and_scaled_as_in_mnist(digit: str) -> None:
    seen = as_digit(drawn(digit))
    assert (seen.shape, seen.dtype) == ((28, 28), np.float32)
    assert seen.min() == 0
    assert 0.99 < seen.max() <= 1
    y, x = np.nonzero(seen > 0.5)
    angles = np.radians(np.arange(0, 180, 5))
    along = np.outer(np.cos(angles), x) + np.outer(np.sin(angles), y)
    assert np.ptp(along, axis=1).max() + 0.9 == pytest.approx(21.7, abs=1)
    for axis in (0, 1):
        assert (seen.sum(axis) * np.arange(28)).sum() / seen.sum() == pytest.approx(13.5, abs=0.1)
    assert seen[[0, 0, -1, -1], [0, -1, 0, -1]].max() == 0


@pytest.mark.parametrize(
    ("guise", "bound"),
    [
        ({"paper": 0.1, "ink": 0.9}, 0.02),
        ({"paper": 0.0, "ink": 1.0}, 0.02),
        ({"paper": 0.7, "ink": 0.6}, 0.05),
        ({"light": 0.6}, 0.05),
        ({"light": 0.6, "noise": 0.04}, 0.15),
        ({"light": 0.5, "paper": 0.25, "ink": 0.9}, 0.15),
        ({"noise": 0.1}, 0.2),
        ({"at": (0.3, 0.42)}, 0.1),
        ({"size": (2000, 1500), "height": 1000}, 0.1),
        ({"size": (2000, 1500), "height": 260, "at": (0.8, 0.2), "noise": 0.03}, 0.2),
        ({"size": (40, 30), "height": 26}, 0.2),
        ({"size": (60, 160), "height": 60}, 0.1),
        ({"size": (116, 148), "light": 0.3}, 0.15),  # touches the edge
    ],
    ids=str,
)
@pytest.mark.parametrize("digit", ["7", "5"])
def test_the_digit_is_the_same_in_any_guise(
    digit: str, guise: dict[str, float], bound: float
) -> None:
    assert difference(as_digit(drawn(digit, **guise)), as_digit(drawn(digit))) < bound


@pytest.mark.parametrize("digit", STROKES)
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_quarter_turns_are_exact(digit: str, degrees: int) -> None:
    picture = drawn(digit, size=(240, 240))
    expected = np.rot90(as_digit(picture), degrees // 90)
    assert difference(as_digit(picture, degrees), expected) < 1e-6
    assert difference(as_digit(picture.rotate(degrees)), expected) < 0.02


@pytest.mark.parametrize("degrees", [17, 37, 45, 200])
def test_a_turned_picture_gives_the_turned_digit(degrees: int) -> None:
    picture = drawn(size=(300, 300))
    turned = picture.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=round(0.9 * 255))
    assert difference(as_digit(turned), as_digit(picture, degrees)) < 0.08


def test_turning_does_not_blur() -> None:
    picture = drawn("2")
    sharpness = [float((as_digit(picture, a) ** 2).sum()) for a in range(0, 360, 15)]
    assert np.ptp(sharpness) / np.mean(sharpness) < 0.03


@pytest.mark.parametrize("width", [0.015, 0.03, 0.06, 0.3])
def test_strokes_of_any_width_are_brought_to_an_ordinary_one(width: float) -> None:
    pixels = [
        float(as_digit(drawn(width=w, size=(640, 480), height=320)).sum()) for w in (width, 0.11)
    ]
    assert 0.6 < pixels[0] / pixels[1] < 1.6


def test_specks_and_what_looks_in_at_the_edge_are_left_out() -> None:
    clean = drawn("5", noise=0.01)
    dirty = clean.copy()
    draw = ImageDraw.Draw(dirty)
    draw.rectangle((0, 0, 14, 240), fill=20)  # the table
    draw.ellipse((280, 200, 288, 208), fill=10)
    draw.line((40, 20, 60, 30), fill=30, width=2)
    assert difference(as_digit(dirty), as_digit(clean)) < 0.05


def test_both_parts_of_a_digit_are_kept() -> None:
    picture = drawn("5")
    whole, lower = as_digit(picture), picture.copy()
    lower.paste(round(0.9 * 255), (0, 0, 320, 72))  # without its bar
    assert difference(as_digit(lower), whole) > 0.3


def test_parts_are_those_of_scipy() -> None:
    label = pytest.importorskip("scipy.ndimage").label
    random = np.random.default_rng(0)
    for share in (0.05, 0.3, 0.5, 0.6, 1.0):
        mask = random.random((40, 61)) < share
        expected, count = label(mask, np.ones((3, 3)))
        found = ink._labels(mask)
        pairs = set(zip(expected.ravel().tolist(), found.ravel().tolist(), strict=True))
        assert len(pairs) == len(set(expected.ravel())) == len(set(found.ravel()))
        assert found.max() == count


@pytest.mark.parametrize(
    "blank",
    [
        Image.new("L", (64, 48)),
        Image.new("RGB", (64, 48), "white"),
        Image.new("L", (900, 700), 128),
        drawn(width=0, height=0.01, light=0.7),
        drawn(width=0, height=0.01, noise=0.05, light=0.3),
        drawn(width=0, height=0.01, paper=0.1, noise=0.05),
        drawn(width=0.8, height=2),
        Image.new("RGBA", (64, 64), (0, 0, 0, 0)),
    ],
    ids=["black", "white", "grey", "light", "grain", "dark grain", "speck", "transparent"],
)
def test_a_blank_picture_is_refused(blank: Image.Image) -> None:
    with pytest.raises(ImageError, match=BLANK.format(r"page\.png")):
        as_digit(blank, name="page.png")


def test_arrays_and_modes_are_read_alike() -> None:
    picture = drawn()
    values = np.asarray(picture)
    expected = as_digit(picture)
    others: list[Image.Image | NDArray[np.generic]] = [
        values,
        values[:, :, None].repeat(3, 2),
        values.astype(np.float32) / 255,
        values.astype(np.float64) / 255,
        picture.convert("RGB"),
        picture.convert("P"),
        Image.fromarray(values.astype(np.uint16) * 200),
    ]
    for other in others:
        assert difference(as_digit(other), expected) < 0.02
    clear = Image.new("RGBA", picture.size, (0, 0, 0, 0))
    clear.putalpha(picture.point(lambda v: 255 if v < 128 else 0))
    assert difference(as_digit(clear), expected) < 0.1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.zeros((3, 32, 32), np.uint8), r"got \(3, 32, 32\); put the colours last"),
        (np.zeros(9, np.uint8), r"got \(9,\)"),
        (np.zeros((8, 32)), "is 32×8 pixels, and at least 16×16 are needed"),
        (np.zeros((0, 5), np.uint8), r"should have pixels, got an array of shape \(0, 5\)"),
        (np.full((32, 32), 255), "got int64 from 255 to 255; if white is 255"),
        (np.full((32, 32), 3.5), r"got float64 from 3\.5 to 3\.5"),
        (np.full((32, 32), math.nan), "got float64 from nan"),
    ],
)
def test_arrays_that_are_no_pictures_are_named(values: NDArray[np.generic], message: str) -> None:
    with pytest.raises(ImageError, match=f"it .*{message}") as caught:
        as_digit(values, name="it")
    assert "\n" not in str(caught.value)


# The classifier -----------------------------------------------------------------------------------


class Corner(nn.Module):
    """Answers by where the ink is: the digit is the quadrant with most of it, from top left."""

    def forward(self, x: Tensor) -> Tensor:
        parts = nn.functional.adaptive_avg_pool2d(x, 2).flatten(1)
        return nn.functional.pad(50 * parts, (0, 6), value=-10)


def test_answers_come_in_order_with_what_was_seen() -> None:
    pictures = [drawn(), np.asarray(drawn("2")), drawn("5", size=(50, 40), height=30)]
    found = DigitClassifier(digits()).classify(pictures)
    for picture, one in zip(pictures, found, strict=True):
        assert isinstance(one, DigitPrediction)
        assert np.array_equal(one.seen, as_digit(picture))
        assert one.probabilities.shape == (10,)
        assert one.probabilities.sum() == pytest.approx(1, abs=1e-5)
        assert one.probabilities[one.digit] == one.confidence == one.probabilities.max()
    assert repr(found[0]) == f"DigitPrediction({found[0].digit}, {found[0].confidence:.1%})"
    assert DigitClassifier(digits()).classify([]) == []


def test_a_blank_picture_among_others_is_named_by_its_number() -> None:
    with pytest.raises(ImageError, match="image 1"):
        DigitClassifier(digits()).classify([drawn(), Image.new("L", (40, 40))])


def test_the_model_given_is_left_as_it_is() -> None:
    net = digits().train()
    before = {key: value.clone() for key, value in net.state_dict().items()}
    classifier = DigitClassifier(net)
    classifier.classify([drawn()])
    assert net.training
    assert all(p.requires_grad for p in net.parameters())
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    prepared = torch.rand(3, 28, 28)
    expected = net.eval()(prepared[:, None]).softmax(1).detach().numpy()
    np.testing.assert_allclose(classifier.probabilities(prepared.numpy()), expected, atol=1e-5)


def test_turning_asks_at_every_angle() -> None:
    turning = DigitClassifier(Corner()).rotated(drawn("7"), angles=(0, 90, 180, 270))
    # The ink of a 7 is most in the top left quadrant; its turns are counter-clockwise.
    expected = [int(np.add.reduceat(np.add.reduceat(np.rot90(turning.original.seen, k), [0, 14], 0),
                                    [0, 14], 1).argmax()) for k in range(4)]  # fmt: skip
    assert turning.digits.tolist() == expected
    assert len(set(expected)) > 1
    assert turning.angles == (0, 90, 180, 270)
    assert turning.probabilities.shape == (4, 10)
    assert turning.same.tolist() == [digit == expected[0] for digit in expected]
    assert turning.share == turning.same.mean() < 1
    assert turning.lowest == turning.probabilities[:, turning.original.digit].min()


def test_a_harmonic_network_answers_quarter_turns_alike() -> None:
    turning = DigitClassifier(digits()).rotated(drawn())
    assert turning.angles == tuple(range(0, 360, 10))
    by_quarter = turning.probabilities.reshape(4, 9, 10)
    np.testing.assert_allclose(by_quarter, by_quarter[:1].repeat(4, 0), atol=1e-5)
    np.testing.assert_allclose(turning.probabilities[0], turning.original.probabilities, atol=1e-6)


def test_no_angles_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one angle, got none"):
        DigitClassifier(digits()).rotated(drawn(), angles=())


# The command --------------------------------------------------------------------------------------


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


def test_a_network_is_taken_by_name_if_it_reads_digits(command: Command) -> None:
    drawn().save("seven.png")
    done = command("seven.png", "--model", "z2cnn", "--json", "--no-figure")
    assert done.code == 0
    assert json.loads(done.out)[0]["digit"] == DigitClassifier("z2cnn").classify([drawn()])[0].digit
    for name, said in {
        "hdsn": f"expected a network that reads digits, such as {DEFAULT}, got hdsn",
        "p4cnn": "there are no trained weights for p4cnn",
        "hnet": "no model is called 'hnet'; did you mean 'hnet_mnist'?",
    }.items():
        done = command("seven.png", "--model", name)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert said in done.err


def test_the_default_is_the_pretrained_network(shipped: nn.Module) -> None:
    default, same = DigitClassifier(), DigitClassifier(shipped)
    (a,), (b,) = (one.classify([drawn()]) for one in (default, same))
    assert np.array_equal(a.probabilities, b.probabilities)


@pytest.mark.usefixtures("shipped")
def test_pictures_and_folders_are_answered_in_order(command: Command) -> None:
    Path("more").mkdir()
    drawn("2").save("more/b.png")
    drawn("5").save("more/a [1].JPG", format="jpeg")
    Path("more/notes.txt").write_text("no picture")
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
        ("fine.png missing.png", r"there is no file missing\.png; give the path of an image"),
        ("fine.png blank.png", BLANK.format(r"blank\.png")),
        ("fine.png text.png", r"text\.png is not an image that can be read"),
        ("small.png", r"small\.png is 12×12 pixels, and at least 16×16 are needed"),
        ("empty", "there is no image in the folder empty; expected files that end in .png"),
        ("fine.png --out x.jpg", r"expected a file that ends in .*, got 'x\.jpg'"),
        ("fine.png --out text.png/x.png", r"expected a folder to write to, got 'text\.png'"),
    ],
)
def test_bad_input_is_one_line_before_any_work(
    command: Command, arguments: str, message: str
) -> None:
    drawn().save("fine.png")
    Image.new("L", (40, 40)).save("blank.png")
    Image.new("L", (12, 12)).save("small.png")
    Path("text.png").write_text("no picture")
    Path("empty").mkdir()
    done = command(*arguments.split())
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert re.search(message, done.err), done.err
    assert not Path("digits.png").exists()


@pytest.mark.usefixtures("shipped")
def test_without_matplotlib_there_is_a_table_still(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    drawn().save("seven.png")
    done = command("seven.png")
    assert (done.code, done.out) == (2, "")
    assert 'pip install "hnets[plot]"' in done.err
    assert command("seven.png", "--no-figure").code == 0


def test_help_says_what_six_and_nine_are(command: Command) -> None:
    done = command("--help")
    assert "A 6 and a 9 are rotations of each other by 180°" in done.out


# The figure ---------------------------------------------------------------------------------------


def turned_digit(name: str = "seven.png") -> inspect.TurnedDigit:
    return inspect.TurnedDigit(name, drawn(), DigitClassifier(Corner()).rotated(drawn()))


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_figure_has_three_panels_for_every_picture(count: int) -> None:
    figure = inspect.digits_figure([turned_digit()] * count)
    assert len(figure.axes) == 3 * count
    boxes = [axes.get_position() for axes in figure.axes]
    for i, one in enumerate(boxes):
        assert one.xmin >= 0
        assert one.ymin >= 0
        assert max(one.xmax, one.ymax) <= 1
        assert not any(one.overlaps(other) for other in boxes[i + 1 :])


def test_figure_names_other_answers_where_they_are_given() -> None:
    digit = turned_digit("$a_b$ a long name of a file that has to be cut.png")
    figure = inspect.digits_figure([digit])
    others = digit.turning.digits[~digit.turning.same]
    assert [text.get_text() for text in figure.axes[2].texts] == [str(d) for d in others]
    given = digit.turning.original
    titles = [text.get_text() for text in figure.texts]
    assert titles[0] == "$a_b$ a long…to be cut.png"
    assert titles[2] == f"{given.digit}, {100 * given.confidence:.1f} %"


# The weights that ship ----------------------------------------------------------------------------


def answers(images: Tensor, angles: NDArray[np.float64]) -> NDArray[np.int64]:
    """What the shipped network says of data as photographs: enlarged, turned, dark on light."""
    pictures = []
    for image, degrees in zip(images[:, 0].numpy(), angles, strict=True):
        small = Image.fromarray((255 * image).round().astype(np.uint8))
        large = small.resize((224, 224), Image.Resampling.BICUBIC)
        turned = large.rotate(degrees, Image.Resampling.BICUBIC)
        shade = np.linspace(230, 130, 224)[None, :]
        pictures.append((shade * (1 - 0.8 * np.asarray(turned) / 255)).astype(np.uint8))
    return np.array([one.digit for one in DigitClassifier().classify(pictures)])


@pytest.mark.parametrize(("name", "bound"), [("mnist", 0.94), ("digits", 0.82)])
def test_digits_are_read_at_any_angle(
    name: str, bound: float, request: pytest.FixtureRequest
) -> None:
    from hnets import data

    root = request.getfixturevalue("data_folder") if name == "mnist" else None
    images, labels = data.load(name, "test", root).subset(150)
    angles = np.random.default_rng(0).uniform(0, 360, len(labels))
    found, truth = answers(images, angles), labels.numpy()
    # A 6 and a 9 are the same at an angle that nobody knows.
    found, truth = (np.where(each == 9, 6, each) for each in (found, truth))
    assert (found == truth).mean() > bound
