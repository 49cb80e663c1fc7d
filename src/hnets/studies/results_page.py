"""The page of results, written from the results that ship and never by hand."""

from __future__ import annotations

from pathlib import Path

from hnets import plot as inspect
from hnets.files import replacing
from hnets.studies import ablation, beyond, table1, table2
from hnets.studies import results_store as store
from hnets.studies.results_store import Result
from hnets.studies.rows import BEYOND, TABLE1, TABLE2
from hnets.train.recipe import SHIPPED

__all__ = ["page", "write_page"]

FIGURE = "images/ablation.png"


def write_page(path: Path) -> list[Path]:
    """Write the page, and the figures beside it; what was written."""
    written = [path]
    full = {row.recipe: store.read(row.recipe) for row in TABLE1 if row.recipe}
    found = store.read(ablation.NAME)
    if found is not None:
        picture = ablation.figure(ablation.curves(found, full))
        written.append(inspect.save(picture, path.parent / FIGURE))
    with replacing(path) as part:
        part.write_text(page(), encoding="utf-8")
    return written


def page() -> str:
    """The page as Markdown."""
    digits, photographs = (
        {row.recipe: store.read(row.recipe) for row in table if row.recipe}
        for table in (TABLE1, TABLE2)
    )
    parts = [
        "# Results",
        "Written by `hnets reproduce table1 --page docs/results.md` from the results that the "
        "trainings left in `src/hnets/studies/results/`, one file a recipe. `hnets reproduce "
        "table1 --train`, `table2 --train` and `beyond --train` train every row again.",
        "## Table 1: rotated MNIST",
        table1.NOTE,
        table1.markdown(digits),
    ]
    found = store.read(ablation.NAME)
    if found is not None:
        parts += _ablation(found, digits)
    parts += ["## Table 2: boundaries in photographs", table2.NOTE, table2.markdown(photographs)]
    past = {row.recipe: store.read(row.recipe) for row in BEYOND if row.recipe}
    parts += ["## Past the paper", beyond.NOTE, beyond.markdown(past)]
    parts += ["## How the numbers were made"]
    parts += [_provenance({**digits, **past}, "rotmnist-r"), _provenance(photographs, "BSDS500")]
    parts += [part for name in {**digits, **photographs, **past} for part in _recipe(name)]
    return "\n\n".join(parts) + "\n"


def _ablation(found: Result, full: dict[str, Result | None]) -> list[str]:
    curves = ablation.curves(found, full)
    lines = ["| method | " + " | ".join(f"{size:,}" for size in curves[0].x) + " |"]
    lines.append("|---|" + "---|" * len(curves[0].x))
    for curve in curves:
        pairs = zip(curve.mean, curve.spread, strict=True)
        cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in pairs]
        lines.append(f"| {curve.label} | " + " | ".join(cells) + " |")
    seeds = next(iter(next(iter(found["errors"].values())).values()))["n"]
    return [
        "## Data ablation",
        "Test accuracy in percent when only the first so many pictures of the training set are "
        f"used, by the recipes of Table 1; {seeds} seeds each, the full set from Table 1.",
        "\n".join(lines),
        f"![Accuracy and error against the number of training pictures]({FIGURE})",
        "*Drawn by `hnets reproduce ablation`.* Left, as in the paper, each method's accuracy over "
        "its own best; right, the error itself.",
    ]


def _provenance(full: dict[str, Result | None], data: str) -> str:
    lines = [
        "| recipe | seeds | device | torch | commit | seconds for all seeds |",
        "|---|---|---|---|---|---|",
    ]
    for name, result in full.items():
        if result is None:
            continue
        spent = max(seed["seconds"] for seed in result["seeds"])
        told, changed = result["versions"], "+" if result["commit"].endswith("+") else ""
        lines.append(
            f"| {name} | {len(result['seeds'])} | {told['device']} | {told['torch']} | "
            f"{result['commit'][:10]}{changed} | {spent:,.0f} |"
        )
    hashes = {
        split: told["sha256"]
        for result in full.values()
        if result is not None
        for split, told in result["data"].items()
    }
    listed = ", ".join(f"{split} `{value[:16]}…`" for split, value in sorted(hashes.items()))
    together = (
        "Recipes that train side by side share a GPU, so a row's seconds are not the cost of the "
        "row alone. A + stands behind a commit if files had been changed since."
    )
    return "\n".join(lines) + f"\n\n{together} SHA-256 of {data}: {listed}."


def _recipe(name: str) -> list[str]:
    text = (SHIPPED / f"{name}.toml").read_text(encoding="utf-8").strip()
    return [f"### {name}", f"```toml\n{text}\n```"]
