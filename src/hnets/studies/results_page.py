"""The page of results, written from the results that ship and never by hand."""

from __future__ import annotations

from collections.abc import Mapping

from hnets.studies.ablation import ablation_curves, ablation_numbers
from hnets.studies.numbers import Numbers
from hnets.studies.results_store import StoredResult, shipped
from hnets.studies.tables import BEYOND, TABLE1, TABLE2
from hnets.train.recipe import SHIPPED

FIGURE = "images/ablation.png"
"""The figure of the ablation, from the folder of the page."""


def results_page() -> str:
    """The page as Markdown."""
    digits, photographs, past = (table.shipped() for table in (TABLE1, TABLE2, BEYOND))
    parts = [
        "# Results",
        "Written by `hnets reproduce table1 --page docs/results.md` from the results that the "
        "trainings left in `src/hnets/studies/results/`, one file per recipe. `hnets reproduce "
        "table1 --train`, `table2 --train` and `beyond --train` train every row again.",
        "## Table 1: rotated MNIST",
        TABLE1.note,
        TABLE1.page(digits).markdown(),
        *_ablation(shipped("ablation")),
        "## Table 2: edges in photographs",
        TABLE2.note,
        TABLE2.page(photographs).markdown(),
        "## Past the paper",
        BEYOND.note,
        BEYOND.page(past).markdown(),
        "## How the numbers were made",
        _provenance({**digits, **past}, "rotmnist-r"),
        _provenance(photographs, "BSDS500"),
    ]
    for name in {**digits, **photographs, **past}:
        text = (SHIPPED / f"{name}.toml").read_text(encoding="utf-8").strip()
        parts += [f"### {name}", f"```toml\n{text}\n```"]
    return "\n\n".join(parts) + "\n"


def _ablation(ablation: StoredResult) -> list[str]:
    curves = ablation_curves(ablation)
    seeds = next(iter(next(iter(ablation["errors"].values())).values()))["n"]
    return [
        "## Data ablation",
        "Test accuracy in percent when only the first so many images of the training set are "
        f"used, by the recipes of Table 1; {seeds} seeds each, the full set from Table 1.",
        ablation_numbers(curves, spreads=True).markdown(),
        f"![Accuracy and error against the number of training images]({FIGURE})",
        "*Drawn by `hnets reproduce ablation`.* Left, as in the paper, each method's accuracy over "
        "its own best; right, the error itself.",
    ]


def _provenance(results: Mapping[str, StoredResult], data: str) -> str:
    rows = []
    hashes: dict[str, str] = {}
    for name, result in results.items():
        seconds = max(seed["seconds"] for seed in result["seeds"])
        versions, changed = result["versions"], "+" if result["commit"].endswith("+") else ""
        commit = f"{result['commit'][:10]}{changed}"
        seeds, device, torch = str(len(result["seeds"])), versions["device"], versions["torch"]
        rows.append((name, seeds, device, torch, commit, f"{seconds:,.0f}"))
        hashes |= {split: facts["sha256"] for split, facts in result["data"].items()}
    listed = ", ".join(f"{split} `{value[:16]}…`" for split, value in sorted(hashes.items()))
    header = ("recipe", "seeds", "device", "torch", "commit", "seconds for all seeds")
    return Numbers("", header, rows).markdown() + (
        "\n\nRecipes that train side by side share a GPU, so a row's seconds are not the cost of "
        "the row alone. A + stands behind a commit if files had been changed since. "
        f"SHA-256 of {data}: {listed}."
    )
