"""The H-Net of 33,347 parameters against a plain CNN of equal multiplications, and escnn.

Light blocks too, against plain depthwise blocks of equal multiplications, and other networks of
`hnets.models`, against the same networks of plain layers.

    python benchmarks/layers.py                     # CPU: training, inference, memory
    python benchmarks/layers.py --device cuda       # also compiled and as a CUDA graph, tf32, bf16
    python benchmarks/layers.py --only "light block"    # tables with this in their title
    python benchmarks/layers.py --only hresnet18        # or hnet_fourier_small, hunet, hedge_small
    OMP_NUM_THREADS=1 python benchmarks/layers.py --cpu-time    # where others use the machine too

Everything in one table is timed in turn in one run. Ratios in a table are to the plain CNN, eager;
the line below compares both in the same form. Above 1 is slower than the plain CNN.
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path

import torch
from peers import (
    escnn_frozen,
    escnn_hnet,
    have_escnn,
    plain_cnn,
    plain_frozen,
    plain_light,
    plain_light_frozen,
    plainly,
)
from timing import (
    Precision,
    Step,
    Timings,
    allow_tf32,
    graphed,
    inference,
    interleaved,
    peak_memory,
    placed,
    served,
    training_step,
)
from torch import nn

import hnets

TRAINING = (46, 256)
INFERENCE = (1, 16, 256)
BLOCKS = ((1, 8, 160, 240), (1, 32, 48, 48), (32, 16, 28, 28))
"""Batch, fields per order, height and width of the light blocks, which have orders 0 to 2."""
NETWORKS = {
    "hnet_fourier_small": (32, 1, 28, 28),
    "hresnet18": (8, 3, 96, 96),
    "hunet": (1, 3, 96, 96),
    "hedge_small": (1, 3, 160, 240),
}
"""Networks of `hnets.models`, and the images that they are timed with."""
Make = Callable[[], nn.Module]
Rows = Callable[[], dict[str, Step]]


def main() -> None:
    """Measure what the arguments ask for and print it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds a table")
    parser.add_argument("--min-time", type=float, default=0.3, help="seconds a sample lasts")
    parser.add_argument("--compile", action="store_true", help="add compiled rows on cuda")
    parser.add_argument("--only", default="", help="tables whose title has this in it")
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the time of one thread, not the wall clock: for a machine that is not quiet",
    )
    parser.add_argument("--json", type=Path, help="also write medians and ratios to this file")
    args = parser.parse_args()
    if args.cpu_time and torch.get_num_threads() > 1:
        parser.error("--cpu-time counts one thread; set OMP_NUM_THREADS=1")
    clock = time.thread_time if args.cpu_time else time.perf_counter
    torch.manual_seed(0)
    print(f"torch {torch.__version__} on {_machine(args.device)}")
    results: dict[str, object] = {}
    for precision in ("float32",) if args.device == "cpu" else ("tf32", "bf16"):
        allow_tf32(precision != "float32")
        arguments = (args.device, precision == "bf16", args.compile)
        tables = (_tables, _block_tables, _network_tables)
        for name, rows in chain(*(some(*arguments) for some in tables)):
            title = f"{name}, {precision}"
            if args.only not in title:
                continue
            times = interleaved(rows(), args.rounds, args.min_time, args.device, clock)
            print(f"\n{title}\n{times.table(to='plain')}")
            print(f"hnets against plain: {_same_form(times)}", flush=True)
            results[title] = _summary(times)
            torch._dynamo.reset()  # or the next table's networks would count as recompilations
    memory = "Memory of a training step"
    if args.only in memory:
        print(f"\n{memory}, MiB beyond what is held before it")
    for batch in TRAINING if args.only in memory else ():
        plain, ours = (
            peak_memory(lambda make=make, batch=batch: training_step(make(), batch, args.device))
            for make in (plain_cnn, hnets.models.hnet_mnist)
        )
        ratio = ours.step / plain.step
        print(
            f"batch {batch}: plain {plain.step / 2**20:.1f}, hnets {ours.step / 2**20:.1f}, "
            f"ratio {ratio:.3f}"
        )
        results[f"Memory, batch {batch}"] = {"ratio": ratio}
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


