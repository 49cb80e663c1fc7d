"""Where a training step spends its time on a GPU: the H-Net beside a plain CNN, by kind of kernel.

    python benchmarks/kernels.py                      # batch 46 and 256, in tf32 and bfloat16
    python benchmarks/kernels.py --device cpu         # operators of torch in place of kernels

Both networks have as many multiplications. On a GPU a step is replayed as a CUDA graph, so that
nothing waits for the host. Milliseconds per step; kernels that overlap count in full.
"""

import argparse
import os
import re
from collections import Counter
from collections.abc import Callable

import torch
from peers import plain_cnn
from timing import Precision, Step, allow_tf32, graphed, training_step
from torch import nn
from torch.profiler import ProfilerActivity, profile

import hnets

BATCHES = (46, 256)
STEPS = 20
KINDS = {
    "convolution": r"cudnn|cutlass|xmma|sm\d\d_|convol|implicit|nchw|nhwc|wgrad|dgrad|conv2d",
    "kernel assembly": r"^_assemble|_coefficients|HarmonicKernel",
    "norm and nonlinearity": r"^_forward|^_moments|^_backward|^_field|norm|relu|clamp|threshold",
    "magnitude and pooling": r"^_magnitude|^_halve|^_spread|pool",
    "optimiser": r"adam|multi_tensor|foreach",
}
"""Kinds of kernels, and what their names have in them; the first that fits counts."""
REST = "copies, sums and other"
LARGEST = 5


def main() -> None:
    """Print a table for each batch and precision."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--batch", type=int, nargs="+", default=BATCHES)
    options = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler writes lines to stderr
    for precision in ("float32",) if options.device == "cpu" else ("tf32", "bf16"):
        allow_tf32(precision != "float32")
        for batch in options.batch:
            steps = {
                name: step_of(make, batch, precision, options.device)
                for name, make in (("plain", plain_cnn), ("hnets", hnets.models.hnet_mnist))
            }
            times = {name: by_kernel(step, options.device) for name, step in steps.items()}
            print(f"\nTraining step, batch {batch}, {precision}, ms\n{table(times)}", flush=True)


def step_of(make: Callable[[], nn.Module], batch: int, precision: str, device: str) -> Step:
    """A training step of a new network, as a CUDA graph where there are such."""
    cuda = device == "cuda"
    step = training_step(Precision(make(), precision == "bf16"), batch, device, capturable=cuda)
    return graphed(step) if cuda else step


def by_kernel(step: Step, device: str) -> Counter[str]:
    """Milliseconds per step of each kernel, or of each operator without those that it calls."""
    cuda = device == "cuda"
    for _ in range(3):
        step()
    with profile(activities=[ProfilerActivity.CUDA if cuda else ProfilerActivity.CPU]) as record:
        for _ in range(STEPS):
            step()
        if cuda:
            torch.cuda.synchronize()
    spent = Counter[str]()
    for event in record.key_averages():
        micros = event.self_device_time_total if cuda else event.self_cpu_time_total
        spent[event.key] += micros / 1e3 / STEPS
    return spent


def table(times: dict[str, Counter[str]]) -> str:
    """The time of each kind for all networks, and the largest kernels of each."""
    kinds = {name: Counter[str]() for name in times}
    for name, spent in times.items():
        for kernel, value in spent.items():
            kinds[name][kind_of(kernel)] += value
    lines = [f"{'':24}" + "".join(f"{name:>10}" for name in times)]
    for kind in (*KINDS, REST):
        lines += [f"{kind:24}" + "".join(f"{kinds[name][kind]:10.3f}" for name in times)]
    lines += [f"{'all':24}" + "".join(f"{spent.total():10.3f}" for spent in kinds.values())]
    for name, spent in times.items():
        largest = (f"{k[:60]} {value:.3f}" for k, value in spent.most_common(LARGEST))
        lines += [f"{name}: {'; '.join(largest)}"]
    return "\n".join(lines)


def kind_of(kernel: str) -> str:
    """The kind of a kernel, by its name."""
    found = (kind for kind, words in KINDS.items() if re.search(words, kernel, re.IGNORECASE))
    return next(found, REST)


if __name__ == "__main__":
    main()
