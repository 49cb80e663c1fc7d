"""Tables of results beside published numbers, and the page of results that holds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from hnets.studies.ablation import ablation_curves, ablation_numbers
from hnets.studies.numbers import Numbers
from hnets.studies.retrain import StoredResult, read_result, shipped_result
from hnets.train import Recipe, mean_and_spread, read_recipe
from hnets.train.recipe import SHIPPED

FIGURE = "images/ablation.png"
"""The figure of the ablation, from the folder of the page of results."""
FRONT = "images/edge_front.png"
"""That of edge detectors."""
DIGITS = ("rotmnist-r", "rotmnist-c")
"""Sets of rotated digits: that of the recipes, and the one whose centres do not say what is up."""


@dataclass(frozen=True)
class PublishedRow:
    """A method of a table: what was published, and the recipe that trains it here."""

    method: str
    published: tuple[float, ...] = ()
    """Percent wrong, or ODS, OIS and AP; empty if nothing was published."""
    recipe: str = ""
    """The shipped recipe; empty where the published numbers stand alone."""
    parameters: str = ""
    """As published."""
    bold: bool = False


@dataclass(frozen=True)
class ResultTable:
    """Rows, and how they are written."""

    title: str
    """On a terminal."""
    columns: tuple[str, ...]
    """On a terminal; the recipe has a column where there is room."""
    header: tuple[str, ...]
    """On a page."""
    note: str
    rows: tuple[PublishedRow, ...]
    measured: tuple[str, ...]
    """Keys of what was measured here, one column each."""
    write_published: Callable[[tuple[float, ...]], str]
    write_measured: Callable[[StoredResult, str], str]
    no_recipe: str = ""
    """What a page says where no recipe trains the method."""
    times: Callable[[], Mapping[str, float]] | None = None
    """By method, in a column of their own."""
    data: str = ""
    """The set of digits, where it is not that of the recipes."""

    @property
    def recipes(self) -> list[str]:
        """Of the rows that can be trained again."""
        return [row.recipe for row in self.rows if row.recipe]

    def on(self, data: str) -> ResultTable:
        """The same networks on another set of digits; nothing was published of it."""
        if data == DIGITS[0]:
            return self
        rows = (
            replace(row, published=(), recipe=row.recipe.replace(DIGITS[0], data))
            for row in self.rows
            if row.recipe
        )
        note = self.note.partition("Published numbers")[0]
        return replace(
            self,
            title=f"{self.title.removesuffix(', %')}, {data}, %",
            columns=tuple(column.replace(DIGITS[0], data) for column in self.columns),
            note=f"{note}The digits are rotated about their own centres of mass.",
            rows=tuple(rows),
            data=data,
        )

    def read(self, name: str, changes: list[str]) -> Recipe:
        """The recipe of a row, on the data of the table."""
        if not self.data:
            return read_recipe(name, changes)
        recipe = name.replace(self.data, DIGITS[0])
        return read_recipe(recipe, [f"data.name={self.data}", *changes])

    def shipped(self, names: Sequence[str] | None = None) -> dict[str, StoredResult]:
        """The results of these recipes, or of all, that come with the package."""
        results = {name: read_result(name) for name in names or self.recipes}
        return {name: result for name, result in results.items() if result is not None}

    def cells(self, row: PublishedRow, result: StoredResult | None) -> tuple[str, ...]:
        """One row: method, parameters, published, measured here, recipe."""
        published = self.write_published(row.published) if row.published else ""
        parameters, measured = row.parameters, ["" for _ in self.measured]
        if result is not None:
            parameters = f"{result['parameters']:,}" if result["parameters"] else ""
            measured = [self.write_measured(result, key) for key in self.measured]
        if self.times is not None:
            time = self.times().get(row.method.removesuffix(" ‡"))
            measured.append("" if time is None else f"{time:.2f}")
        return row.method, parameters, published, *measured, row.recipe

    def terminal(self, results: Mapping[str, StoredResult]) -> Numbers:
        """The table for a terminal of 80 columns; rows without any number are left out."""
        shown = [row for row in self.rows if row.published or row.recipe in results]
        rows = []
        for row in shown:
            *cells, recipe = self.cells(row, results.get(row.recipe))
            # Deviations leave no room for two numbers in a line.
            cells = [cell.replace(" / ", "\n" if "±" in cell else "/") for cell in cells]
            rows.append((*cells, recipe.split("-", 2)[-1])[: len(self.columns)])
        bold = frozenset(place for place, row in enumerate(shown) if row.bold)
        columns = self.columns
        if self.data:  # nothing was published
            columns, *rows = [(*cells[:2], *cells[3:]) for cells in (columns, *rows)]
        return Numbers(self.title, columns, rows, bold)

    def page(self, results: Mapping[str, StoredResult]) -> Numbers:
        """The table for a page; recipes are links to sections of it."""
        rows = []
        for row in self.rows:
            *cells, recipe = self.cells(row, results.get(row.recipe))
            link = f"[{recipe}](#{recipe})" if recipe in results else recipe
            rows.append((*cells, link or self.no_recipe))
        return Numbers(self.title, self.header, rows)


@dataclass(frozen=True)
class DetectorTable(ResultTable):
    """A table of three scores per detector, at one scale and at three."""

    def terminal(self, results: Mapping[str, StoredResult]) -> Numbers:
        """One score per column, and three scales in rows of their own: 80 columns hold no more."""
        rows, bold = list[tuple[str, ...]](), set[int]()
        for row in self.rows:
            cells = self.cells(row, results.get(row.recipe))
            name, parameters, published, one, three, time, _ = cells
            lines = (
                (name, parameters, published or one, time),
                (f"{name}, 3 scales", "", three, ""),
            )
            for detector, size, scores, cost in lines:
                if scores:
                    bold |= {len(rows)} if row.bold else set()
                    ods, ois, *ap = scores.split(" / ")
                    rows.append((detector, size, ods, ois, "".join(ap), cost))
        return Numbers(self.title, self.columns, rows, frozenset(bold))


def _error(result: StoredResult, split: str) -> str:
    return mean_and_spread(result["summary"][split]) if split in result["summary"] else ""


def _published_error(published: tuple[float, ...]) -> str:
    return f"{published[0]:.3f}".removesuffix("0")


def _scores(result: StoredResult, way: str, names: Sequence[str] = ("ods", "ois")) -> str:
    scores = result.get("scores", {}).get(way, {})
    return " / ".join(in_short(scores, name) for name in names if name in scores)


def in_short(scores: Mapping[str, Mapping[str, float]], name: str) -> str:
    """The mean of a score, and its deviation if there are several seeds."""
    score = scores[name]
    spread = f" ± {short_score(score['std'])}" if score["n"] > 1 else ""
    return f"{short_score(score['mean'])}{spread}"


def _three_scores(result: StoredResult, way: str) -> str:
    return _scores(result, way, ("ods", "ois", "ap"))


def edge_times() -> dict[str, float]:
    """The time of the detectors of `EDGES` on a CPU core, by name, relative to the H-DSN's."""
    times: dict[str, float] = (read_result("edge-times") or {}).get("times", {})
    return times


