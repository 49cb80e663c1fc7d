"""Score the weights of edge detectors on BSDS500, several seeds each, and time the networks.

    HNETS_DATA=... python benchmarks/score_edges.py SCORES WEIGHTS... --device cuda --jobs 16
    python benchmarks/score_edges.py SCORES --time     # on one CPU core, beside PiDiNet

WEIGHTS are files that training left, such as runs/bsds500-hedge-tiny/seed-1/model.safetensors; of
files with other names, the last number in the name is the seed, and without one, that of the
weights that ship. Writes SCORES/RECIPE.json for each
network, a result as `hnets reproduce edges --train` makes it, after each score: a second call goes
on where the first was stopped, and adds seeds. With --time, SCORES/edge-times.json is written.
With --ship these become the results of the package. Then write the pages: hnets reproduce edges
--page docs/results.md, and hnets models --page docs/models.md.
"""

import argparse
import re
import shutil
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pidinet
import torch
from rich.console import Console
from timing import interleaved

import hnets
from hnets.data.bsds import photos
from hnets.devices import cores
from hnets.models import model_card
from hnets.models._weights import FOLDER, WEIGHTS, read
from hnets.predict import EDGE_MODELS
from hnets.studies.retrain import SHIPPED, StoredResult, read_result, shipped_result
from hnets.studies.scoring import EDGE_WAYS, WAYS, add_scores, network_cost, summarise_scores
from hnets.train import read_recipe
from hnets.train.result import commit, versions, write_json

SIZE = (1, 3, 321, 481)
SECONDS = 1.0
"""That a sample of the time lasts."""


def main() -> None:
    """Score the weights, and time the networks of results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("scores", type=Path, help="folder of the results")
    parser.add_argument("weights", type=Path, nargs="*", help="files to score")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=EDGE_WAYS)
    parser.add_argument("--split", default="test", help="of BSDS500; others are for a try")
    parser.add_argument("--photos", type=int, help="only so many of them, for a try")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--fast", action="store_true", help="in bfloat16; for a try")
    parser.add_argument("--jobs", type=int, default=cores(), help="processes of the benchmark")
    parser.add_argument("--thresholds", type=int, default=99)
    parser.add_argument("--time", action="store_true", help="time the networks beside the H-DSN")
    parser.add_argument("--rounds", type=int, default=15, help="of the timing")
    parser.add_argument(
        "--ship", action="store_true", help="copy results into the package, scores into the cards"
    )
    options = parser.parse_args()
    options.scores.mkdir(parents=True, exist_ok=True)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    if options.weights:
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            for file in options.weights:
                score(file, options, pool, console)
    files = sorted(options.scores.glob("bsds500-*.json"))
    results = {path: r for path in files if (r := read_result(path.stem, path.parent))}
    for file, result in results.items():
        cost = result["cost"]["multiplications"]
        console.print(f"{file.stem}: {result['parameters']:,} parameters, {cost:,} multiplications")
        for way, scores in result["scores"].items():
            numbers = (f"{k.upper()} {v['mean']:.4f} ± {v['std']:.4f}" for k, v in scores.items())
            console.print(f"  {len(result['seeds'])} seeds, {way}: {', '.join(numbers)}")
    if options.time:
        times = measure_times(options.rounds)
        facts = {"times": times, "commit": commit(), "versions": versions(torch.device("cpu"))}
        write_json(facts, options.scores / "edge-times.json")
        console.print(f"time on a CPU core: {times}")
    if options.ship:
        for result in results.values():
            ship(result)
        for path in options.scores.glob("edge-times.json"):
            shutil.copy(path, SHIPPED)


def ship(result: StoredResult) -> None:
    """Make a result that of the package, and put the scores of the seed that ships on its card."""
    name = result["recipe"]["model"]["name"]
    card = model_card(name)
    of_seed = {seed["seed"]: seed["scores"] for seed in result["seeds"]}
    metrics = {"test": of_seed[card["recipe"]["seed"]]}
    write_json({**card, "metrics": metrics}, FOLDER / f"{name}.json")
    result["recipe"]["data"]["test"] = "test"  # which the training may not have looked at
    write_json({**result, "data": card["data"]}, SHIPPED / f"{result['name']}.json")


def score(file: Path, options: argparse.Namespace, pool: Executor, console: Console) -> None:
    """Add the scores of a file to the result of its recipe."""
    model = read(file).config.name
    name = f"bsds500-{model.replace('_', '-')}"
    numbers = re.findall(r"\d+", str(file).removesuffix(file.suffix))
    number = int(numbers[-1]) if numbers else model_card(model)["recipe"]["seed"]
    result = read_result(name, options.scores) or begin(name, file, options.device)
    if not any(seed["seed"] == number for seed in result["seeds"]):
        epochs = result["recipe"]["training"]["epochs"]
        result["seeds"].append({"seed": number, "epochs": epochs})
        result["seeds"].sort(key=lambda seed: seed["seed"])
    seed = next(seed for seed in result["seeds"] if seed["seed"] == number)
    chosen = photos(options.split)[: options.photos]
    console.print(f"{file}: {name}, {len(chosen)} photographs of {options.split}")
    detector = hnets.EdgeDetector(file, options.device, options.fast)
    for way in options.ways:
        add_scores(seed, detector, chosen, options.thresholds, [way], pool, console)
        summarise_scores(result, options.thresholds)
        write_json(result, options.scores / f"{name}.json")


def begin(name: str, file: Path, device: str) -> StoredResult:
    """The result that a training left beside its weights, or one of the recipe that ships."""
    run = file.absolute().parents[1]
    for folder, stem in ((run, "result"), (run.parent, name)):
        result = read_result(stem, folder)
        if file.name == WEIGHTS and result is not None and result["name"] == name:
            return {**result, "cost": network_cost(result["recipe"])}
    recipe = read_recipe(name).to_dict()
    return {
        "name": name,
        "recipe": recipe,
        "parameters": sum(p.numel() for p in hnets.load(file).parameters()),
        "cost": network_cost(recipe),
        "data": shipped_result("bsds500-hdsn")["data"],  # the same photographs
        "commit": commit(),
        "versions": versions(torch.device(device)),
        "seeds": [],
    }


def measure_times(rounds: int) -> dict[str, float]:
    """The time of each network for an image on one CPU core, relative to that of the H-DSN."""
    torch.set_num_threads(1)
    image = torch.rand(SIZE, generator=torch.Generator().manual_seed(0))

    def infer(net: torch.nn.Module) -> torch.Tensor:
        with torch.inference_mode():
            edges: torch.Tensor = net(image)
            return edges

    names = {"H-DSN": "hdsn", **EDGE_MODELS}
    ours = {name: hnets.freeze(hnets.create_model(model)) for name, model in names.items()}
    steps = {name: partial(infer, net) for name, net in {**ours, **pidinet.networks()}.items()}
    timings = interleaved(steps, rounds, SECONDS)
    return {name: round(ratio.median, 3) for name, ratio in timings.ratios(to="H-DSN").items()}


if __name__ == "__main__":
    main()
