"""A training step of `hnet_fourier_base` against a plain CNN of equal multiplications.

    python benchmarks/fourier.py --device cuda          # as CUDA graphs, tf32 and bf16
    python benchmarks/fourier.py --size small           # CPU

The plain CNN has the same kernels, as many real channels, batch norm and ReLU where the other has
its angular norm and nonlinearity, and the same pooling and head. Both are timed in turn in one run.
"""

import argparse
import copy

import torch
from peers import plainly
from timing import Precision, allow_tf32, graphed, interleaved, training_step

import hnets
from hnets.models._hnet_fourier import SIZES


def main() -> None:
    """Time both and print the ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--size", default="base", choices=list(SIZES))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds")
    args = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    net = hnets.create_model(f"hnet_fourier_{args.size}")
    nets = {"plain": plainly(net), "hnets": net}
    plain, ours = (hnets.cost(one, (1, 28, 28)).multiplications for one in nets.values())
    print(f"multiplications: plain {plain:,}, hnets {ours:,}")
    for precision in ("float32",) if args.device == "cpu" else ("bf16", "tf32"):
        allow_tf32(precision != "float32")
        cuda = args.device == "cuda"
        steps = {
            name: training_step(
                Precision(copy.deepcopy(one), precision == "bf16"), args.batch, args.device, cuda
            )
            for name, one in nets.items()
        }
        if cuda:
            steps = {name: graphed(step) for name, step in steps.items()}
        times = interleaved(steps, args.rounds, 0.3, args.device)
        print(f"\nTraining step of {args.size}, batch {args.batch}, {precision}")
        print(times.table(to="plain"), flush=True)


if __name__ == "__main__":
    main()