def short_score(score: float) -> str:
    """A score as the field writes it.

    >>> short_score(0.7264)
    '.726'
    """
    return f"{score:.3f}".removeprefix("0")


def _published_scores(scores: tuple[float, ...]) -> str:
    return " / ".join(map(short_score, scores))


TABLE1 = ResultTable(
    title="Table 1: test error on rotated MNIST, %",
    columns=("method", "parameters", "published", "here", "rotmnist-r-…"),
    header=("method", "parameters", "published", "here", "recipe"),
    note="Percent of test images classified wrongly: mean and standard deviation over the seeds. "
    "Published numbers are on the original rotated MNIST, which could not be had; ours are on "
    "rotmnist-r, regenerated from MNIST by the same protocol, so compare rows within a column.",
    rows=(
        PublishedRow("SVM, RBF kernel", (11.11,), "rotmnist-r-svm"),
        PublishedRow("Transformation RBM", (4.2,)),
        PublishedRow("Conv-RBM", (3.98,)),
        PublishedRow("CNN (Z2CNN)", (5.03,), "rotmnist-r-z2cnn"),
        PublishedRow("CNN + rotation augmentation", (3.50,), "rotmnist-r-z2cnn-augmented"),
        PublishedRow("P4CNN, rotation pooling", (3.21,), "rotmnist-r-p4cnn-pooling"),
        PublishedRow("P4CNN", (2.28,), "rotmnist-r-p4cnn"),
        PublishedRow("H-Net", (1.69,), "rotmnist-r-hnet", bold=True),
    ),
    measured=("test",),
    write_published=_published_error,
    write_measured=_error,
    no_recipe="cannot be run again",
)
"""Rotated MNIST, as the paper has it."""