def _tables(device: str, bf16: bool, compiled: bool) -> Iterator[tuple[str, Rows]]:
    arguments = (device, bf16, compiled)
    for batch in TRAINING:
        yield f"Training step, batch {batch}", partial(_training, batch, *arguments)
    for batch in INFERENCE:
        yield f"Inference, batch {batch}", partial(_inference, batch, *arguments)


def _training(batch: int, device: str, bf16: bool, compiled: bool) -> dict[str, Step]:
    rows: dict[str, Step] = {}
    for name, make in _networks(train=True).items():
        rows[name] = training_step(Precision(make(), bf16), batch, device)
        if device == "cuda" and name in ("plain", "hnets"):
            capturable = training_step(Precision(make(), bf16), batch, device, capturable=True)
            rows[f"{name}, CUDA graph"] = graphed(capturable)
            if compiled:
                net = torch.compile(Precision(make(), bf16), mode="reduce-overhead")
                rows[f"{name}, compiled"] = training_step(net, batch, device)
    return rows


def _inference(batch: int, device: str, bf16: bool, compiled: bool) -> dict[str, Step]:
    rows: dict[str, Step] = {}
    for name, make in _networks(train=False).items():
        rows[name] = inference(Precision(make(), bf16), batch, device)
        if device == "cuda" and compiled and name in ("plain", "hnets, frozen"):
            net = torch.compile(Precision(make(), bf16), mode="reduce-overhead")
            rows[f"{name}, compiled"] = inference(net, batch, device)
    if device == "cpu" and importlib.util.find_spec("onnxruntime"):
        rows["plain, onnxruntime"] = served(plain_cnn(), batch)
        rows["hnets, onnxruntime"] = served(hnets.models.hnet_mnist(), batch)
    return rows


def _block_tables(device: str, bf16: bool, compiled: bool) -> Iterator[tuple[str, Rows]]:
    """Light blocks with mirrors, 5×5, in training (forward and backward) and inference."""
    for batch, fields, height, width in BLOCKS:
        streams = hnets.Streams(f"{fields}x0r + {fields}x1 + {fields}x2")
        light = hnets.nn.LightBlock(streams, streams, 5, mirror=True)
        total = hnets.cost(light, (streams.channels, height, width)).multiplications
        plain = plain_light(total / (height * width), 5)
        shapes = {
            "plain": (batch, plain.body[0].in_channels, height, width),
            "hnets": (batch, streams.channels, height, width),
        }
        title = f"light block, {fields} fields, {batch}×{height}×{width}"
        nets = {"plain": plain, "hnets": light}
        rows = partial(_forms, device=device, bf16=bf16, compiled=compiled)
        yield f"Training, {title}", partial(rows, nets, shapes, True)
        frozen = {"plain": plain_light_frozen(plain), "hnets, frozen": hnets.freeze(light)}
        yield f"Inference, {title}", partial(rows, frozen, shapes, False)


def _network_tables(device: str, bf16: bool, compiled: bool) -> Iterator[tuple[str, Rows]]:
    """Networks of `hnets.models` beside themselves with plain layers, which keep their norms."""

    def rows(name: str, shape: tuple[int, ...], train: bool) -> dict[str, Step]:
        net = hnets.create_model(name)
        plain = plainly(net)
        ours, theirs = (hnets.cost(one, shape[1:]).multiplications for one in (net, plain))
        print(f"\n{name}: multiplications {ours:,}, of the plain network {theirs:,}")
        nets = {
            "plain": plain,
            **({"hnets": net} if train else {"hnets, frozen": hnets.freeze(net)}),
        }
        return _forms(nets, dict.fromkeys(("plain", "hnets"), shape), train, *arguments)

    arguments = (device, bf16, compiled)
    for name, (batch, channels, height, width) in NETWORKS.items():
        title, shape = f"{name}, {batch}×{height}×{width}", (batch, channels, height, width)
        yield f"Training, {title}", partial(rows, name, shape, True)
        yield f"Inference, {title}", partial(rows, name, shape, False)


def _forms(
    nets: dict[str, nn.Module],
    shapes: dict[str, tuple[int, ...]],
    train: bool,
    device: str,
    bf16: bool,
    compiled: bool,
) -> dict[str, Step]:
    """Forward, in training and backward, of networks: as they are, compiled and as CUDA graphs."""
    rows: dict[str, Step] = {}
    for name, net in nets.items():
        shape, step = shapes[name.split(",")[0]], _both_ways if train else _forward
        rows[name] = step(Precision(net, bf16), shape, device)
        if device == "cuda":
            rows[f"{name}, CUDA graph"] = graphed(rows[name])
            if compiled:
                faster = torch.compile(Precision(net, bf16), mode="reduce-overhead")
                rows[f"{name}, compiled"] = step(faster, shape, device)
    return rows


def _both_ways(net: nn.Module, shape: tuple[int, ...], device: str) -> Step:
    net = placed(net, device).train()
    x = placed(torch.randn(shape), device).requires_grad_()

    def step() -> None:
        net(x).square().mean().backward()
        net.zero_grad()
        x.grad = None

    return step


def _forward(net: nn.Module, shape: tuple[int, ...], device: str) -> Step:
    net, x = placed(net, device).eval(), placed(torch.randn(shape), device)

    def infer() -> torch.Tensor:
        with torch.inference_mode():
            maps: torch.Tensor = net(x)
            return maps

    return infer


def _networks(train: bool) -> dict[str, Make]:
    hnet = hnets.models.hnet_mnist
    networks: dict[str, Make] = {"plain": plain_cnn}
    if train:
        networks["hnets"] = hnet
    else:
        networks["plain, norms folded"] = lambda: plain_frozen(plain_cnn())
        networks["hnets, frozen"] = lambda: hnets.freeze(hnet())
        networks["hnets, not frozen"] = hnet
    if have_escnn():
        for name, paired in (("escnn", False), ("escnn, paired", True)):
            if train:
                networks[name] = lambda paired=paired: escnn_hnet(paired)
            else:
                networks[f"{name}, exported"] = lambda paired=paired: escnn_frozen(
                    escnn_hnet(paired)
                )
    return networks


def _same_form(times: Timings) -> str:
    """Ours over plain for every form that both were timed in, per round, medians."""
    forms = {
        "as it is": ("plain", "hnets"),
        "CUDA graph": ("plain, CUDA graph", "hnets, CUDA graph"),
        "compiled": ("plain, compiled", "hnets, compiled"),
        "frozen": ("plain", "hnets, frozen"),
        "frozen, CUDA graph": ("plain, CUDA graph", "hnets, frozen, CUDA graph"),
        "both folded": ("plain, norms folded", "hnets, frozen"),
        "onnxruntime": ("plain, onnxruntime", "hnets, onnxruntime"),
        "frozen and compiled": ("plain, compiled", "hnets, frozen, compiled"),
    }
    there = {form: pair for form, pair in forms.items() if times.seconds.keys() >= set(pair)}
    return ", ".join(
        f"{form} {times.ratios(to=plain)[ours].median:.3f}" for form, (plain, ours) in there.items()
    )


def _summary(times: Timings) -> dict[str, dict[str, float]]:
    ratios = times.ratios(to="plain")
    return {name: {"seconds": times.median(name), "ratio": ratios[name].median} for name in ratios}


def _machine(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{torch.get_num_threads()} CPU threads"


if __name__ == "__main__":
    main()
