"""All figures into a folder, and one page that needs nothing else."""

import base64
import io
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from commands import Command
from hnets import plot, studies
from hnets.plot import figures_page
from hnets.studies.numbers import Numbers

NAMES = ("harmonics", "stability", "filters-hdsn", "filters-hnet_mnist", "features", "flow",
         "equivariance", "ablation", "cost")  # fmt: skip


class Page(HTMLParser):
    """What a page refers to, and which tags are left open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_every_figure_is_drawn_and_held_by_the_page(
    hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # Fewer angles and smaller images than are shipped, for speed; the rest is as it is.
    for name, options in (
        ("measure_equivariance", {"angles": (45.0, 90.0), "size": 32}),
        ("measure_stability", {"step": 90}),
        ("measure_flow", {"size": 96}),
    ):
        monkeypatch.setattr(studies, name, partial(getattr(studies, name), **options))
    done = hnets_command("reproduce", "figures", "--out", "new/folder")
    assert done.code == 0, done.err
    folder = tmp_path / "new" / "folder"
    written = {f"{name}.png" for name in NAMES} | {"photo.jpg", "digit.png", "report.html"}
    assert {path.name for path in folder.iterdir()} == written
    assert {Path(line.removeprefix("wrote ")).name for line in done.out.splitlines()} == written
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not page.open
    images = [source for source in page.sources if not source.startswith("#")]
    assert len(images) == len(NAMES)
    for name, source in zip(NAMES, images, strict=True):
        kind, _, data = source.partition(",")
        assert kind == "data:image/png;base64"
        content = base64.b64decode(data)
        assert content == (folder / f"{name}.png").read_bytes()
        Image.open(io.BytesIO(content)).load()
        assert f'href="#{name}"' in text
    assert not re.search(r"(https?:)?//|url\(|@import|<script", re.sub(r"base64,[^\"]*", "", text))


def test_what_is_written_is_text_and_not_markup() -> None:
    numbers = Numbers("<t>", ("a & b",), (("<script>", "1 < 2"),))
    exhibit = figures_page.Exhibit("x", "<b>", "1 < 2 & 3", "hnets 'a<b'", None, (numbers,))
    page = figures_page._page([(exhibit, b"")])
    Page(page)
    assert "<script>" not in page
    assert "1 &lt; 2 &amp; 3" in page


def test_the_drawn_digit_is_read_as_it_is_meant() -> None:
    from hnets import DigitClassifier

    (prediction,) = DigitClassifier().classify([figures_page.draw_digit()])
    assert prediction.digit == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--photo", "missing.jpg"), "there is no file missing.jpg"),
        (("--out", "taken"), "expected a folder to write to, got 'taken'"),
    ],
)
def test_bad_input(
    hnets_command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file that is in the way")
    done = hnets_command("reproduce", "figures", *arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert message in done.err


def test_cost_figure_and_rule(
    hnets_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = hnets_command("inspect", "cost", "hnet_mnist", "--out", "cost.svg")
    assert done.code == 0, done.err
    assert "33,347" in done.out
    assert (tmp_path / "cost.svg").stat().st_size > 1000
    rule = studies.measure_cost_rule({})
    assert {(w.orders, w.plain // w.harmonic) for w in rule.widths} == {(1, 2), (2, 4), (3, 6)}
    assert all(w.plain_multiplications == w.harmonic_multiplications for w in rule.widths)
    assert len(plot.cost_rule_figure(rule).axes) == 1