TABLE2 = ResultTable(
    title="Table 2: edges on BSDS500, ODS/OIS",
    columns=("method", "weights", "published", "here", "with sup-\npression", "across its\nphases"),
    header=(
        "method",
        "parameters",
        "published ODS / OIS",
        "here ODS / OIS",
        "with suppression",
        "across its own orientation",
        "recipe",
    ),
    note="Test photographs of BSDS500, nothing pretrained on other data unless marked †. Scores "
    "are of the maps as they come from the network, as in the paper, and after non-maximum "
    "suppression, which the paper did not use: that of the literature, and for the H-DSN one "
    "across the orientation in its own phases.",
    rows=(
        PublishedRow("HED half width", (0.640, 0.650), "bsds500-hed", "2,346k"),
        PublishedRow("HED low", (0.697, 0.709), "bsds500-hed-low", "115k"),
        PublishedRow("Kivinen et al.", (0.702, 0.715)),
        PublishedRow("H-DSN", (0.726, 0.742), "bsds500-hdsn", "116k", bold=True),
        PublishedRow("CSCNN †", (0.741, 0.759)),
        PublishedRow("DeepEdge †", (0.753, 0.772)),
        PublishedRow("N4-Fields †", (0.753, 0.769)),
        PublishedRow("DeepContour †", (0.756, 0.773)),
        PublishedRow("HED †", (0.782, 0.804), parameters="2,346k"),
        PublishedRow("DCNN + sPb †", (0.813, 0.831)),
    ),
    measured=("none", "standard", "phase"),
    write_published=_published_scores,
    write_measured=_scores,
    no_recipe="as published",
)
"""BSDS500, as the paper has it; † pretrained on ImageNet."""

BEYOND = ResultTable(
    title="Beyond the paper: test error on rotated MNIST, %",
    columns=("method", "parameters", "published", "here", "averaged"),
    header=("method", "parameters", "published", "here", "averaged", "recipe"),
    note="Percent of test images classified wrongly: mean and standard deviation over the seeds. "
    "Averaged: the outputs for copies of each image, rotated by equal parts of 90°, are averaged. "
    "Pointing: layers get the direction in which the centre of mass of a digit lies. "
    "Published numbers are on the original rotated MNIST, ours on rotmnist-r.",
    rows=(
        PublishedRow("H-Net, the paper's", (1.69,), "rotmnist-r-hnet"),
        PublishedRow("C-ReLU, wide (Franzen and Wand 2021)", (0.98,)),
        PublishedRow("functions of the angle (Franzen and Wand 2021)", (0.685,)),
        PublishedRow("E(2)-steerable network (Weiler and Cesa 2019)", (0.682,)),
        PublishedRow("separable Sim(2) network (Knigge et al. 2022)", (0.59,)),
        *(
            PublishedRow(name, (), f"rotmnist-r-fourier-{recipe}", bold=True)
            for name, recipe in (
                ("hnet_fourier_tiny", "tiny"),
                ("hnet_fourier_base", "base"),
                ("hnet_fourier_base, augmented", "base-augmented"),
                ("hnet_fourier_base, augmented, pointing", "base-pointing"),
            )
        ),
    ),
    measured=("test", "test, averaged"),
    write_published=_published_error,
    write_measured=_error,
)
"""Rotated MNIST beyond the paper: what others have published since, and the networks here."""


EDGES = DetectorTable(
    title="Edges on BSDS500, trained from scratch",
    columns=("detector", "weights", "ODS", "OIS", "AP", "time"),
    header=(
        "detector",
        "parameters",
        "published ODS / OIS / AP",
        "here, one scale",
        "three scales",
        "CPU time, H-DSN = 1",
        "recipe",
    ),
    note="Detectors that start from random weights, on the test photographs of BSDS500, after the "
    "non-maximum suppression of the literature: mean and standard deviation over the seeds. All "
    "are trained on the 300 other photographs of BSDS500; those with a ‡ on PASCAL VOC as "
    "well. Three scales: the mean of the maps at 0.5, 1 and 1.5 times the size. Time: that of "
    "an image of 481×321 pixels on one CPU core, where the H-DSN takes 1; PiDiNet's is measured in "
    "its form of plain convolutions. Published: PiDiNet, Su et al., ICCV 2021, and its repository; "
    "people, each against the others, reach an F of .803. Larger networks with VOC, such as PEdger "
    "(Fu and Guo, 2023; 734k), report up to about .82; no score above .789 was found for BSDS500 "
    "alone.",
    rows=(
        PublishedRow("H-DSN", (), "bsds500-hdsn"),
        PublishedRow("PiDiNet-Tiny-L ‡", (0.787, 0.804, 0.817), parameters="73k"),
        PublishedRow("PiDiNet-Small ‡", (0.798, 0.814, 0.828), parameters="184k"),
        PublishedRow("PiDiNet", (0.789, 0.803), parameters="710k"),
        PublishedRow("PiDiNet ‡", (0.807, 0.823, 0.834), parameters="710k"),
        PublishedRow("tiny", (), "bsds500-hedge-tiny", bold=True),
        PublishedRow("small", (), "bsds500-hedge-small", bold=True),
        PublishedRow("base", (), "bsds500-hedge-base", bold=True),
    ),
    measured=("standard", "scales"),
    write_published=_published_scores,
    write_measured=_three_scores,
    no_recipe="as published",
    times=edge_times,
)
"""Edge detectors that are trained from scratch; ‡ with PASCAL VOC as well."""


@dataclass(frozen=True)
class FrontPoint:
    """A detector of `EDGES`: its ODS at one scale, and what it costs."""

    name: str
    ods: float
    parameters: int
    time: float | None
    """On a CPU core, relative to the H-DSN's; None if it was not measured."""
    ours: bool


def edge_front(results: Mapping[str, StoredResult]) -> list[FrontPoint]:
    """The detectors of `EDGES` that have a score."""
    points, times = [], edge_times()
    for row in EDGES.rows:
        time = times.get(row.method.removesuffix(" ‡"))
        if row.published:
            parameters = 1000 * int(row.parameters.removesuffix("k"))
            points.append(FrontPoint(row.method, row.published[0], parameters, time, False))
        elif "standard" in (result := results.get(row.recipe, {})).get("scores", {}):
            ods = result["scores"]["standard"]["ods"]["mean"]
            points.append(FrontPoint(row.method, ods, result["parameters"], time, True))
    return points


