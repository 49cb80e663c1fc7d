"""The paper's figures from the weights that ship: a folder of them, and one page with them all."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image, ImageDraw, ImageFilter

from hnets import plot, studies
from hnets._cost import cost
from hnets.files import replacing
from hnets.models import create_model
from hnets.studies.ablation import ablation_curves
from hnets.studies.filters import COPY
from hnets.studies.numbers import Numbers
from hnets.studies.retrain import shipped_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT, PHOTO, DIGIT = "report.html", "photo.jpg", "digit.png"


@dataclass(frozen=True, eq=False)
class Exhibit:
    """One figure of the page."""

    name: str
    """Of its file, without the ending."""
    title: str
    caption: str
    """What to see in it."""
    command: str
    """That draws it."""
    figure: Figure
    numbers: tuple[Numbers, ...] = ()
    compact: bool = False
    """Whether it holds photographs, which take few colours."""


def write_figures(photo: Image.Image, out: Path, done: Callable[[Path], None]) -> Path:
    """Draw every figure into a folder, and write the page that holds them; returns its path.

    Patches are cut from the photo, and its orientations shown; ``done`` gets each file written.
    """
    out.mkdir(parents=True, exist_ok=True)
    digit = draw_digit()
    photo = photo.convert("RGB")
    photo.thumbnail((640, 640), Image.Resampling.LANCZOS)
    for name, image in ((PHOTO, photo), (DIGIT, digit)):
        with replacing(out / name) as part:
            image.save(part)  # so that the commands of the page can be typed
        done(out / name)
    shown = []
    for exhibit in exhibits(photo, digit, out):
        path = plot.save(exhibit.figure, out / f"{exhibit.name}.png", compact=exhibit.compact)
        done(path)
        shown.append((exhibit, path.read_bytes()))
    page = out / REPORT
    with replacing(page) as part:
        part.write_text(_page(shown), encoding="utf-8")
    return page


def exhibits(photo: Image.Image, digit: Image.Image, out: Path) -> Iterator[Exhibit]:
    """The figures, one after the other, as they are drawn."""
    yield Exhibit(
        "harmonics",
        "The filters",
        "Circular harmonics exp(−r²)·exp(imφ) of orders m = −2 to 3. Rotate one by θ, and it is "
        "multiplied by exp(−imθ): its colours rotate m times as fast as it does. That is all an "
        "H-Net knows of rotation, and all it needs.",
        "hnets inspect harmonics",
        plot.harmonics_figure(),
    )
    steady = studies.measure_stability(photo)
    yield Exhibit(
        "stability",
        "Rotational stability",
        "A patch rotates in front of filters with random weights. The magnitude of a harmonic "
        "response stays the same, but for a ripple that repeats every 90°: the error of working "
        "with pixels. Gaussian rings (the paper's section 4.2) ripple least; exact rings have one "
        "weight for each pixel distance and depend on the grid. The magnitude of a plain "
        "convolution changes freely. Lines are the middle filter, shades hold four fifths of them.",
        f"hnets inspect stability {out / PHOTO}",
        plot.stability_figure(steady),
        (steady.numbers(),),
    )
    for name in ("hdsn", "hnet_mnist"):
        study = studies.measure_filters(name)
        yield Exhibit(
            f"filters-{name}",
            f"Filters and phases of {name}",
            "Filters of the first layer, real parts, all aligned at phase 0, and below them the "
            "phases that they were learned with. The roses are the phases of every layer: how "
            "evenly directions are used. The paper finds no blank filters and few copies; the "
            "table says how many there are here. A filter is blank if its norm is below a tenth "
            "of its layer's root mean square, and a near-copy if, rotated to fit best, its cosine "
            f"with an earlier one is above {COPY:g}.",
            f"hnets inspect filters {name}",
            plot.filters_figure(study),
            (study.numbers(),),
        )
    yield Exhibit(
        "features",
        "Feature maps",
        "Layer 2 of the digit reader on a digit. Colour is magnitude: some maps hold edges, some "
        "the body of the stroke, some the empty space beside it. Arrows are phases: in maps of "
        "order 1 they point across the stroke and rotate with it, in maps of order 0 they do not.",
        f"hnets inspect features {out / DIGIT}",
        plot.features_figure(studies.measure_features(digit)),
    )
    yield Exhibit(
        "flow",
        "Orientation, layer after layer",
        "The phases of order 1 in the edge detector, as colours. One colour is one direction, at "
        "full resolution in layer 2 and at a sixteenth of it in layer 10: equivariance holds up "
        "to the deepest maps.",
        f"hnets inspect flow {out / PHOTO}",
        plot.flow_figure(studies.measure_flow(photo)),
        compact=True,
    )
    errors = [studies.measure_equivariance(name) for name in ("hnet_mnist", "z2cnn")]
    yield Exhibit(
        "equivariance",
        "Equivariance, measured",
        "How far the maps of a rotated image are from the rotated maps, in parts of how much they "
        "vary. An H-Net is exact at every multiple of 90°, and between them makes the error of "
        "pixels: filters that are sampled, borders that are padded. A plain CNN has no rule to "
        "follow, and its error grows with the angle. The output is what counts: dashed.",
        "hnets inspect equivariance hnet_mnist --against z2cnn",
        plot.equivariance_figure(errors),
        tuple(each.numbers() for each in errors),
    )
    yield Exhibit(
        "ablation",
        "Data ablation",
        "Accuracy when there is less to learn from, on rotated MNIST. What need not be learned "
        "needs no images: the H-Net falls off last.",
        "hnets reproduce ablation",
        plot.ablation_figure(ablation_curves(shipped_result("ablation"))),
    )
    costs = {name: cost(create_model(name), (1, 28, 28)) for name in ("hnet_mnist", "z2cnn")}
    rule = studies.measure_cost_rule(costs)
    yield Exhibit(
        "cost",
        "The cost rule",
        "A harmonic layer with i complex channels in each of f orders costs what a plain one with "
        "2·f·i channels costs. Lines are the rule, dots are counted. At the right, what the two "
        "digit readers of Table 1 multiply, layer by layer.",
        f"hnets inspect cost hnet_mnist --out {out / 'cost.png'}",
        plot.cost_rule_figure(rule),
        (rule.numbers(),),
    )


def draw_digit() -> Image.Image:
    """A 3 as one might draw it, light on dark, of 224×224 pixels."""
    large = Image.new("L", (448, 448))
    pen = ImageDraw.Draw(large)
    for box, start, end in (((130, 60, 300, 230), 200, 450), ((110, 210, 330, 400), 270, 510)):
        pen.arc(box, start, end, fill=255, width=44)
    for x, y in ((142, 124), (127, 359)):
        pen.ellipse((x - 8, y - 8, x + 36, y + 36), fill=255)
    return large.filter(ImageFilter.GaussianBlur(3)).resize((224, 224), Image.Resampling.LANCZOS)


# The page ------------------------------------------------------------------------------------


def _page(shown: list[tuple[Exhibit, bytes]]) -> str:
    links = "".join(
        f'<li><a href="#{each.name}">{html.escape(each.title)}</a></li>' for each, _ in shown
    )
    sections = "\n".join(_section(*each) for each in shown)
    style = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Inside Harmonic Networks</title>
<style>
{style}</style>
</head>
<body>
<header>
<h1>Inside Harmonic Networks</h1>
<p>The figures of <em>Harmonic Networks: Deep Translation and Rotation Equivariance</em> (Worrall,
Garbin, Turmukhambetov and Brostow, 2017), drawn from the trained weights that come with
<code>hnets</code>. <code>hnets reproduce figures</code> writes this page.</p>
<nav aria-label="Figures"><ul>{links}</ul></nav>
</header>
<main>
{sections}
</main>
</body>
</html>
"""


def _section(exhibit: Exhibit, image: bytes) -> str:
    title, command = html.escape(exhibit.title), html.escape(exhibit.command)
    data = base64.b64encode(image).decode("ascii")
    numbers = "".join(map(_table, exhibit.numbers))
    return f"""<section id="{exhibit.name}">
<h2>{title}</h2>
<p>{html.escape(exhibit.caption)}</p>
<figure>
<div class="sheet" tabindex="0"><img src="data:image/png;base64,{data}" alt="{title}"></div>
<figcaption><code>{command}</code></figcaption>
</figure>
{numbers}
</section>"""


def _table(numbers: Numbers) -> str:
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in numbers.header)
    rows = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>'
        + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in numbers.rows
    )
    return (
        f"<details><summary>The numbers: {html.escape(numbers.title)}</summary>"
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )
