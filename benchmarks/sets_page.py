"""The tables and the figure of docs/your-images.md, from what `sets.py` measured.

    python benchmarks/sets_page.py                # from benchmarks/sets.json
    python benchmarks/sets_page.py NEW.json …     # after the rows of these files are added to it

Rows that are added get the milliseconds per image that the frozen network takes on one core of the
CPU at hand.
"""

import argparse
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from sets import add

import hnets
from hnets.plot import Sheet, figure_style, save
from hnets.plot.style import BLUE, ORANGE, light
from hnets.train import mean_and_spread, read_recipe

RESULTS = Path(__file__).with_name("sets.json")
PAGE = Path(__file__).parents[1] / "docs" / "your-images.md"
FIGURE = "images/labels.png"
PLAIN = ("resnet18", "unet")
"""Networks that rotations of an image confuse, unless they have learned them."""

Row = Mapping[str, Any]


def of_set(rows: Sequence[Row], name: str) -> list[Row]:
    """The rows of one set, plain networks first, then by their multiplications."""
    own = [row for row in rows if row["settings"]["data"]["name"] == name]
    return sorted(own, key=lambda row: (not is_plain(row), row["multiplications"], row["recipe"]))


def is_plain(row: Row) -> bool:
    """Whether the network of a row is an ordinary one."""
    return row["settings"]["model"]["name"] in PLAIN


def accuracy(row: Row) -> dict[str, float]:
    """Percent of the test images that are classified correctly."""
    error = row["scores"]["test"]["error"]
    return error | {"mean": 100 - error["mean"]}


def table(header: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, or nothing if it has no rows."""
    lines = [f"| {' | '.join(cells)} |" for cells in (header, *body)]
    return "\n".join([lines[0], "|---" * len(header) + "|", *lines[1:]]) if body else ""


def size_of(row: Row) -> list[str]:
    """What the network of a row is, and what it costs."""
    cost = f"{row['multiplications'] / 1e9:.2g} G"
    return [f"`{row['recipe']}`", f"{row['parameters'] / 1e6:.2f}M", cost, f"{row['cpu_ms']:.0f}"]


def seconds(rows: Iterable[Row]) -> str:
    """How long a run took, of as many side by side as there were folds and seeds.

    Unknown where the GPU did other work beside, and left out where a CPU did the work.
    """
    ordered = sorted(rows, key=lambda row: row["share"], reverse=True)
    return ", ".join(map(_seconds, ordered))


def _seconds(row: Row) -> str:
    if row["versions"]["device"] == "CPU":
        return "–"
    return "?" if row["seconds"] is None else f"{row['seconds']:.0f}"


SIZE = ("recipe", "parameters", "multiplications", "ms on a CPU core")


def plankton(rows: Sequence[Row]) -> str:
    """Accuracy by the share of the labels, and the log loss."""
    own = of_set(rows, "plankton")
    shares = sorted({(row["share"], row["images"]) for row in own}, reverse=True)
    body = []
    for name in dict.fromkeys(row["recipe"] for row in own):
        by_share = {row["share"]: row for row in own if row["recipe"] == name}
        cells = [
            f"{mean_and_spread(accuracy(row), 1)} ({row['scores']['test']['loss']['mean']:.2f})"
            if (row := by_share.get(share))
            else ""
            for share, _ in shares
        ]
        body.append([*size_of(by_share[max(by_share)]), *cells, seconds(by_share.values())])
    return table([*SIZE, *(f"{images:,} labels" for _, images in shares), "s"], body)


def galaxies(rows: Sequence[Row]) -> str:
    """Accuracy over folds."""
    body = [
        [*size_of(row), f"{mean_and_spread(accuracy(row), 1)}", seconds([row])]
        for row in of_set(rows, "mirabest")
    ]
    return table([*SIZE, "accuracy, %", "s"], body)


def vessels(rows: Sequence[Row]) -> str:
    """AUC and F1, of the camera that was learned from and of another."""
    body = []
    for row in of_set(rows, "drive"):
        scores = (row["scores"][split] for split in ("test", "chase_db1"))
        cells = [mean_and_spread(each[kind], 4) for each in scores for kind in ("auc", "f1")]
        body.append([*size_of(row), *cells, seconds([row])])
    return table([*SIZE, "AUC", "F1", "CHASE_DB1: AUC", "F1", "s"], body)


def figure(rows: Sequence[Row], path: Path) -> str:
    """Draw the accuracy on plankton against the number of labels; the line that shows it."""
    own = of_set(rows, "plankton")
    curves = {
        name: sorted((row for row in own if row["recipe"] == name), key=lambda row: row["images"])
        for name in dict.fromkeys(row["recipe"] for row in own)
    }
    curves = {name: curve for name, curve in curves.items() if len(curve) > 1}
    if not curves:
        return ""
    with figure_style():
        sheet = Sheet(5.6, 3.8).figure
        axes = sheet.subplots()
        for name, curve in curves.items():
            points = [accuracy(row) for row in curve]
            axes.errorbar(
                [row["images"] for row in curve],
                [point["mean"] for point in points],
                [point["std"] for point in points],
                capsize=2,
                marker="o",
                color=ORANGE if is_plain(curve[0]) else BLUE,
                linestyle="--" if name.endswith(("fine", "small", "narrow")) else "-",
                label=f"{read_recipe(name, []).title}, {curve[0]['parameters'] / 1e6:.1f}M",
            )
        axes.set_xscale("log")
        counts = sorted({row["images"] for row in own})
        axes.set_xticks(counts, labels=[f"{count:,}" for count in counts])
        axes.minorticks_off()
        axes.set_xlabel("labelled images")
        axes.set_ylabel("test accuracy, %")
        light(axes)
        axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1))
        sheet.tight_layout()
        save(sheet, path)
    return (
        f"![Accuracy on plankton against the number of labelled images]({FIGURE})\n\n"
        "*Drawn by `python benchmarks/sets_page.py`. Bars are deviations over seeds.*"
    )


def filled(text: str, parts: Mapping[str, str]) -> str:
    """The page with what stands between ``<!-- name -->`` and ``<!-- /name -->`` replaced."""
    for name, content in parts.items():
        block = f"<!-- {name} -->\n\n{content}\n\n" if content else f"<!-- {name} -->\n\n"
        text = re.sub(
            f"<!-- {name} -->\n.*?(?=<!-- /{name} -->)",
            lambda _, block=block: block,  # a default binds it now
            text,
            flags=re.DOTALL,
        )
    return text


def cpu_milliseconds(row: Row, rounds: int = 5) -> float:
    """How long one core takes for an image, in its own time: the least of some rounds."""
    torch.set_num_threads(1)
    model = row["model"]
    net = hnets.freeze(hnets.create_model(model["name"], **model["options"]).eval())
    x, times = torch.rand(1, *row["shape"]), []
    with torch.inference_mode():
        for _ in range(rounds + 1):
            began = time.process_time()
            net(x)
            times.append(time.process_time() - began)
    return round(1000 * min(times), 1)


def main() -> None:
    """Add rows, write the page, and draw its figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    for path in parser.parse_args().files:
        for row in json.loads(path.read_text(encoding="utf-8")):
            add(row | {"cpu_ms": cpu_milliseconds(row)}, RESULTS)
    rows = json.loads(RESULTS.read_text(encoding="utf-8"))
    parts = {"plankton": plankton(rows), "galaxies": galaxies(rows), "vessels": vessels(rows)}
    parts["figure"] = figure(rows, PAGE.parent / FIGURE)
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), parts), encoding="utf-8")
    print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