def results_page() -> str:
    """The page of the results that ship, as Markdown."""
    tables = (TABLE1, TABLE2, BEYOND, EDGES)
    digits, photographs, past, edges = (table.shipped() for table in tables)
    ablation = shipped_result("ablation")
    seeds = next(iter(next(iter(ablation["errors"].values())).values()))["n"]
    parts = [
        "# Results",
        "Written by `hnets reproduce table1 --page docs/results.md` from the results that the "
        "trainings left in `src/hnets/studies/results/`, one file per recipe. `hnets reproduce "
        "table1 --train`, `table2 --train`, `beyond --train` and `edges --train` train every row "
        "again.",
        "## Table 1: rotated MNIST",
        TABLE1.note,
        TABLE1.page(digits).markdown(),
        "## Data ablation",
        "Test accuracy in percent when only the first so many images of the training set are "
        f"used, by the recipes of Table 1; {seeds} seeds each, the full set from Table 1.",
        ablation_numbers(ablation_curves(ablation), spreads=True).markdown(),
        f"![Accuracy and error against the number of training images]({FIGURE})",
        "*Drawn by `hnets reproduce ablation`.* Left, as in the paper, each method's accuracy over "
        "its own best; right, the error itself.",
        "## Table 2: edges in photographs",
        TABLE2.note,
        TABLE2.page(photographs).markdown(),
        "## Beyond the paper: digits",
        BEYOND.note,
        BEYOND.page(past).markdown(),
        *_centred_section(),
        "## Beyond the paper: edges",
        EDGES.note,
        EDGES.page(edges).markdown(),
        f"![ODS against parameters and against CPU time]({FRONT})",
        "*Drawn by `hnets reproduce edges`.* Detectors trained from scratch: above and to the left "
        "is better; those with a ‡ were trained on PASCAL VOC as well. A line joins the detectors "
        "that are better than all that cost no more. [What was tried](benchmarks.md#what-was-tried-"
        "for-edges) on the way, and where it falls short of what was wanted, is on the page of "
        "benchmarks.",
        "## How the numbers were made",
        _provenance({**digits, **past}, DIGITS[0]),
        _provenance({r["name"]: r for _, r in _centred_rows()}, DIGITS[1]),
        _provenance({**photographs, **edges}, "BSDS500"),
    ]
    for name in {**digits, **photographs, **past, **edges}:
        text = (SHIPPED / f"{name}.toml").read_text(encoding="utf-8").strip()
        parts += [f"### {name}", f"```toml\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def _centred_rows() -> list[tuple[PublishedRow, StoredResult]]:
    """The rows of digits with a result on those that are rotated about their own centres."""
    usual, centred = DIGITS
    past = (row for row in BEYOND.rows if row.recipe not in TABLE1.recipes)
    rows = ((row, row.recipe.replace(usual, centred)) for row in (*TABLE1.rows, *past))
    return [(row, result) for row, name in rows if name and (result := read_result(name))]


def _centred_section() -> list[str]:
    """The digits that are rotated about their own centres, beside those of the other tables."""
    usual, centred = DIGITS
    rows = []
    for row, result in _centred_rows():
        errors = (_error(shipped_result(row.recipe), "test"), _error(result, "test"))
        rows.append((row.method, *errors, str(len(result["seeds"]))))
    return [
        "## Rotated MNIST without a mark",
        f"Percent of test images classified wrongly. In {usual} the middle of a digit lies half a "
        "pixel off that of the image, which [says what is up](benchmarks.md#what-the-centre-of-a-"
        f"digit-gives-away); in {centred} it does not. `hnets reproduce table1 --data {centred}` "
        "and `beyond` print it, and with `--train` train every row again.",
        Numbers("", ("method", usual, centred, "seeds"), rows).markdown(),
    ]


def _provenance(results: Mapping[str, StoredResult], data: str) -> str:
    rows = []
    hashes: dict[str, str] = {}
    for name, result in results.items():
        seconds = max(seed.get("seconds", 0.0) for seed in result["seeds"])
        versions, changed = result["versions"], "+" if result["commit"].endswith("+") else ""
        commit = f"{result['commit'][:10]}{changed}"
        seeds, device, torch = str(len(result["seeds"])), versions["device"], versions["torch"]
        rows.append((name, seeds, device, torch, commit, f"{seconds:,.0f}" if seconds else ""))
        hashes |= {split: facts["sha256"] for split, facts in result["data"].items()}
    listed = ", ".join(f"{split} `{value[:16]}…`" for split, value in sorted(hashes.items()))
    header = ("recipe", "seeds", "device", "torch", "commit", "seconds for all seeds")
    return Numbers("", header, rows).markdown() + (
        "\n\nRecipes that train side by side share a GPU, so a row's seconds are not the cost of "
        "the row alone. A + stands behind a commit if files had been changed since. "
        f"SHA-256 of {data}: {listed}."
    )
