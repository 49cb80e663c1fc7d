"""What trained networks are for: their data and its licence, scores, cost and limits.

The numbers are those of the weights' cards and of the results that ship.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hnets.models import list_models, model_card
from hnets.predict import EDGE_MODELS
from hnets.studies.numbers import Numbers
from hnets.studies.retrain import read_result
from hnets.studies.tables import EDGES, edge_times, in_short, short_score
from hnets.train import mean_and_spread


@dataclass(frozen=True)
class Task:
    """What is alike for all networks that were trained on a set of data."""

    data: str
    licence: str
    use: str
    limits: str


_DIGITS = (
    "`hnets digits`, `hnets.DigitClassifier`",
    "text, or photographs of digits that `hnets digits` has not prepared: the networks read single "
    "handwritten digits of one size, light on dark",
)
TASKS = {
    "bsds500": Task(
        "BSDS500 (Arbelaez et al., 2011): photographs, each annotated by four to nine people",
        "research use; ask its authors about other uses of networks trained on it",
        "`hnets edges`, `hnets.EdgeDetector`",
        "texture, drawings, text, medical images or depth maps: it was trained to find the "
        "outlines of objects in photographs, as people draw them",
    ),
    "rotmnist-r": Task(
        "rotmnist-r: digits of MNIST (LeCun et al., 1998), each rotated by a random angle",
        "MNIST's, which is free to use",
        *_DIGITS,
    ),
    "mnist": Task(
        "MNIST (LeCun et al., 1998): handwritten digits, upright", "free to use", *_DIGITS
    ),
}
"""By the name of the data."""


def card_page(name: str) -> str:
    """The card of weights that ship, as Markdown below a heading."""
    card = model_card(EDGE_MODELS.get(name, name))
    task, recipe = TASKS[card["recipe"]["data"]["name"]], card["recipe"]
    own = ".".join(filter(None, (card["model"], card["tag"])))
    short = _short_name(own)
    images = ", ".join(f"{split} {facts['images']:,}" for split, facts in card["data"].items())
    facts = {
        "for": task.use + (f", as `{short}`" if short != own else ""),
        "not for": task.limits,
        "size": _size(card, "H-DSN" if own == "hdsn" else short),
        "data": f"{task.data}; images: {images}",
        "licence of the data": task.licence,
        "trained by": f"recipe `{recipe['name']}`, seed {recipe['seed']}, "
        f"{recipe['training']['epochs']} epochs, from random weights{_taught(recipe)}",
    }
    lines = [f"- **{key}**: {value}" for key, value in facts.items()]
    return "\n\n".join([f"## {own}", "\n".join(lines), _scores(card).markdown()])


def _taught(recipe: Mapping[str, Any]) -> str:
    """Whose outputs were mixed into the labels, for the end of a sentence.

    >>> _taught({"name": "mine", "teachers": {"weight": 0.5, "recipe": "", "folds": 4}})
    ', with labels softened by 4 teachers of recipe `mine`'
    """
    rules = recipe.get("teachers", {})  # not in cards of before there were any
    if not rules.get("weight"):
        return ""
    teacher = rules["recipe"] or recipe["name"]
    return f", with labels softened by {rules['folds']} teachers of recipe `{teacher}`"


def _size(card: Mapping[str, Any], detector: str) -> str:
    parts = [f"{card['parameters']:,} parameters"]
    cost = (read_result(card["recipe"]["name"]) or {}).get("cost")
    if cost is not None:
        parts.append(f"{cost['multiplications'] / 1e9:.1f} G multiplications for 481×321 pixels")
    if (time := edge_times().get(detector)) is not None:
        parts.append(f"{time:.2f} times the H-DSN's time on a CPU core")
    return ", ".join(parts)


def _scores(card: Mapping[str, Any]) -> Numbers:
    """What the network reached, and the mean over the seeds of its recipe where they ship."""
    result = read_result(card["recipe"]["name"]) or {}
    if card["recipe"]["data"]["name"] == "bsds500":
        ways = {
            "none": "without suppression",
            "standard": "after non-maximum suppression",
            "scales": "three scales averaged, after suppression",
        }
        rows = [
            (text, *(in_short(scores[way], key) for key in ("ods", "ois", "ap")))
            for way, text in ways.items()
            if way in (scores := result.get("scores", {}))
        ]
        seeds = len(result.get("seeds", []))
        return Numbers(
            "",
            (f"test images, {seeds} {'seed' if seeds == 1 else 'seeds'}", "ODS", "OIS", "AP"),
            rows,
        )
    rows = [("these weights", f"{card['metrics']['test_error']:.2f}")]
    if "test" in result.get("summary", {}):
        seeds = result["summary"]["test"]
        rows.append((f"mean of {seeds['n']} seeds", mean_and_spread(seeds)))
    return Numbers("", ("test error, %", ""), rows)


def models_numbers() -> Numbers:
    """All weights that ship, in short."""
    rows = []
    for name in list_models(pretrained=True):
        card = model_card(name)
        if card["recipe"]["data"]["name"] == "bsds500":
            score, use = f"ODS {_ods(card)}", "edges"
        else:
            score, use = f"{card['metrics']['test_error']:.2f} % wrong", "digits"
        short, data = _short_name(name), card["recipe"]["data"]["name"]
        weights = name if short == name else f"{name} ({short})"
        rows.append((weights, f"{card['parameters']:,}", data, score, use))
    header = ("weights", "parameters", "data", "test", "for")
    return Numbers("Trained networks that ship", header, rows)


def detectors_numbers() -> Numbers:
    """Those that find edges: what each costs and reaches."""
    results, times, rows = EDGES.shipped(), edge_times(), list[tuple[str, ...]]()
    for row in EDGES.rows:
        if (result := results.get(row.recipe)) is not None:
            time = f"{times[row.method]:.2f}" if row.method in times else ""
            model = _short_name(result["recipe"]["model"]["name"])
            ods = in_short(result["scores"]["standard"], "ods")
            rows.append((model, f"{result['parameters']:,}", time, ods))
    return Numbers("", ("--model", "parameters", "CPU time, hdsn = 1", "ODS on BSDS500"), rows)


def _short_name(name: str) -> str:
    return next((short for short, model in EDGE_MODELS.items() if model == name), name)


def _ods(card: Mapping[str, Any]) -> str:
    result = read_result(card["recipe"]["name"]) or {}
    scores = result.get("scores", {}).get("standard")
    return short_score(scores["ods"]["mean"]) if scores else ""


def cards_page() -> str:
    """The page of all cards, as Markdown."""
    parts = [
        "# Trained networks",
        "The weights that ship with the package: their training data, scores and limits. Written "
        "by `hnets models --page docs/models.md` from the cards of the weights and the shipped "
        "[results](results.md). Use them with `hnets edges --model NAME` and `hnets digits --model "
        "NAME`; `hnets.load(name)` returns the network, and `hnets.models.model_card(name)` its "
        "card as a dictionary.",
        models_numbers().markdown(),
        *(card_page(name) for name in list_models(pretrained=True)),
    ]
    return "\n\n".join(parts) + "\n"
